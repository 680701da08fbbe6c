"""From rows to a network whose intervals hold: choose, fit again, make conformal.

Rows are parted at random: some are kept aside for the conformal guarantee and looked at by nothing else. Of the others
a fifth judges networks that were trained on the rest, one for each candidate weight of the divergence, and says how
much their widths have to change (`tribayes.calibrate`). Then the best is trained again on all but the kept-aside rows,
gets that change, and is made conformal.

The weight is chosen because no rule knows the noise: "auto" is too small where most of a target is noise, 1 too large
where little is (docs/tables.md).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tribayes._errors import check_all, check_plain, check_whole, refusal, wrong_type
from tribayes._own_randomness import draws_by_itself, lent
from tribayes.inference.fit import fit
from tribayes.inference.likelihood import Categorical, Gaussian, Likelihood
from tribayes.inference.memory import likelihood_of
from tribayes.inference.objective import ELBO
from tribayes.inference.optim import parameter_groups
from tribayes.nn.convert import bayesian_modules, to_bayesian
from tribayes.posterior.streams import Stream
from tribayes.prediction.calibration import Calibration, calibrate
from tribayes.tables.fitted import FittedTable
from tribayes.tables.recipe import Recipe
from tribayes.tables.scaling import DTYPE, Scaling, rows_of

SHARE = 0.2  # of the rows that are kept aside, and of the others that choose
FEWEST, MOST = 40, 2000  # such rows and one more: 20 would do for 95 %, but as an average of very different cases
ENOUGH = 3 * FEWEST  # rows in all to part them

_CPU = torch.device("cpu")
_ROUND = 20  # see _parted
_START = 0.5  # of the noise, in units of the targets' spread
_EPOCHS = 20  # at least
_STEPS_AN_EPOCH = 300  # at most, by larger batches
_MOST_CLASSES = 10_000  # beyond, labels are numbers of something else, and the last layer would take all memory
_TRIAL_SAMPLES = 50  # networks that judge a trial, at most


def fit_table(
    inputs: Tensor, targets: Tensor, *, classes: int | None = None, recipe: Recipe | None = None, seed: int = 0
) -> FittedTable:
    """Learn a table: standardise, choose the weight of the divergence, fit, calibrate, make conformal.

    With fewer than 120 rows none is held out: the network gets the last candidate (1) and the widths that it learned,
    and a warning says so.

    Args:
        inputs: (N, d), numbers in any units.
        targets: (N,) whole numbers from 0 for classes; (N,) or (N, D) real numbers in any units for values.
        classes: how many there are; default, as many as occur.
        recipe: how to train; default `Recipe()`.
        seed: of everything random, any whole number. Torch's global random state stays what it is: it is lent to the
            recipe's network while that is made, and to its training if the network draws by itself, as dropout does.

    Example:
        >>> x = torch.randn(200, 3)
        >>> fitted = fit_table(x, 100 + 10 * x.sum(1), recipe=Recipe(steps=30))
        >>> lower, upper = fitted.intervals(x[:5], level=0.95)
        >>> mean, std = fitted.mean_and_std(x[:5])
        >>> sorted(fitted.trials), fitted.rows, fitted.conformal
        ([0.048..., 1.0], 161, Conformal('values', 39 held-out examples))
    """
    recipe = Recipe() if recipe is None else recipe
    _check(inputs, targets)
    if not isinstance(recipe, Recipe):
        raise wrong_type("recipe", recipe, "be a Recipe", "pass e.g. tb.tables.Recipe(steps=500)")
    seed = check_whole("seed", seed, "pass e.g. seed=0")
    if classes is not None:
        check_whole("classes", classes, "it counts them", least=2)
    inputs, targets = inputs.detach(), targets.detach()
    if classes is not None or not targets.is_floating_point():
        targets = _as_labels(targets)
        classes = classes or int(targets.max()) + 1
        if classes > _MOST_CLASSES:
            remedy = "number the classes from 0 without gaps, or pass values as floats"
            raise refusal("classes", classes, f"be at most {_MOST_CLASSES:,}", remedy)
    held = recipe.calibrate and _enough(len(inputs))
    source = Stream((seed, "table")).generator(_CPU)
    if not held:
        return _Fitting(_Table.of(inputs, targets, classes), recipe, seed, source).plain()
    aside, rest = _parted(len(inputs), source)
    fitted = _Fitting(_Table.of(inputs[rest], targets[rest], classes), recipe, seed, source).chosen()
    return fitted.conformalised(inputs[aside], targets[aside])


@dataclass(frozen=True)
class _Table:
    """Rows in their own units: inputs (N, d), targets (N,) classes or (N, D) scaled values."""

    inputs: Tensor
    targets: Tensor
    outputs: int
    units: tuple[Scaling, Scaling | None]

    @classmethod
    def of(cls, inputs: Tensor, targets: Tensor, classes: int | None) -> _Table:
        known = Scaling.of(inputs, "inputs")
        if classes is not None:
            return cls(known.into(inputs), targets, classes, (known, None))
        targets = rows_of(targets)
        said = Scaling.of(targets, "targets")
        return cls(known.into(inputs), said.into(targets), targets.shape[1], (known, said))

    def __getitem__(self, places: Tensor) -> _Table:
        return _Table(self.inputs[places], self.targets[places], self.outputs, self.units)

    def __len__(self) -> int:
        return len(self.inputs)


class _Fitting:
    """One table, one recipe, and where its random numbers come from."""

    def __init__(self, table: _Table, recipe: Recipe, seed: int, source: torch.Generator) -> None:
        self._table, self._recipe, self._seed, self._source = table, recipe, seed, source
        self._trained = 0  # networks so far

    def plain(self) -> FittedTable:
        """All rows train, with the last of the candidates."""
        return self._fitted(*self._train(self._table, self._recipe.kl_weights[-1]), {})

    def chosen(self) -> FittedTable:
        """All rows train, with what some of them chose."""
        weight, calibration, trials = self._choice()
        model, used = self._train(self._table, weight)
        _widen(model, calibration)
        return self._fitted(model, used, trials)

    def _choice(self) -> tuple[float | str, Calibration, dict[float, float]]:
        """The candidate whose network, its widths set by the rows that judge, says most about them."""
        judging, learning = _parted(len(self._table), self._source)
        judges, samples = self._table[judging], min(_TRIAL_SAMPLES, self._recipe.samples)
        found: list[tuple[float, int, float | str, Calibration]] = []
        trials: dict[float, float] = {}
        for weight in self._recipe.kl_weights:
            model, used = self._train(self._table[learning], weight)
            if used not in trials:
                calibration = calibrate(
                    model, judges.inputs, judges.targets, samples=samples, seed=self._seed, progress=False
                )
                found.append((calibration.after, len(found), weight, calibration))
                trials[used] = calibration.after
        _, _, weight, calibration = min(found)
        return weight, calibration, trials

    def _train(self, table: _Table, weight: float | str) -> tuple[nn.Module, float]:
        """A trained network, and the weight of the divergence as a number."""
        recipe = self._recipe
        stream = Stream((self._seed, "table network", self._trained))
        self._trained += 1
        own = [stream.generator(place) for place in dict.fromkeys([_CPU, torch.device(recipe.device)])]
        with lent(own), _CPU:  # torch initialises by its global generators, and on its default device
            network = recipe.network(table.inputs.shape[1], table.outputs).to(DTYPE)
            likelihood = self._likelihood()
        lending = lent(own) if draws_by_itself(network, table.inputs[:64]) else nullcontext()
        model = to_bayesian(network, generator=stream.child("signs")).to(recipe.device)
        elbo = ELBO(likelihood, data_size=len(table), kl_weight=weight)
        groups = parameter_groups(model, recipe.lr, likelihood=likelihood, weight_decay=recipe.weight_decay)
        optimizer = torch.optim.AdamW(groups, fused=True)
        batches = _Batches(table, max(recipe.batch_size, len(table) // _STEPS_AN_EPOCH), self._source)
        epochs = max(_EPOCHS, math.ceil(recipe.steps / len(batches)))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(batches))
        draws = stream.child("draws")
        with lending:
            fit(model, elbo, batches, optimizer, epochs=epochs, scheduler=schedule, generator=draws, progress=False)
        return model, elbo.weight()

    def _likelihood(self) -> Likelihood:
        values = self._table.units[1] is not None
        return Gaussian(_START, learned=True).to(self._recipe.device, DTYPE) if values else Categorical()

    def _fitted(self, model: nn.Module, weight: float, trials: dict[float, float]) -> FittedTable:
        return FittedTable(
            model, *self._table.units, weight, trials, len(self._table), self._recipe.samples, self._seed
        )


class _Batches:
    """Rows in a new order every epoch; the last batch has what is left, unless it is one."""

    def __init__(self, table: _Table, size: int, source: torch.Generator) -> None:
        self._table, self._count, self._source = table, max(1, round(len(table) / size)), source

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.randperm(len(self._table), generator=self._source, device="cpu").tensor_split(self._count):
            yield self._table.inputs[rows], self._table.targets[rows]


def _parted(total: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random places: about a fifth, within bounds, and the others.

    One row less than a multiple of 20: a conformal threshold for 90 or 95 % then promises that, and not more, since the
    level is a whole number of ranks.
    """
    count = min(max(FEWEST, _ROUND * math.ceil(SHARE * total / _ROUND)), MOST) - 1
    order = torch.randperm(total, generator=source, device="cpu")
    return order[:count], order[count:]


