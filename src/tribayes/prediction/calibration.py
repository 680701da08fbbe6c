"""Calibration after training: the width of the posterior, and of the noise, set by examples that training has not seen.

Training rows fit better than new ones, so the noise and the scales learned from them are too small, or with a large
weight of the divergence too large. One factor on all τ and one on the noise mend that. They are chosen by the negative
log likelihood of held-out examples under the same random numbers for every candidate, so that candidates differ by
their width and not by luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._arrays import tensor_of
from tribayes._errors import refusal, wrong_type
from tribayes._progress import progress_bar
from tribayes.inference.likelihood import Categorical, Likelihood
from tribayes.inference.memory import likelihood_of
from tribayes.inference.snapshot import Snapshot
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.twin import bare
from tribayes.prediction.answers import likelihood_for, predictive_class
from tribayes.prediction.predict import predict
from tribayes.prediction.predictive import ClassPredictive, RegressionPredictive

FEWEST = 30  # held-out examples: with fewer, the best factor is mostly luck

_COARSE = tuple(2.0**power for power in (-3, -2, -1, 0, 1, 2))  # factors on τ to look at first
_REFINEMENTS = 6  # rounds of a golden section between two of them
_GOLDEN = (math.sqrt(5) - 1) / 2
_PLACE = "_calibrations"  # the attribute of a model that keeps what was found
_WIDTHS = 1 / 16, 16.0  # where noise factor or temperature are looked for,
_INNER = 40  # in so many steps, which need no network


@dataclass(frozen=True)
class Calibration:
    """What `tribayes.calibrate` found, and has put into the model and the likelihood.

    Attributes:
        tau_factor: all τ were multiplied by it.
        noise_factor: so was the noise of a likelihood of values; 1 where it has none that can be widened.
        temperature: by which logits are divided now; 1 where it was not asked for.
        before: mean negative log likelihood of the held-out examples, nats.
        after: the same, with what was found.
        gain_error: standard error of `before - after` over these examples.
        examples: how many there were.
        undo: call it to put scales, noise and temperature back to what they were.

    Example:
        >>> model, likelihood = tb.to_bayesian(nn.Linear(2, 1), tau=0.5), tb.Gaussian(noise=0.1)
        >>> x = torch.randn(40, 2)
        >>> found = tb.calibrate(model, x, model.module(x).detach(), likelihood, samples=20, progress=False)
        >>> found.tau_factor < 1, found.after < found.before  # τ was far too large for answers that are exactly right
        (True, True)
        >>> found.undo()
    """

    tau_factor: float
    noise_factor: float
    temperature: float
    before: float
    after: float
    gain_error: float
    examples: int
    undo: Callable[[], None] = field(repr=False, compare=False)  # puts scales, noise and temperature back

    def __str__(self) -> str:
        gain = f"{self.before - self.after:.4f} ± {self.gain_error:.4f}"
        return (
            f"tau × {self.tau_factor:.3g}, noise × {self.noise_factor:.3g}, temperature {self.temperature:.3g}: "
            f"negative log likelihood {self.before:.4f} -> {self.after:.4f} (better by {gain}) "
            f"on {self.examples:,} held-out examples"
        )


def calibrate(
    model: nn.Module,
    inputs: Any,
    targets: Any,
    likelihood: Likelihood | None = None,
    *,
    temperature: bool = False,
    samples: int = 50,
    seed: int = 0,
    progress: bool = True,
) -> Calibration:
    """Set the width of the posterior by held-out examples: one factor on every τ, in place.

    The noise of a likelihood of values (Gaussian, heteroscedastic, Student's) is set with it, and with
    `temperature=True` the temperature of a `Categorical`. Both live in the likelihood, which is changed in place too:
    `tribayes.save(model, path, likelihood=...)` keeps them. Of pixels and tokens each example counts by the
    mean over its own.

    Args:
        model: a trained Bayesian model.
        inputs, targets: examples that training has not seen, at least 30; they should not test the result as well.
            Inputs as of `predict`, but readable more than once; targets a tensor or an array.
        likelihood: default, the one it was trained with, as for `tribayes.predict`.
        temperature: whether to choose a softmax temperature too.
        samples: networks drawn for each candidate, the same random numbers every time.
        seed: of these.
        progress: show a bar.

    Returns:
        What was found; `.undo()` takes it back.

    Example:
        >>> model, likelihood = tribayes.to_bayesian(nn.Linear(4, 1)), tribayes.Gaussian(noise=0.01)
        >>> x, y = torch.randn(50, 4), torch.randn(50, 1)
        >>> found = calibrate(model, x, y, likelihood, progress=False)
        >>> found.after < found.before and float(likelihood.noise) > 0.1
        True
        >>> found.undo()
    """
    targets = tensor_of("targets", targets)
    _check(model, targets)
    known = likelihood is not None or likelihood_of(model) is not None
    likelihood = likelihood_for(model, likelihood)
    if temperature and not (isinstance(likelihood, Categorical) and known):
        remedy = "pass likelihood=tb.Categorical(), and predict with it afterwards: the temperature lives there"
        raise refusal("temperature", temperature, "come with a Categorical likelihood to keep it in", remedy)
    undo = _way_back(model, likelihood)
    try:
        search = _Search(model, inputs, targets, likelihood, temperature, samples, seed)
        with progress_bar("calibrating", len(_COARSE) + _REFINEMENTS, progress) as advance:
            best = search.best(advance)
        search.set_tau(best.factor)
        if temperature:
            _sharpen(likelihood, best.width)
        elif search.widens:
            likelihood.widen_(best.width)
    except BaseException:
        undo()
        raise
    gain = search.start - best.nll
    found = Calibration(
        tau_factor=best.factor,
        noise_factor=best.width if search.widens else 1.0,
        temperature=best.width if temperature else 1.0,
        before=float(search.start.mean()),
        after=float(best.nll.mean()),
        gain_error=float(gain.std() / math.sqrt(len(gain))),
        examples=len(targets),
        undo=undo,
    )
    numbers = {one.name: getattr(found, one.name) for one in fields(found) if one.name != "undo"}
    remember_calibrations(model, [*calibrations_of(model), numbers])
    return found


@dataclass(frozen=True)
class _Candidate:
    factor: float  # on τ
    width: float  # the best factor on the noise, or temperature, with it
    nll: Tensor  # (N,)

    @property
    def mean(self) -> float:
        return float(self.nll.mean())


class _Search:
    """The held-out negative log likelihood as a function of the factor on τ, and its smallest value."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Any,
        targets: Tensor,
        likelihood: Likelihood,
        temperature: bool,
        samples: int,
        seed: int,
    ) -> None:
        self._ask = partial(predict, model, inputs, samples, likelihood=likelihood, seed=seed, progress=False)
        self._families = [module.family for module in bayesian_modules(model)]
        self._start = [{name: value.clone() for name, value in f.state_dict().items()} for f in self._families]
        self._targets, self._temperature = targets, temperature
        kind = predictive_class(likelihood)
        if not issubclass(kind, ClassPredictive | RegressionPredictive):
            requirement = f"predict classes, labels or values, but it predicts a {kind.__name__}"
            raise refusal("likelihood", type(likelihood).__name__, requirement, "set its widths by hand")
        self.widens = issubclass(kind, RegressionPredictive) and likelihood.noise_law().can_widen
        self.start = self._answers(1.0)(1.0)

    def best(self, advance: Callable[..., None]) -> _Candidate:
        """Coarse candidates first, then a golden section around the best of them."""
        tried = []
        for factor in _COARSE:
            tried.append(self._candidate(factor))
            advance()
        middle = min(range(len(tried)), key=lambda place: tried[place].mean)
        low, high = (tried[max(0, min(place, len(tried) - 1))].factor for place in (middle - 1, middle + 1))

        def mean_at(factor: float) -> float:
            tried.append(self._candidate(factor))
            return tried[-1].mean

        _smallest(mean_at, low, high, _REFINEMENTS, advance)
        return min(tried, key=lambda candidate: candidate.mean)

    def set_tau(self, factor: float) -> None:
        """Multiply every τ that the search began with."""
        for family, start in zip(self._families, self._start, strict=True):
            family.load_state_dict(start)
            family.rescale_(factor)

    def _candidate(self, factor: float) -> _Candidate:
        nll = self._answers(factor)
        free = self.widens or self._temperature
        width = _smallest(lambda value: float(nll(value).mean()), *_WIDTHS, _INNER) if free else 1.0
        return _Candidate(factor, width, nll(width))

    def _answers(self, factor: float) -> Callable[[float], Tensor]:
        """The negative log likelihood (N,) with τ times this factor, as a function of noise factor or temperature."""
        self.set_tau(factor)
        pred: ClassPredictive | RegressionPredictive = self._ask()
        targets = pred.checked_targets(self._targets)
        if isinstance(pred, RegressionPredictive):
            noise = pred.noise_law
            return lambda width: -pred.with_noise(noise.widened(width) if self.widens else noise).log_density(targets)
        return _by_temperature(pred, targets)


