"""Result files: small, whole, checked, and what is made of several."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reproduction.results.curve import POINTS, curve_of, smoothness
from reproduction.results.over_seeds import Spread
from reproduction.results.packing import OUTPUT_UNIT, pack_image, pack_outputs, unpack_image, unpack_outputs
from reproduction.results.quantities import count, foreign, posterior, scatter, score
from reproduction.results.result_files import Result, Results, make_result, read_result, write_result
from tests.reproduction.synthetic import ENVIRONMENT, evaluation, example, made_up, records
from tribayes.recipes.experiments import EXPERIMENTS

LENET = EXPERIMENTS["mnist-lenet100"]
IMAGES = torch.randint(0, 256, (20, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = made_up("mnist-lenet100", 0, images=IMAGES)
    path = write_result(tmp_path, written)
    assert path == tmp_path / "mnist-lenet100" / "seed-0.json"
    assert read_result(path) == written
    assert [file.name for file in path.parent.iterdir()] == ["seed-0.json"]


@pytest.mark.parametrize("name", ["mnist-lenet100", "cifar10", "digits-frequentist"])
def test_a_file_is_small(tmp_path: Path, name: str) -> None:
    # noise: no photograph compresses worse; that of 16 shades takes more room than Fashion-MNIST's images do
    colour = torch.randint(0, 256, (300, 3, 32, 32), dtype=torch.uint8)
    images = colour if name == "cifar10" else IMAGES // 16 * 16
    for seed in (0, 1):
        path = write_result(tmp_path, made_up(name, seed, images=images, wrong=16 if name == "mnist-lenet100" else 400))
        assert path.stat().st_size < (40_000 if seed == 0 else 20_000)


def test_outputs_and_images_are_kept_for_seed_0_of_the_catalogue_alone() -> None:
    first, second = (made_up("mnist-lenet100", seed, images=IMAGES) for seed in (0, 1))
    trial = made_up("trials/warm", 0, LENET.changed(kl_warmup=10), images=IMAGES)
    assert first.evaluation["examples"]["hopeless"]["image"]
    assert len(first.evaluation["confidently_wrong"]["images"]) == 5
    for other in (second, trial):
        assert "examples" not in other.evaluation
        assert "images" not in other.evaluation["confidently_wrong"]


def test_images_are_those_of_the_numbers() -> None:
    found = made_up("mnist-lenet100", 0, images=IMAGES).evaluation
    for each in found["examples"].values():
        torch.testing.assert_close(unpack_image(each["image"]), IMAGES[each["index"]] / 255)
    for index, packed in zip(found["confidently_wrong"]["index"], found["confidently_wrong"]["images"], strict=True):
        torch.testing.assert_close(unpack_image(packed), IMAGES[index] / 255)
    colour = made_up("cifar10", 0, images=torch.zeros(20, 3, 32, 32, dtype=torch.uint8)).evaluation
    assert "images" not in colour["confidently_wrong"]


def test_packing_loses_nothing() -> None:
    outputs = example("hopeless", 3)["outputs"]
    assert unpack_outputs(pack_outputs(outputs)).tolist() == outputs
    assert max(map(max, outputs)) <= OUTPUT_UNIT
    floats = torch.rand(3, 5, 4)
    torch.testing.assert_close(unpack_image(pack_image(floats)), floats, rtol=0, atol=0.5 / 255 + 1e-6)


def test_more_than_sixteen_wrong_images_are_not_stored() -> None:
    found = made_up("mnist-lenet100", 0, images=IMAGES, wrong=20).evaluation["confidently_wrong"]
    assert len(found["index"]) == 20
    assert len(found["images"]) == 16


def spoiled(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def test_bad_files_are_refused_by_name(tmp_path: Path) -> None:
    path = write_result(tmp_path, made_up("digits", 2))
    good = path.read_text()
    with pytest.raises(ValueError, match=r"seed-2\.json.*must have the format 1; it has 7; run it again"):
        read_result(spoiled(path, format=7))
    path.write_text(good)
    with pytest.raises(ValueError, match=r"must have the fields of a result; look at \['colour'\]"):
        read_result(spoiled(path, colour=1))
    path.write_text(good)
    with pytest.raises(ValueError, match=r"must lie at digits/seed-3\.json, as its content says"):
        read_result(spoiled(path, seed=3))
    path.write_text(good[:100])
    with pytest.raises(ValueError, match=r"seed-2\.json"):
        Results.read(tmp_path)


def test_a_name_that_is_no_folder_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`experiment` \(='\.\./digits'\) must be a name for a folder"):
        make_result("../digits", 0, LENET, records(LENET), evaluation(LENET, 0, 0.01), ENVIRONMENT)


def test_a_result_that_is_no_number_is_not_written(tmp_path: Path) -> None:
    bad = replace(made_up("digits", 0), seconds=math.nan)
    with pytest.raises(ValueError, match="JSON"):
        write_result(tmp_path, bad)
    assert not list(tmp_path.rglob("*.json"))


def test_a_folder_without_results_has_none(tmp_path: Path) -> None:
    results = Results.read(tmp_path / "nowhere")
    assert list(results) == []
    assert results.runs("digits") == []
    assert results.spread("digits", score("error")) is None
    assert results.full("digits") is None


def test_mean_and_spread_are_over_seeds(tmp_path: Path) -> None:
    errors = {0: 0.010, 1: 0.013, 2: 0.019}
    for seed, error in errors.items():
        write_result(tmp_path, made_up("digits", seed, error=error))
    write_result(tmp_path, made_up("trials/other", 0, EXPERIMENTS["digits"].changed(tau=0.1), error=0.5))
    found = Results.read(tmp_path).spread("digits", score("error"))
    assert found is not None
    assert found.mean == pytest.approx(statistics.fmean(errors.values()))
    assert found.std == pytest.approx(statistics.stdev(errors.values()))
    assert found.count == 3


def test_seeds_of_one_experiment_have_one_setting() -> None:
    other = made_up("digits", 1, EXPERIMENTS["digits"].changed(tau=0.1))
    with pytest.raises(ValueError, match=r"`result files` \(='digits'\) must have one setting for all seeds"):
        Results([made_up("digits", 0), other])


def test_a_trial_is_what_it_changes() -> None:
    assert made_up("digits", 0).changes == {}
    trial = made_up("trials/warm", 0, LENET.changed(kl_warmup=10, prior_scale={"fc*": 2.0}))
    assert trial.changes == {"kl_warmup": 10, "prior_scale": {"fc*": 2.0}}
    foreign_base = replace(trial, setting=LENET.changed(name="of another version"))
    assert set(foreign_base.changes) == set(LENET.as_dict())
    assert list(Results([trial, made_up("digits", 0)]).trials()) == ["trials/warm"]


def test_single_figures() -> None:
    run: Result = made_up("mnist-lenet100", 0)
    plain = made_up("mnist-lenet100-frequentist", 0)
    assert score("nll")(run) == run.evaluation["nll"]
    assert count("0.99", "wrong_certain")(run) == run.evaluation["certain"]["0.99"]["wrong_certain"]
    assert posterior("conv2.weight", "tau")(run) == pytest.approx(0.15)
    assert foreign("certain_outside", "0.95")(run) == 0.2
    assert foreign("auroc_entropy")(run) == 0.97
    assert scatter("relative")(run) == run.smoothness["relative"]
    for figure in (
        count("0.99", "wrong_certain"),
        posterior("conv2.weight", "tau"),
        foreign("certain_outside", "0.95"),
    ):
        assert figure(plain) is None


def test_a_long_curve_is_thinned_to_its_ends() -> None:
    every = records(LENET, every=100)
    curve = curve_of(every)
    assert len(curve["iteration"]) == POINTS < len(every)
    assert curve["iteration"][0] == every[0].iteration
    assert curve["iteration"][-1] == LENET.iterations
    steps = [b - a for a, b in zip(curve["iteration"], curve["iteration"][1:], strict=False)]
    assert max(steps) - min(steps) <= 100
    assert curve["loss"][-1] == pytest.approx(every[-1].loss, rel=1e-3)
    assert set(curve["tau"]) == {f"{layer}.weight" for layer in ("conv1", "conv2", "fc1", "fc2")}
    assert curve["rho"]["fc2.weight"][-1] == pytest.approx(every[-1].rho["fc2.weight"], rel=1e-3)
    short = records(LENET, every=10_000)
    assert curve_of(short)["iteration"] == [record.iteration for record in short]


def test_smoothness_is_the_median_of_the_second_half() -> None:
    base = records(LENET)[0]
    spreads = [(1000, 9.0, 1.0), (2000, 9.0, 1.0), (3000, 0.4, 2.0), (4000, 0.1, 1.0)]
    found = smoothness([replace(base, iteration=i, nll_std=std, nll=mean) for i, std, mean in spreads])
    assert found == {"absolute": 0.25, "relative": pytest.approx(0.15), "records": 2}
    with pytest.raises(ValueError, match="must hold at least one; train first"):
        smoothness([])


def test_a_single_seed_has_no_spread() -> None:
    assert Spread.of([]) is None
    assert Spread.of([2.0]) == Spread(2.0, None, 1)
