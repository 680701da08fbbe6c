"""The ways to an interval or a set, all from one trained network and the same held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tribayes as tb
from benchmarks import peers
from benchmarks.coverage.cases import Case, Rows
from benchmarks.coverage.figures import Figures, credible_sets, interval_figures, quartiles, set_figures
from benchmarks.coverage.training import Objective
from tribayes.prediction.calibration import FEWEST

LEVELS = (0.9, 0.95)
SAMPLED_NETWORKS = 200

TRAINED, CALIBRATED, SCALED = "as trained", "calibrated", "calibrated, with temperature"
CONFORMAL, HALVES, SAME = "conformal", "calibrated, then conformal: half the rows each", "the same: all rows for both"
ABSOLUTE, NORMALISED = "MAPIE, absolute residual", "MAPIE, normalised residual"
QUANTILES = "MAPIE, CQR of the posterior's quantiles"
LAC, APS, RANDOMISED = "MAPIE, LAC", "MAPIE, APS", "MAPIE, APS, randomised"

REGRESSION = (TRAINED, CALIBRATED, CONFORMAL, HALVES, SAME, ABSOLUTE, NORMALISED, QUANTILES)
_SCORES = ("probability", "cumulative")
CLASSIFICATION = (
    *(TRAINED, CALIBRATED, SCALED),
    *(f"{way}, {score}" for way in (CONFORMAL, HALVES, SAME) for score in _SCORES),
    *(LAC, APS, RANDOMISED),
)

Answers = dict[str, dict[float, Any]]  # way → level → intervals (lower, upper), each (N,); or sets (N, C)


def split_figures(objective: Objective, case: Case, seed: int, site: Path = peers.SITE) -> dict[str, Any]:
    """Every way's figures on the test rows of one split, and what calibration found."""
    asking = _Asking(objective, seed)
    values = isinstance(objective.likelihood, tb.Gaussian)
    answers: Answers = {}
    found: dict[str, Any] = {"calibration": {}}
    held, test = asking(case.held), asking(case.test)
    answers |= _from_posterior(TRAINED, test)
    answers |= _conformal(CONFORMAL, held, case.held, test)
    groups = quartiles(test.std.squeeze(-1)) if values else test.label
    found |= _quality(test, case)
    with asking.calibrated(case.held) as calibration:
        found["calibration"] |= {CALIBRATED: _factors(calibration)}
        now = asking(case.test)
        answers |= _from_posterior(CALIBRATED, now)
        answers |= _conformal(SAME, asking(case.held), case.held, now)
    first, second = halves(case.held)
    with asking.calibrated(first):
        answers |= _conformal(HALVES, asking(second), second, asking(case.test))
    if not values:
        with asking.calibrated(case.held, temperature=True) as calibration:
            found["calibration"] |= {SCALED: _factors(calibration)}
            answers |= _from_posterior(SCALED, asking(case.test))
    answers |= _mapie(held, test, case, seed, site)
    judge: Callable[..., Figures] = partial(interval_figures, unit=case.unit) if values else set_figures
    found["ways"] = {
        way: {f"{level:g}": judge(answer, case.test.targets, groups) for level, answer in by_level.items()}
        for way, by_level in answers.items()
    }
    return found


def halves(held: Rows) -> tuple[Rows, Rows]:
    """The rows to calibrate on and those to conformalise on; `calibrate` has no fewer than it asks for."""
    count = max(len(held) // 2, FEWEST)
    return held[:count], held[count:]


class _Asking:
    """One network and its likelihood, as they are now; every question with the same random numbers."""

    def __init__(self, objective: Objective, seed: int) -> None:
        self._model, self._likelihood, self._seed = objective.model, objective.likelihood, seed

    def __call__(self, rows: Rows) -> Any:
        return tb.predict(
            self._model,
            rows.inputs,
            SAMPLED_NETWORKS,
            likelihood=self._likelihood,
            seed=self._seed,
            progress=False,
        )

    @contextmanager
    def calibrated(self, rows: Rows, temperature: bool = False) -> Iterator[tb.Calibration]:
        """`tb.calibrate` on these rows, taken back at the end."""
        calibration = tb.calibrate(
            self._model, rows.inputs, rows.targets, self._likelihood, temperature=temperature, progress=False
        )
        try:
            yield calibration
        finally:
            calibration.undo()


def _from_posterior(way: str, pred: Any) -> Answers:
    if isinstance(pred, tb.RegressionPredictive):
        return {way: {level: _flat(pred.observation_interval(level)) for level in LEVELS}}
    return {way: {level: credible_sets(pred.mean, level) for level in LEVELS}}


def _conformal(way: str, seen: Any, held: Rows, new: Any) -> Answers:
    if isinstance(seen, tb.RegressionPredictive):
        learned = tb.conformalise(seen, held.targets)
        return {way: {level: _flat(learned.intervals(new, level)) for level in LEVELS}}
    by_score = {score: tb.conformalise(seen, held.targets, score) for score in _SCORES}
    return {f"{way}, {score}": {level: one.sets(new, level) for level in LEVELS} for score, one in by_score.items()}


def _mapie(held: Any, test: Any, case: Case, seed: int, site: Path) -> Answers:
    """MAPIE's ways; none where it is not installed."""
    try:
        peers.find("mapie", site)
    except peers.NotInstalled:
        return {}
    from benchmarks.peers import mapie

    truth = case.held.targets
    if isinstance(held, tb.RegressionPredictive):
        known, new = (torch.cat([rows.inputs, pred.mean], -1) for rows, pred in ((case.held, held), (case.test, test)))
        own = [{level: _flat(pred.observation_interval(level)) for level in LEVELS} for pred in (held, test)]
        return {
            ABSOLUTE: mapie.residual_intervals(known, truth, new, LEVELS),
            NORMALISED: mapie.residual_intervals(known, truth, new, LEVELS, normalised=True, seed=seed),
            QUANTILES: mapie.quantile_intervals(own[0], truth, own[1]),
        }
    ask = partial(mapie.class_sets, held.mean, truth, test.mean, LEVELS, seed=seed)
    return {LAC: ask("lac"), APS: ask("aps"), RANDOMISED: ask("aps", last="randomized")}


def _quality(test: Any, case: Case) -> dict[str, float]:
    """How good the network is at all."""
    if isinstance(test, tb.RegressionPredictive):
        return {"rmse": float((test.mean.squeeze(-1) - case.test.targets).square().mean().sqrt()) * case.unit}
    return {"error": float((test.label != case.test.targets).double().mean())}


def _factors(calibration: tb.Calibration) -> dict[str, float]:
    return {name: getattr(calibration, name) for name in ("tau_factor", "noise_factor", "temperature")}


def _flat(bounds: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    lower, upper = bounds
    return lower.squeeze(-1), upper.squeeze(-1)