def _by_temperature(pred: ClassPredictive, targets: Tensor) -> Callable[[float], Tensor]:
    """Temperature → −ln of the mean probability of the truth, (N,): the mean over what is judged of an example."""
    said, judged = pred.class_last_samples, pred.judged(targets)
    chances = said.clamp(min=torch.finfo(said.dtype).tiny).log()  # logits, but for a constant
    place = targets.where(judged, 0).expand(said.shape[:-1]).unsqueeze(-1)
    share = judged.to(said).reshape(len(judged), -1)
    share = share / share.sum(1, keepdim=True).clamp(min=1)  # an example of which nothing is judged counts as nothing

    def nll(temperature: float) -> Tensor:
        own = (chances / temperature).log_softmax(-1).gather(-1, place).squeeze(-1)  # (S, N, …)
        each = math.log(len(own)) - own.logsumexp(0)
        return (each.reshape(share.shape) * share).sum(1)

    return nll


def _smallest(
    function: Callable[[float], float],
    least: float,
    most: float,
    rounds: int,
    advance: Callable[[], None] = lambda: None,
) -> float:
    """Where a function of one positive number is smallest between two of them, by golden section of its logarithm."""
    low, high = math.log(least), math.log(most)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(math.exp(left)), function(math.exp(right))
    for _ in range(rounds):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(math.exp(right))
        advance()
    return math.exp((low + high) / 2)