def _widen(model: nn.Module, calibration: Calibration) -> None:
    """What `calibrate` did to one network, done to another of its kind."""
    for module in bayesian_modules(model):
        module.family.rescale_(calibration.tau_factor)
    likelihood = likelihood_of(model)
    if likelihood is not None and calibration.noise_factor != 1.0:
        likelihood.widen_(calibration.noise_factor)


def _enough(rows: int) -> bool:
    if rows < ENOUGH:
        words = (
            f"{rows} rows are too few to hold some out: intervals and sets are the posterior's own, and may not hold."
        )
        warnings.warn(f"{words} {ENOUGH} rows would do; calibrate=False says that you know", stacklevel=3)
    return rows >= ENOUGH


def _as_labels(targets: Tensor) -> Tensor:
    """The same as int64; refused where they are none, for 1.9 would become 1."""
    if targets.is_floating_point():
        remedy = "number the classes from 0 on, or leave `classes` out to learn values"
        check_all("targets", targets, targets == targets.round(), "be whole numbers where they are classes", remedy)
    return targets.long()


def _check(inputs: object, targets: object) -> None:
    for name, value in (("inputs", inputs), ("targets", targets)):
        if not isinstance(value, Tensor):
            raise wrong_type(name, value, "be a tensor", f"pass torch.from_numpy({name})")
        check_plain(name, value)
        if value.ndim == 0 or not len(value):
            raise refusal(name, value, "have rows", "check the table")
        if value.is_floating_point():
            check_all(name, value, value.isfinite(), "be finite", "fill in or drop what is missing")
    assert isinstance(inputs, Tensor)
    assert isinstance(targets, Tensor)
    if inputs.ndim != 2 or len(inputs) != len(targets):
        requirement = f"have the shape (N, d) with N = {len(targets)}, one row for each target"
        raise refusal("inputs", inputs, requirement, "check the table")
