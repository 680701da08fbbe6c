"""Public callables called with odd values: an answer without NaN, or an error in our own words."""

from __future__ import annotations

import dataclasses
import io
import math
import random
import traceback
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, chdir, redirect_stderr, redirect_stdout
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

import tribayes as tb
from tests.faults.arguments import odd_values
from tests.faults.legal import FILE, excluded, legal
from tests.faults.surface import Subject, subjects
from tests.faults.tally import Tally

# functions whose NaN or infinity is no silence, and why
PASSES_ON: Mapping[str, str] = {
    "*.nll": "NaN in what a network answers is NaN; a training step refuses it, and looks before",
    "*.mean_nll": "the same",
    "*.each_nll": "the same",
    "*.response": "the same; a prediction refuses it",
    "TridiagonalNormal.log_prob": "the density at NaN",
    "Conformal.*": "an interval without bound is what few held-out examples guarantee",
    "tables.FittedTable.intervals": "the same",
    "runs.Examples": "its values are the caller's; a training refuses them when they are met",
    "metrics.reliability": "a bin without examples has no accuracy",
}

PACKAGE = str(Path(tb.__file__).parent)


@cache
def tried() -> tuple[Subject, ...]:
    """Every public callable that is not excluded by name."""
    return tuple(each for each in subjects() if not excluded(each.name))


@cache
def pools(subject: Subject) -> dict[str, list[Any]]:
    return {name: odd_values(parameter.annotation) for name, parameter in subject.parameters.items()}


def call_at_random(count: int, rng: random.Random, folder: Path) -> Tally:
    """Each call has one or two odd arguments; the others are legal."""
    tally, odd = Tally(), folder / "names" / "are" / "odd"
    odd.mkdir(parents=True)
    with chdir(odd), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        for number in range(count):
            tally.note(*call(tried()[number % len(tried())], rng))
    return tally


def call(subject: Subject, rng: random.Random) -> tuple[bool, str]:
    """One call: whether what is promised held, and what was called."""
    odd = pools(subject)
    given = legal(subject)
    changed = rng.sample(list(odd), min(len(odd), rng.choice([1, 1, 2])))
    given |= {name: rng.choice(odd[name]) for name in changed}
    what = f"{subject.name}({', '.join(f'{name}={given[name]!r:.60}' for name in changed)})"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome(subject, given, what)


def outcome(subject: Subject, given: dict[str, Any], what: str) -> tuple[bool, str]:
    target = given.pop("self", None)
    first = [] if subject.owner is None else [target]
    positional = [p.name for p in subject.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    first += [given.pop(name) for name in positional] + list(given.pop("more", ()))
    try:
        result = subject.call(*first, **given)
        if isinstance(result, AbstractContextManager) and not isinstance(result, Path):  # which one was, once
            with result:
                pass
    except Exception as error:
        return is_ours(error, subject), f"{what}: {type(error).__name__}: {error}"
    finally:
        close_figures()
    if any(fnmatch(subject.name, pattern) for pattern in PASSES_ON):
        return True, what
    return is_finite(result), f"{what} gave {result!r:.100}"


def is_ours(error: Exception, subject: Subject) -> bool:
    """Whether the package raised it, and it names the argument or the file; or it is another's, where that is right."""
    if isinstance(error, tb.NonFiniteLoss):
        return True
    where, words = traceback.extract_tb(error.__traceback__)[-1].filename, str(error)
    if subject.name.startswith("sklearn.") and ("/sklearn/" in where or where.endswith("torch/_tensor.py")):
        return True  # its rules want its own checks of X and y, in its own words, or torch's for a tensor
    if where.endswith(("nn/modules/linear.py", "torch/__init__.py")) or "forward" in words:
        return isinstance(error, TypeError | RuntimeError)  # of a network that takes no such inputs, or cannot be asked
    if words.startswith("Error(s) in loading state_dict"):
        return True  # torch lists the names that are missing
    if isinstance(error, OSError):
        return where.startswith(PACKAGE) or error.filename is not None
    named = "`" in words or str(FILE) in words or "torn or no safetensors file" in words
    return isinstance(error, ValueError | TypeError) and where.startswith(PACKAGE) and named


def close_figures() -> None:
    from matplotlib import pyplot

    pyplot.close("all")


def is_finite(value: Any) -> bool:
    """Whether no number in a result is NaN or infinite."""
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    if isinstance(value, float | np.floating):
        return math.isfinite(value)
    if dataclasses.is_dataclass(value):
        return all(is_finite(getattr(value, each.name)) for each in dataclasses.fields(value))
    if isinstance(value, tuple | list):
        return all(map(is_finite, value))
    if isinstance(value, Mapping):
        return all(map(is_finite, value.values()))
    if isinstance(value, nn.Module):
        return all(is_finite(parameter.detach()) for parameter in value.parameters())
    if isinstance(value, tb.Predictive):
        return is_finite(value.mean)
    return True
