"""Tables that are none, or not what was meant: one sentence each, and nothing written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.own.cases import complaint, rows_of, write_csv
from tribayes.own.table_file import read_table

pandas = pytest.importorskip("pandas", reason="tables are read with pandas")

Change = Callable[[list[str]], list[str]]


def changed(path: Path, change: Change) -> Path:
    """A good table with its lines changed."""
    lines = write_csv(path, rows_of()).read_text().splitlines()
    path.write_text("\n".join(change(lines)) + "\n")
    return path


def cell(line: str, place: int, text: str) -> str:
    cells = line.split(",")
    return ",".join([*cells[:place], text, *cells[place + 1 :]])


BAD: dict[str, tuple[Change, str]] = {
    "a row too long": (lambda t: [*t[:5], t[5] + ",1", *t[6:]], "but line 6 has 7; correct that line"),
    "a row too short": (lambda t: [*t[:5], "a,b", *t[6:]], "but line 6 has 2; correct that line"),
    "Excel's word above the header": (
        lambda t: ["sep=,", *t],
        "but line 2 has 6; take away what stands above the names",
    ),
    "a title above the header": (
        lambda t: ["People", *t],
        "but it has 1; separate columns by comma, semicolon, tab or |, ",
    ),
    "a word among numbers": (
        lambda t: [*t[:5], cell(t[5], 1, "tall"), *t[6:]],
        "column 'height': 'tall'\") must hold numbers alone, but does not in row 5; correct them, or leave unknown",
    ),
    "words among numbers": (
        lambda t: [*t[:5], *(cell(x, 1, "tall") for x in t[5:8]), *t[8:]],
        "must hold numbers alone, but does not in row 5, nor in 2 others; correct them, or leave unknown",
    ),
    "an infinite number": (
        lambda t: [*t[:5], cell(t[5], 1, "inf"), *t[6:]],
        "column 'height', row 5\") must hold finite numbers",
    ),
    "a number out of all proportion": (
        lambda t: [*t[:5], cell(t[5], 1, "1e150"), *t[6:]],
        "column 'height', row 5: 1e+150\") must lie within 1,000,000 standard deviations of the mean",
    ),
    "a target out of all proportion": (
        lambda t: [*t[:5], cell(t[5], 4, "-1e140"), *t[6:]],
        "column 'price', row 5: -1e+140\") must lie within 1,000,000 standard deviations of the mean",
    ),
    "a word among the targets": (
        lambda t: [*t[:5], cell(t[5], 4, "much"), *t[6:]],
        "column 'price': 'much'\") must hold numbers alone",
    ),
    "a constant target": (lambda t: [t[0], *(cell(x, 4, "3.5") for x in t[1:])], "differ from row to row, but it is"),
    "no target in any row": (
        lambda t: [t[0], *(cell(x, 4, "") for x in t[1:])],
        "be known in some rows, but it is empty",
    ),
    "ten rows": (lambda t: t[:11], "`DATA` (='10 rows') must have at least 60 rows with a target"),
    "prices with their sign": (
        lambda t: [t[0], *(cell(x, 4, "$" + x.split(",")[4]) for x in t[1:])],
        "which 'price' is not; its cells look like numbers, but not as they are read, such as '$",
    ),
    "a header alone": (lambda t: t[:1], "must have rows below its header"),
    "nothing": (lambda _: [""], "must begin with a line of column names"),
    "two columns of one name": (
        lambda t: [t[0].replace("id", "dear"), *t[1:]],
        "but 'dear' is there twice; rename one",
    ),
    "columns without a name": (
        lambda t: [t[0] + ",,", *(x + ",," for x in t[1:])],
        "have a name for each column but one at most, but 2 have none; name these columns, or take them away",
    ),
    "one column": (lambda t: [x.split(",")[4] for x in t], "have 2 to 10,000 columns, but it has 1"),
    "a quote that is never closed": (lambda t: [*t[:5], '"' + t[5], *t[6:]], "must be a CSV table"),
    "nothing to learn from": (lambda t: [",".join(x.split(",")[3:5]) for x in t], "have a column to learn from"),
}


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    change, words = BAD[name]
    data = changed(tmp_path / "table.csv", change)
    assert words in complaint("fit", data, "--target", "price", "--task", "regression", "--run", tmp_path / "run")
    assert not (tmp_path / "run").exists()


CLASSES: dict[str, tuple[Change, str]] = {
    "one class": (lambda t: [t[0], *(cell(x, 5, "no") for x in t[1:])], "but all rows that have one are 'no'"),
    "a class that is called nothing": (
        lambda t: [t[0], *(cell(x, 5, "None" if x.endswith("yes") else "no") for x in t[1:])],
        "but all rows that have one are 'no'; choose another; empty cells and the words NA, nan, null and None say",
    ),
    "ten rows of ten kinds": (
        lambda t: [t[0], *(cell(x, 5, str(n)) for n, x in enumerate(t[1:11]))],
        "at least 60 rows",
    ),
    "prices as classes": (
        lambda t: [t[0], *(cell(x, 5, f"${n}.50") for n, x in enumerate(t[1:]))],
        "but '$0.50' has 1; its cells look like numbers, but not as they are read, such as '$0.50': write 1234.5.",
    ),
    "a class of one row": (lambda t: [*t[:5], cell(t[5], 5, "perhaps"), *t[6:]], "but 'perhaps' has 1; gather more"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    change, words = CLASSES[name]
    data = changed(tmp_path / "table.csv", change)
    assert words in complaint("fit", data, "--target", "dear", "--run", tmp_path / "run")
    assert not (tmp_path / "run").exists()


BYTES = {
    "zeros": (b"a,b\n1,\0\n", "must be text, but line 2 holds a zero byte"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "be text in UTF-8, but it holds the byte 0x89"),
    "Latin-1": ("größe,b\n1,2\n".encode("latin-1"), "save it as UTF-8 (in a spreadsheet: CSV UTF-8)"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "be text in UTF-8, but it holds the byte 0xff"),
}


@pytest.mark.parametrize("name", BYTES)
def test_what_is_no_text_is_refused(name: str, tmp_path: Path) -> None:
    content, words = BYTES[name]
    (tmp_path / "table.csv").write_bytes(content)
    assert words in complaint("fit", tmp_path / "table.csv", "--target", "b", "--run", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    data = tmp_path / "large.csv"
    with data.open("wb") as file:
        file.truncate(1_000_000_000)  # a hole: it takes no room on the disk
    said = complaint("fit", data, "--target", "y", "--run", tmp_path / "run")
    assert "must have at most 500 MB, but it has 1,000; take a part of its rows" in said


@pytest.mark.parametrize("damage", ["words", "notes", "kinds"])
def test_parquet_whose_words_or_notes_are_damaged_is_refused(tmp_path: Path, damage: str) -> None:
    """Arrow reads these without a word; pandas would stumble over them later."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    frame = pandas.DataFrame({"x": [1, 2], "y": ["a", "b"]})
    table = arrow.Table.from_pandas(frame)
    notes = table.schema.metadata[b"pandas"]
    if damage == "words":
        lengths, letters = (arrow.py_buffer(each) for each in (bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]), b"\xffb"))
        table = table.set_column(1, "y", arrow.StringArray.from_buffers(2, lengths, letters))
    elif damage == "notes":
        table = table.replace_schema_metadata({b"pandas": notes.replace(b"numpy_type", b"numpy_tipe")})
    else:
        table = table.replace_schema_metadata({b"pandas": notes.replace(b"int64", b"int6X")})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"(?s)^`DATA` .* must be a Parquet table \(.+\); write it again\."):
        read_table(tmp_path / "t.parquet")


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet is read with pyarrow")
    data = tmp_path / "table.parquet"
    pandas.DataFrame(rows_of()).to_parquet(data)
    content = data.read_bytes()
    data.write_bytes(content[: len(content) // 2])
    assert "must be a Parquet table" in complaint("fit", data, "--target", "price", "--run", tmp_path / "run")
    data.write_bytes(b"garbage")
    assert "must be a Parquet table" in complaint("fit", data, "--target", "price", "--run", tmp_path / "run")


def test_what_is_neither_data_nor_an_experiment(tmp_path: Path) -> None:
    said = complaint("fit", "nothing", "--run", tmp_path / "run")
    assert said.startswith("`NAME` (='nothing') must name an experiment, or be a table (.csv, .parquet) or a folder")
    assert "must be a file; correct the name" in complaint("fit", tmp_path / "no.csv", "--target", "y")
    (tmp_path / "sheet.xlsx").write_bytes(b"PK")
    assert "must end in .csv, .tsv" in complaint("fit", tmp_path / "sheet.xlsx", "--run", tmp_path / "run")
    (tmp_path / "many.parquet").mkdir()
    said = complaint("fit", tmp_path / "many.parquet", "--target", "y", "--run", tmp_path / "run")
    assert "must be a file, but it is a folder; pass one of the tables in it" in said


def test_the_target_has_to_be_named(tmp_path: Path) -> None:
    data, at = write_csv(tmp_path / "table.csv", rows_of()), ("--run", tmp_path / "run")
    assert "name the column to predict: 'id', 'height'" in complaint("fit", data, *at)
    assert complaint("fit", data, "--target", "prise", *at).endswith("did you mean 'price'?.")
    assert complaint("fit", data, "--target", "x", *at).endswith("a CSV file's first line has them.")
    assert "not the target" in complaint("fit", data, "--target", "price", "--ignore", "price", *at)
    said = complaint("fit", data, "--target", "price", "--ignore", "id,dear", *at)
    assert said.endswith("correct the name; of several columns each has an --ignore of its own.")
    nothing = [word for name in ("id", "height", "colour", "always", "dear") for word in ("--ignore", name)]
    said = complaint("fit", data, "--target", "price", *nothing, *at)
    assert said == "`DATA` (=[]) must have a column to learn from; ignore fewer."
    assert "be for a column of numbers" in complaint("fit", data, "--target", "dear", "--task", "regression", *at)
    assert "`--task` (='sorting')" in complaint("fit", data, "--target", "dear", "--task", "sorting", *at)


def test_options_are_for_one_or_the_other(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "table.csv", rows_of())
    assert "be for your own data" in complaint("fit", "digits", "--target", "y")
    assert "be for experiments" in complaint("fit", data, "--target", "price", "--validation", 5)
    assert "name a field of a setting: network" not in complaint("fit", data, "--set", "bias_rate=2")
    wild = ("--target", "price", "--ignore", "dear", "--set", "learning_rate=1e9", "--set", "kl_weight=1")
    said = complaint("fit", data, *wild, "--run", tmp_path / "wild")
    assert said.startswith("the loss of step 2 is not finite: ")
    assert said.endswith("Nothing of this step was applied.")
    for key, value, most in (("learning_rate", 1e38, "1e+30"), ("weight_decay", 1e38, "1e+06")):
        said = complaint("fit", data, "--target", "price", "--set", f"{key}={value}", "--run", tmp_path / "far")
        assert said == f"`{key}` (={value}) must be at most {most}; change the value."
    assert "lie between 0 and 10,000" in complaint("fit", data, "--target", "price", "--set", "width=20000")


@pytest.mark.parametrize("words", [("--iterations", 0), ("--set", "kl_weight=0"), ("--set", "width=-1")])
def test_nothing_of_something_is_refused(words: tuple[object, ...], tmp_path: Path) -> None:
    """In a setting 0 says that the data choose: who asked for no divergence got one."""
    data = write_csv(tmp_path / "table.csv", rows_of())
    said = complaint("fit", data, "--target", "price", "--run", tmp_path / "run", *words)
    assert said.endswith("must be more than 0; leave it out, and one is chosen.")


def test_pandas_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_csv(tmp_path / "table.csv", rows_of())
    monkeypatch.setitem(sys.modules, "pandas", None)
    said = complaint("fit", data, "--target", "price", "--run", tmp_path / "run")
    assert said.endswith("which is not installed; install it with: pip install 'tribayes[table]'")
