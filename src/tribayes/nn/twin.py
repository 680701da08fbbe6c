"""A network under given weights: a twin of its structure, in which some parameters are other tensors.

`torch.func.functional_call` swaps the parameters of the network itself while it runs. A second thread then meets the
draw of the first, an interrupt may leave it behind for good, and activation checkpointing computes again with the
means. A twin costs as much (a few microseconds per submodule) and touches nothing: its modules are shallow copies that
share every attribute, buffer and parameter with the network's, but for the tensors that were given.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.optim.swa_utils import AveragedModel

from tribayes._errors import check_module

_STRUCTURE = frozenset(nn.Module().__dict__)  # what every module has: parameters, buffers, children, hooks
_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel)  # each has the model as `module`
_COMPILED = "_orig_mod."  # what `torch.compile` puts into names
_UNTOUCHED = (int, float, bool, str, type(None))


class Twin:
    """The twin of a network, and how the two are related.

    Args:
        network: what is copied. It is not changed.
        replaced: id of a parameter or module → what stands in its place.
        own_buffers: whether the twin has a copy of every buffer, so that running it leaves the network's alone.
        without_hooks_of: a package whose forward hooks the twin does without.

    Attributes that refer to parts of the network (lists, dicts, bound methods, partials, weak references, functions by
    their closures or default arguments) refer to those of the twin. A module in a list of its own, unknown to torch, is
    shared.

    Example:
        >>> layer = nn.Linear(2, 1, bias=False)
        >>> twin = Twin(layer, {id(layer.weight): torch.tensor([[3.0, 4.0]])})
        >>> twin.network(torch.ones(1, 2))
        tensor([[7.]])
    """

    def __init__(
        self, network: nn.Module, replaced: Mapping[int, Any], own_buffers: bool = False, without_hooks_of: str = ""
    ) -> None:
        self._known: dict[int, Any] = dict(replaced)
        self._pairs: list[tuple[nn.Module, nn.Module]] = []
        self._swapped: dict[int, Any] = {}  # id of what was given → the parameter whose place it took
        self._own_buffers, self._without_hooks_of = own_buffers, without_hooks_of
        self.network: nn.Module = self._module(network)
        for original, copy in self._pairs:
            self._translate(original, copy)
        self._begun = [copy.__dict__.copy() for _, copy in self._pairs]

    def hand_back(self) -> bool:
        """Let the network have the plain attributes that its twin has set on itself while it ran; whether it did."""
        some = False
        back: Twin = object.__new__(Twin)  # the way from modules of the twin to the network's
        back._known = self._swapped | {id(copy): original for original, copy in self._pairs}
        for (original, copy), begun in zip(self._pairs, self._begun, strict=True):
            for name, value in copy.__dict__.items():
                if begun.get(name, begun) is not value and name not in _STRUCTURE:
                    original.__dict__[name] = back._translated(value)
                    some = True
        return some

    def made_of(self) -> list[Any]:
        """What the network's parts hold now, modes and all: where it is something else, another twin is due."""
        held: list[Any] = []
        for original, _ in self._pairs:
            held += original.__dict__.values()
            held += original._modules.values()
            held += original._parameters.values()
        return held

    def _module(self, module: Any) -> Any:
        """The copy of a module and of what it is made of; attributes are translated later, when all copies are made."""
        if id(module) in self._known:
            return self._known[id(module)]
        if is_compiled(module):  # code compiled for the network serves its twin, too
            return self._known.setdefault(id(module), module.dynamo_ctx(self._module(module._orig_mod)))
        copy = object.__new__(type(module))
        self._known[id(module)] = copy
        self._pairs.append((module, copy))
        own = module.__dict__.copy()
        own["_parameters"] = {name: self._known.get(id(value), value) for name, value in module._parameters.items()}
        self._swapped |= {id(own["_parameters"][name]): value for name, value in module._parameters.items()}
        own["_modules"] = {
            name: None if child is None else self._module(child) for name, child in module._modules.items()
        }
        own["_compiled_call_impl"] = None  # of `module.compile()`: it would call the network itself
        if self._own_buffers:
            own["_buffers"] = {
                name: None if value is None else self._known.setdefault(id(value), value.clone())
                for name, value in module._buffers.items()
            }
        if self._without_hooks_of:
            for kind in ("_forward_pre_hooks", "_forward_hooks"):
                own[kind] = OrderedDict(each for each in own[kind].items() if not self._is_unwanted(each[1]))
        object.__setattr__(copy, "__dict__", own)
        return copy

    def _is_unwanted(self, hook: Any) -> bool:
        return str(getattr(hook, "__module__", "")).startswith(self._without_hooks_of)

    def _translate(self, original: Any, copy: nn.Module) -> None:
        own = copy.__dict__
        for name in own.keys() - _STRUCTURE:
            value = own[name]
            if not isinstance(value, _UNTOUCHED):
                own[name] = self._translated(value)
        if original._compiled_call_impl is not None:  # what compiled it is kept nowhere else, with its options
            (compiler,) = original._compiled_call_impl.get_compiler_config.__closure__
            copy._compiled_call_impl = compiler.cell_contents(copy._call_impl)

    def _translated(self, value: Any) -> Any:
        """A value with parts of the network replaced by the twin's; the value itself where it refers to none."""
        if id(value) in self._known:
            return self._known[id(value)]
        kind = type(value)
        if kind in (list, tuple):
            return self._if_changed(value, [self._translated(item) for item in value])
        if kind in (dict, OrderedDict):
            return self._if_changed(value, kind((key, self._translated(item)) for key, item in value.items()))
        if kind is types.MethodType:
            owner = self._translated(value.__self__)
            return value if owner is value.__self__ else types.MethodType(value.__func__, owner)
        if kind is functools.partial:
            arguments = [self._translated(item) for item in value.args]
            named = {key: self._translated(item) for key, item in value.keywords.items()}
            return functools.partial(self._translated(value.func), *arguments, **named)
        if kind is types.FunctionType:
            return self._function(value)
        if kind is weakref.ref and id(value()) in self._known:
            return weakref.ref(self._known[id(value())])
        return value

    def _if_changed(self, value: Any, translated: Any) -> Any:
        items, others = (value.values(), translated.values()) if isinstance(value, dict) else (value, translated)
        if all(one is other for one, other in zip(items, others, strict=True)):
            return value
        return tuple(translated) if type(value) is tuple else translated

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        """A function with what its closure and its default arguments refer to translated."""
        self._known[id(function)] = function  # while that is done: it may refer to itself
        cells = function.__closure__ or ()
        old = [*map(_content, cells), function.__defaults__, function.__kwdefaults__]
        new = [self._translated(value) for value in old]
        if all(one is other for one, other in zip(old, new, strict=True)):
            return function
        *contents, defaults, named = new
        # what did not change stays in its cell, where other functions may change it
        kept = [one is other and one is not function for one, other in zip(old, contents, strict=False)]
        closure = tuple(cell if stays else types.CellType() for cell, stays in zip(cells, kept, strict=True))
        copy = types.FunctionType(function.__code__, function.__globals__, function.__name__, defaults, closure)
        copy.__kwdefaults__ = named
        self._known[id(function)] = copy
        for cell, stays, content in zip(closure, kept, contents, strict=True):
            if not stays:
                cell.cell_contents = copy if content is function else content
        return copy


def is_compiled(module: nn.Module) -> bool:
    """Whether this is what `torch.compile` makes of a module. To ask for its class would import all of the compiler."""
    return "_orig_mod" in module._modules and hasattr(module, "dynamo_ctx")


def plain_name(name: str) -> str:
    """A name without what compiling adds."""
    return name.replace(_COMPILED, "").removesuffix(_COMPILED.rstrip("."))


def adopt_compiled_names(module: nn.Module, state: dict[str, Any], prefix: str) -> None:
    """Give the tensors of a state, in place, this module's names: it or a part of it was compiled there, or is here."""
    own = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    names = {plain_name(name): prefix + name for name, _ in own}
    for name in [name for name in state if name.startswith(prefix)]:
        if (here := names.get(plain_name(name.removeprefix(prefix)), name)) != name:
            state[here] = state.pop(name)


def bare(model: nn.Module) -> nn.Module:
    """The model itself, without what `torch.compile`, a parallel wrapper or an average of weights puts around it."""
    check_module("model", model, "pass the model itself")
    while True:
        if is_compiled(model):
            model = model.get_submodule("_orig_mod")
        elif isinstance(model, _WRAPPERS):
            model = model.get_submodule("module")
        else:
            return model


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return cell
