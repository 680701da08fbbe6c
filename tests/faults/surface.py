"""What of tribayes is public and can be called: functions, classes, and the methods of these."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tribayes.nn.conversion import Options

MODULES = ("tribayes", "nn", "posterior", "prediction.metrics", "plots", "report", "data", "runs", "tables", "sklearn")
MODULES += ("distributed",)


@dataclass(frozen=True)
class Subject:
    """Something to call: by itself, or as a method of an object of its class."""

    name: str  # as under tb: "predict", "metrics.auroc", "Ensemble.predict"
    call: Callable[..., Any]
    owner: type | None = None  # of a method that needs an object

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """By name, without `self`, `*args` and `**kwargs`, but with the options of a conversion."""
        found = list(inspect.signature(self.call).parameters.values())[self.owner is not None :]
        named = {each.name: each for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
        if hasattr(self.call, "layer") or any("Options" in str(each.annotation) for each in found):
            named |= {name: _option(name, kind) for name, kind in Options.__annotations__.items()}
        return named


def _option(name: str, kind: Any) -> inspect.Parameter:
    annotation = getattr(kind, "__forward_arg__", kind)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def subjects() -> Iterator[Subject]:
    """Every public callable once, under its shortest name."""
    seen: set[int] = set()
    for place in MODULES:
        module = importlib.import_module(place if place == "tribayes" else f"tribayes.{place}")
        before = "" if place == "tribayes" else place.split(".")[-1] + "."
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if id(thing) in seen or not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            seen.add(id(thing))
            yield Subject(before + name, thing)
            if inspect.isclass(thing):
                yield from (each for each in _methods(before + name, thing) if _once(each, seen))


def _once(subject: Subject, seen: set[int]) -> bool:
    """Whether a method was not met before, in a class that this one inherits it from."""
    code = getattr(subject.call, "__func__", subject.call)
    if id(code) in seen:
        return False
    seen.add(id(code))
    return True


def _methods(name: str, kind: type) -> Iterator[Subject]:
    for key in dir(kind):
        if key.startswith("_") and key != "__call__":
            continue
        home = next(each for each in kind.__mro__ if key in each.__dict__)
        found = home.__dict__[key]
        if not home.__module__.startswith("tribayes"):
            continue
        if isinstance(found, classmethod | staticmethod):
            yield Subject(f"{name}.{key}", getattr(kind, key))
        elif inspect.isfunction(found):
            yield Subject(f"{name}.{key}", found, kind)