def _sharpen(likelihood: Likelihood, width: float) -> None:
    assert isinstance(likelihood, Categorical)
    before = 1.0 if likelihood.temperature is None else float(likelihood.temperature)
    likelihood.temperature = torch.tensor(before * width, device="cpu")


def _way_back(model: nn.Module, likelihood: Likelihood) -> Callable[[], None]:
    """What puts everything that a calibration changes back to its value now."""
    raws = [raw for module in bayesian_modules(model) for raw in module.family.scale_parameters()]
    values = [raw.detach().clone() for raw in raws]
    noise = Snapshot([likelihood])  # by names: moving a module to a device or dtype gives it other buffers
    temperature = getattr(likelihood, "temperature", None)
    calibrations = calibrations_of(model)

    @torch.no_grad()
    def undo() -> None:
        for raw, value in zip(raws, values, strict=True):
            raw.copy_(value)
        if isinstance(likelihood, Categorical):
            likelihood.temperature = temperature
        noise.restore()
        remember_calibrations(model, calibrations)

    return undo


def calibrations_of(model: nn.Module) -> list[dict[str, float]]:
    """What calibrations of a model found, the numbers of each `Calibration`, in their order; none are undone ones."""
    return list(vars(bare(model)).get(_PLACE, ()))


def remember_calibrations(model: nn.Module, found: Sequence[dict[str, float]]) -> None:
    """Keep them with the model, in a plain attribute that torch does not look at."""
    setattr(bare(model), _PLACE, list(found))


def _check(model: object, targets: object) -> None:
    if not isinstance(model, nn.Module):
        raise wrong_type("model", model, "be a Bayesian model", "convert a network first: tb.to_bayesian(net)")
    if not isinstance(targets, Tensor):
        raise wrong_type("targets", targets, "be a tensor", "convert it with torch.tensor(y)")
    count = len(targets) if targets.ndim else 1
    if count < FEWEST:
        remedy = "hold out more, or keep the model as it is: on so few the best width is mostly luck"
        raise refusal("targets", count, f"be at least {FEWEST} held-out examples", remedy)
