"""The table of docs/own-data.md is what the stored results say, whichever tables they have."""

from __future__ import annotations

from benchmarks import own_data

VALUES = {
    "seeds": 2,
    "test_rows": 176,
    "covered": 0.9659,
    "by_seed": [0.943, 1.0],
    "size": [230.0, 250.0],
    "rmse": [50, 52],
}
CLASSES = {
    "seeds": 3,
    "test_rows": 108,
    "covered": 0.95,
    "by_seed": [0.9, 0.95, 1.0],
    "size": [1.0, 1.0, 1.5],
    "error": [0.1],
}


def test_every_table_has_its_line() -> None:
    said = own_data.block({"houses": VALUES, "breast_cancer": CLASSES})
    assert "| houses (values) | 2 | 176 | 96.6 % | 94.3 to 100.0 % | width 240, RMSE 51 |" in said
    assert "| breast cancer (classes) | 3 | 108 | 95.0 % | 90.0 to 100.0 % | 1.17 classes |" in said
    assert said.endswith("One division judges by 36 to 88 rows, so it says little by itself.\n")
    assert "judges by 88 rows" in own_data.block({"houses": VALUES})


def test_shares_are_over_all_test_rows() -> None:
    held = [{"covered": 0.9, "examples": 10, "size": 2.0}, {"covered": 1.0, "examples": 30, "size": 3.0}]
    found = own_data.summary([{"conformal": one, "rmse": 1.0} for one in held])
    assert found["covered"] == (0.9 * 10 + 30) / 40
    assert found["size"] == [2.0, 3.0]


def test_the_page_is_up_to_date() -> None:
    own_data.main(["--check"])
