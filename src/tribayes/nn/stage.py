"""A model on a stage: run under given draws, without touching the model that others may be using.

A model may be a Bayesian module, hold several of them, or be compiled by `torch.compile`. One draw for it is a dict for
each of its Bayesian modules, in the order of `model.modules()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import is_
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves

from tribayes._errors import refusal
from tribayes.nn.conversion import check_patterns, matches, pattern_list
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.module import BayesianModule
from tribayes.nn.places import Draw
from tribayes.nn.sharded import holds_shards, reshard_, whole_twin
from tribayes.nn.table import PosteriorRow
from tribayes.nn.twin import Twin, plain_name
from tribayes.posterior.streams import Stream

ModelDraw = Sequence[Draw]


class Stage:
    """A model and where it runs: itself where that changes nothing, else a twin of its structure.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones; one without any runs under no draw, [].
        evaluation: run in evaluation mode and on copies of the buffers; the model's own mode and buffers stay as they
            are. Otherwise modes are the model's, and buffers and attributes that a pass changes are the model's own.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(2, 1))
        >>> Stage(model).run([model.sample_weights()], torch.ones(4, 2)).shape
        torch.Size([4, 1])
    """

    def __init__(self, model: nn.Module, evaluation: bool = False) -> None:
        self.model, self._evaluation = model, evaluation
        self._twin: Twin | None = None
        self._modules: list[BayesianModule] = []  # the twin's
        self._made_of: list[Any] = []
        reshard_(model)
        self._sharded = holds_shards(model)
        if evaluation or not isinstance(model, BayesianModule) or model._compiled_call_impl is not None:
            self._make_twin()

    def _make_twin(self) -> None:
        if self._sharded:  # a Bayesian module gathers its own
            own = {id(p) for one in bayesian_modules(self.model) for p in one.parameters()}
            self._twin = whole_twin(self.model, {}, own, self._evaluation)
        else:
            self._twin = Twin(self.model, {}, own_buffers=self._evaluation)
        self._modules = [one for one in self._twin.network.modules() if isinstance(one, BayesianModule)]
        if self._evaluation:
            self._twin.network.eval()
        else:
            self._made_of = self._twin.made_of()

    def run(self, draws: ModelDraw, *arguments: Any, **named: Any) -> Any:
        """What the model answers under one draw."""
        if self._is_outdated():
            self._make_twin()
        twin = self._twin
        if twin is None:
            assert isinstance(self.model, BayesianModule)
            twin = self.model.under(draws[0])
        else:
            for module, draw in zip(self._modules, draws, strict=True):
                module._given = draw
        outputs = twin.network(*arguments, **named)
        if not self._evaluation:
            for module in self._modules:
                module._given = None
            if twin.hand_back() and self._twin is not None:
                self._made_of = twin.made_of()
            if isinstance(self.model, DistributedDataParallel):
                _keep_until_backward(twin, outputs)
        return outputs

    def _is_outdated(self) -> bool:
        """Whether the twin is of a network that has changed since, or has gathered what was of the step before."""
        if self._twin is None or self._evaluation:
            return False
        made_of = self._twin.made_of()
        return self._sharded or len(made_of) != len(self._made_of) or not all(map(is_, made_of, self._made_of))


def _keep_until_backward(twin: Twin, outputs: Any) -> None:
    """The backward pass of DistributedDataParallel may ask for what ran, by a weak reference: the graph holds it."""
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, Tensor) and leaf.requires_grad:
            leaf.register_hook(partial(_let_be, twin))


def _let_be(held: Twin, gradient: Tensor) -> None:
    """A hook that only holds a twin."""
    del held, gradient


def random_names(model: nn.Module) -> list[list[str]]:
    """For each Bayesian module, the full names of its random tensors: its own path, then the name within it.

    Compiling does not change them, though it does change the paths.
    """
    named = [(path, module) for path, module in model.named_modules() if isinstance(module, BayesianModule)]
    names = [[f"{path}.{name}" if path else name for name in module.random_names] for path, module in named]
    return [[plain_name(name) for name in group] for group in names]


def own_names(model: nn.Module) -> dict[nn.Parameter, str]:
    """The full name of every parameter as the plain network would call it: without what wrapping and compiling add."""
    paths = [path for path, module in model.named_modules() if isinstance(module, BayesianModule)]
    wrapped = {f"{path}." if path else "" for path in paths}
    names: dict[nn.Parameter, str] = {}
    for name, parameter in model.named_parameters():
        for path in wrapped:
            if name.startswith(f"{path}module."):
                name = path + name.removeprefix(f"{path}module.")
                break
        names[parameter] = plain_name(name)
    return names


def posterior_rows(model: nn.Module) -> dict[str, PosteriorRow]:
    """The posterior's row of every random tensor, by its full name; none for a network without random weights."""
    modules = [module for module in model.modules() if isinstance(module, BayesianModule)]
    pairs = zip(modules, random_names(model), strict=True)
    return {name: row for module, names in pairs for name, row in zip(names, module.posterior(), strict=True)}


def chosen_names(model: nn.Module, where: str | Sequence[str] | None) -> list[set[str]] | None:
    """For each Bayesian module, its own names of the tensors whose full name matches a pattern; None for all."""
    if where is None:
        return None
    patterns = pattern_list(where, "be a name pattern or several", 'pass e.g. where="*.weight"')
    if not patterns:
        raise refusal("where", where, "name at least one pattern", "leave it out to draw every random tensor")
    names = random_names(model)
    check_patterns("where", patterns, [name for group in names for name in group], "a random tensor of the model")
    groups = (zip(m.random_names, group, strict=True) for m, group in zip(bayesian_modules(model), names, strict=True))
    return [{own for own, name in group if any(matches([name], pattern) for pattern in patterns)} for group in groups]


def sample_model(model: nn.Module, stream: Stream, only: Sequence[set[str]] | None = None) -> list[dict[str, Tensor]]:
    """The draw of a stream for a whole model, each module by a stream of its own: the same on every call.

    `only` restricts it to some names of each module; the rest stays at its means.
    """
    modules = enumerate(bayesian_modules(model))
    return restricted([module.sample_weights(generator=stream.child(number)) for number, module in modules], only)


def restricted(draws: Sequence[dict[str, Tensor]], only: Sequence[set[str]] | None) -> list[dict[str, Tensor]]:
    """Draws without the names that are not wanted; None wants all."""
    if only is None:
        return list(draws)
    return [{name: draw[name] for name in draw if name in names} for draw, names in zip(draws, only, strict=True)]
