"""The paper's tables are consistent with each other, and targets are judged by the numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reproduction.paper import printed
from reproduction.results.over_seeds import Spread
from reproduction.results.result_files import Result, Results
from reproduction.results.targets import Measured, Target, targets, verdict
from tests.reproduction.synthetic import made_up
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.recipe_trainer import build_model


@pytest.mark.parametrize("name", printed.CERTAIN)
def test_counts_add_up_to_the_test_set_and_to_the_error(name: str) -> None:
    for counts in printed.CERTAIN[name].values():
        wrong = counts.wrong_certain + counts.wrong_uncertain
        assert wrong + counts.correct_certain + counts.correct_uncertain == 10_000
        assert wrong / 10_000 == pytest.approx(printed.ERRORS[name])


def test_figures_bear_names_of_the_catalogue() -> None:
    assert set(printed.ERRORS) | set(printed.POSTERIORS) | set(printed.CERTAIN) <= set(EXPERIMENTS)


@pytest.mark.parametrize("name", printed.POSTERIORS)
def test_layers_are_those_of_the_network(name: str) -> None:
    names = [name for name, _ in build_model(EXPERIMENTS[name], seed=0).module.named_parameters()]
    assert names == [f"{layer.name}.{part}" for layer in printed.POSTERIORS[name] for part in ("weight", "bias")]


def as_in_the_paper(name: str, seed: int, **scores: float) -> Result:
    """A run that found exactly the paper's figures, but for those given."""
    run = made_up(name, seed)
    found = dict(run.evaluation) | {"error": printed.ERRORS.get(name, 0.19)} | scores
    if name in printed.POSTERIORS:
        found["posterior"] = [
            {"name": f"{layer.name}.{part}", "K": 1, "tau": tau, "rho": rho}
            for layer in printed.POSTERIORS[name]
            for part, tau, rho in (("weight", layer.tau, layer.rho), ("bias", layer.bias_tau, layer.bias_rho))
        ]
        found["certain"] = {level: dict(vars(counts)) for level, counts in printed.CERTAIN[name].items()}
    return replace(run, evaluation=found)


def everything(**scores: float) -> list[Result]:
    names = [name for name in printed.ERRORS if not name.endswith("frequentist")]
    twins = [f"{name}-frequentist" for name in names]
    runs = [as_in_the_paper(name, seed, **scores) for name in names for seed in range(3)]
    return runs + [as_in_the_paper(name, seed) for name in twins for seed in range(3)]


def judged(results: list[Result]) -> dict[tuple[str, str], Measured | None]:
    return {(target.subject, target.requirement): target.measure(Results(results)) for target in targets()}


def find(part: str, subject: str) -> Target:
    (found,) = [each for each in targets() if part in each.requirement and each.subject == subject]
    return found


def spread(*values: float) -> Spread:
    found = Spread.of(values)
    assert found is not None
    return found


def test_the_papers_own_figures_miss_nothing() -> None:
    """What has to be at most the paper's and is exactly so lies within error; what has a distance to keep is met."""
    for (subject, requirement), measured in judged(everything()).items():
        if subject == "CIFAR-10, ours":
            assert measured is None
            continue
        at_the_limit = "at most" in requirement
        assert verdict(measured) == ("within error" if at_the_limit else "met"), (subject, requirement, measured)


def test_nothing_run_is_not_met_and_not_missed() -> None:
    assert {verdict(measured) for measured in judged([]).values()} == {"not run"}


@pytest.mark.parametrize(
    ("errors", "word"),
    [
        # standard deviation 0.001: the interval is the mean ± 4.303 · 0.001 / √3, that is ± 0.00248
        ((0.1997, 0.2007, 0.2017), "met"),  # 0.2007 + 0.00248 < 0.2032
        ((0.1998, 0.2008, 0.2018), "within error"),
        ((0.2022, 0.2032, 0.2042), "within error"),
        ((0.2046, 0.2056, 0.2066), "within error"),
        ((0.2047, 0.2057, 0.2067), "**missed**"),
        ((0.1992, 0.1993, 0.2111), "within error"),
        ((0.2032, 0.2032, 0.2032), "within error"),  # at the limit, without any spread
        ((0.2031, 0.2031, 0.2031), "met"),
        ((0.1,), "one seed cannot tell"),
        # of two seeds: ± 12.706 · 0.0014142 / √2 = ± 0.0127
        ((0.1892, 0.1912), "met, of 2 seeds"),
        ((0.1902, 0.1922), "within error, of 2 seeds"),
    ],
)
def test_a_verdict_respects_the_error_of_the_seeds(errors: tuple[float, ...], word: str) -> None:
    target = find("error at most", "CIFAR-10, paper's setting")
    runs = [as_in_the_paper("cifar10", seed, error=error) for seed, error in enumerate(errors)]
    assert verdict(target.measure(Results(runs))) == word


def test_a_rival_is_beaten_seed_by_seed() -> None:
    target = find("below the frequentist", "LeNet-100")

    def judged_against(ours: list[float], theirs: list[float]) -> str:
        runs = [as_in_the_paper("mnist-lenet100", seed, error=error) for seed, error in enumerate(ours)]
        runs += [as_in_the_paper("mnist-lenet100-frequentist", seed, error=error) for seed, error in enumerate(theirs)]
        return verdict(target.measure(Results(runs)))

    # the seeds lie far apart, but the two of a pair differ by 0.0009 to 0.0011
    assert judged_against([0.0060, 0.0080, 0.0100], [0.0069, 0.0090, 0.0111]) == "met"
    assert judged_against([0.0069, 0.0090, 0.0111], [0.0060, 0.0080, 0.0100]) == "**missed**"
    assert judged_against([0.0060, 0.0080, 0.0100], [0.0111, 0.0090, 0.0069]) == "within error"
    assert judged_against([0.0084] * 3, [0.0084] * 2) == "within error, of 2 seeds"
    assert judged_against([0.0084] * 3, [0.0099]) == "one seed cannot tell"
    assert judged_against([0.0084] * 3, []) == "not run"


def test_all_that_must_hold_has_to() -> None:
    good, open_, bad = spread(1.0, 1.1, 1.2), spread(-1.0, 0.0, 1.0), spread(-1.0, -1.1, -1.2)
    assert verdict(Measured("", (good, good))) == "met"
    assert verdict(Measured("", (good, open_))) == "within error"
    assert verdict(Measured("", (good, open_, bad))) == "**missed**"


def changed(name: str, tensor: str, **values: float) -> Results:
    runs = []
    for seed in range(3):
        run = as_in_the_paper(name, seed)
        rows = [row | values if row["name"] == tensor else row for row in run.evaluation["posterior"]]
        runs.append(replace(run, evaluation={**run.evaluation, "posterior": rows}))
    return Results(runs)


@pytest.mark.parametrize(
    ("part", "changes", "met"),
    [
        ("ρ of every weight tensor within", {"rho": -0.44 + 0.059}, True),
        ("ρ of every weight tensor within", {"rho": -0.44 - 0.061}, False),
        ("sign of ρ", {"rho": -0.001}, True),
        ("sign of ρ", {"rho": 0.001}, False),
        ("τ of every weight tensor", {"tau": 0.04 * 1.59}, True),
        ("τ of every weight tensor", {"tau": 0.04 * 1.61}, False),
        ("τ of every weight tensor", {"tau": 0.04 / 1.61}, False),
    ],
)
def test_the_posterior_is_held_against_the_papers(part: str, changes: dict[str, float], met: bool) -> None:
    measured = find(part, "LeNet-100").measure(changed("mnist-lenet100", "conv1.weight", **changes))
    assert measured is not None
    assert verdict(measured) == ("met" if met else "**missed**")
    if not met:
        assert "Convolutional 1" in measured.text


def test_a_factor_is_judged_on_both_sides_and_by_its_spread() -> None:
    def judged_tau(*factors: float) -> tuple[str, str]:
        runs = []
        for seed, factor in enumerate(factors):
            run = as_in_the_paper("mnist-lenet100", seed)
            rows = [
                row | {"tau": row["tau"] * factor} if row["name"] == "conv2.weight" else row
                for row in run.evaluation["posterior"]
            ]
            runs.append(replace(run, evaluation={**run.evaluation, "posterior": rows}))
        measured = find("τ of every weight", "LeNet-100").measure(Results(runs))
        assert measured is not None
        return verdict(measured), measured.text

    # logarithms −0.1, 0, 0.1: ± 4.303 · 0.1 / √3 = ± 0.2484 about 0, a factor of 1.28
    thrice = [math.exp(x) for x in (-0.1, 0.0, 0.1)]
    assert judged_tau(*thrice) == ("met", "1.00 [0.78, 1.28] of it, at Convolutional 2")
    assert judged_tau(*(1.5 * each for each in thrice)) == (
        "within error",
        "1.50 [1.17, 1.92] of it, at Convolutional 2",
    )
    assert judged_tau(*(each / 2.1 for each in thrice))[0] == "**missed**"


def test_biases_are_not_held_against_the_papers() -> None:
    results = changed("mnist-lenet100", "fc1.bias", tau=3.0, rho=-0.4)
    for part in ("ρ of every weight tensor within", "sign of ρ", "τ of every weight tensor"):
        assert verdict(find(part, "LeNet-100").measure(results)) == "met"


def test_our_own_row_must_be_better_beyond_the_error() -> None:
    setting = EXPERIMENTS["cifar10"].changed(name="cifar10-ours")
    frequentist = [as_in_the_paper("cifar10-frequentist", seed, nll=0.6, ece=0.02) for seed in range(3)]

    def ours(**scores: float) -> Results:
        runs = [made_up("cifar10-ours", seed, setting) for seed in range(3)]
        return Results([*frequentist, *(replace(run, evaluation={**run.evaluation, **scores}) for run in runs)])

    for off, word in ((-1e-6, "met"), (0.0, "within error"), (1e-6, "**missed**")):
        results = ours(error=0.195 + off, nll=0.6 + off, ece=0.02 + off)
        for part in ("error below", "NLL below", "ECE below"):
            assert verdict(find(part, "CIFAR-10, ours").measure(results)) == word, part


def test_counts_are_held_on_the_right_side() -> None:
    for kind, worse, better in (("wrong and certain", 15, 13), ("correct and certain", 9649, 9651)):
        for value, word in ((worse, "**missed**"), (better, "met")):
            runs = []
            for seed in range(3):
                run = as_in_the_paper("mnist-lenet100", seed)
                counts = run.evaluation["certain"]["0.95"] | {kind.replace(" and ", "_"): value}
                runs.append(replace(run, evaluation={**run.evaluation, "certain": {"0.95": counts}}))
            assert verdict(find(kind, "LeNet-100").measure(Results(runs))) == word
