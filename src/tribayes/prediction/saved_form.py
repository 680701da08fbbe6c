"""How a model is written down: tensors by their names, and plain facts from which a network becomes that model again.

Classes are written by name and never imported by it: reading a file runs nothing. A class that is not of tribayes has
to be given by whoever reads the file.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping
from glob import escape
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.inference.likelihood import Bernoulli, Categorical, Gaussian, Likelihood, MultiLabel
from tribayes.inference.values import HeteroscedasticGaussian, Poisson, StudentT
from tribayes.nn.answer import Output
from tribayes.nn.conversion import Options
from tribayes.nn.module import BayesianModule
from tribayes.nn.places import some_of
from tribayes.nn.twin import plain_name
from tribayes.posterior.family import FAMILIES, Family
from tribayes.posterior.prior import AnyPrior, BestScale, Prior, RelativePrior, TensorPrior

Facts = dict[str, Any]
Tensors = dict[str, Tensor]

LIKELIHOODS: dict[str, type[Likelihood]] = {
    kind.__name__: kind
    for kind in (Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, MultiLabel, Poisson, StudentT)
}
_PRIORS = {BestScale: "relative", TensorPrior: "normal"}


def module_facts(path: str, module: BayesianModule, custom: bool) -> Facts:
    """What is to be said of a Bayesian module beside its tensors."""
    named = {kind: name for name, kind in FAMILIES.items()}
    kind = type(module.family)
    if kind not in named and not custom:
        raise _own("model", kind, f"family={kind.__name__}")
    random = []
    for (name, mean), prior in zip(module.means(), module.priors, strict=True):
        if type(prior) not in _PRIORS:
            remedy = "give it a tb.Prior or tb.RelativePrior, or keep model.state_dict() in a file of your own"
            raise refusal(f"prior of {name}", type(prior).__name__, "be one of tribayes's own", remedy)
        random.append({"name": plain_name(name), "shape": list(mean.shape), "prior": _PRIORS[type(prior)]})
    return {"path": plain_name(path), "family": named.get(kind, kind.__name__), "random": random}


def conversion_options(
    facts: Facts, tensors: Mapping[str, Tensor], network: nn.Module, family: type[Family]
) -> Options:
    """What makes a module of these facts out of its plain network; `tensors` are the module's own, by their names."""
    names = {plain_name(name): name for name, _ in network.named_parameters(remove_duplicate=False)}
    priors: dict[str, AnyPrior] = {}
    for number, one in enumerate(facts["random"]):
        prior: AnyPrior = RelativePrior()
        if one["prior"] == "normal":
            parts = (tensors[f"priors.{number}.{field}"] for field in ("loc", "scale"))
            prior = Prior(*(part.reshape(one["shape"]) if part.ndim else float(part) for part in parts))
        priors[names[one["name"]]] = prior
    return {
        "family": family,
        "prior": {escape(name): prior for name, prior in priors.items()},
        "where": lambda name, _: name in priors,
    }


def likelihood_facts(likelihood: Likelihood, custom: bool) -> Facts:
    """A likelihood by its class and the arguments that would make one like it."""
    kind = type(likelihood)
    if kind is not LIKELIHOODS.get(kind.__name__) and not custom:
        raise _own("likelihood", kind, f"likelihood={kind.__name__}")
    settings = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue  # torch's own, of a class without an __init__
        value = getattr(likelihood, name, parameter)
        value = value.detach().tolist() if isinstance(value, Tensor) else value
        if not isinstance(value, int | float | str | list | None):
            requirement = f"keep its argument {name!r} as an attribute of that name, a number, a word or a tensor"
            remedy = "set it in __init__, or save without it and pass the likelihood when you predict"
            raise refusal("likelihood", kind.__name__, requirement, remedy)
        settings[name] = value
    return {"kind": kind.__name__, "settings": settings}


def likelihood_from(facts: Facts, tensors: Tensors, kind: type[Likelihood]) -> Likelihood:
    """The likelihood again."""
    likelihood = kind(**facts["settings"])
    likelihood.load_state_dict(tensors)
    return likelihood


def output_facts(output: Output, custom: bool) -> str | int | dict[str, str] | None:
    """Which part of the answer counts: a name, an index, or the name of a function that has to be given again."""
    if output is None or isinstance(output, str | int):
        return output
    name = getattr(output, "__name__", type(output).__name__)
    if not custom:
        requirement = "be a name or an index, unless you say that you will give the function to tb.load"
        raise refusal("output", name, requirement, f"pass custom=True here, and output={name} there")
    return {"function": name}


def part_names(model: nn.Module) -> dict[str, str]:
    """The kind of every part of a model's plain network, by its path there: "" is the network itself."""
    modules = {f"{name}.".removeprefix("."): part for name, part in model.named_modules(remove_duplicate=False)}
    plain = network_names(list(modules), [path for path, _ in bayesian_paths(model)])
    # of a wrapper and what is in it, which go by one path, the last counts
    return {path.removesuffix("."): type(modules[name]).__name__ for name, path in plain.items()}


def warn_of_other_parts(file: str, saved: Mapping[str, str], net: nn.Module) -> None:
    """A warning where a network has the weights of the saved one, but other kinds of parts."""
    found = part_names(net)
    other = [
        f"{path or 'the network itself'} ({found.get(path, 'nothing')}, saved {saved.get(path, 'nothing')})"
        for path in sorted(saved.keys() | found.keys())
        if saved.get(path) != found.get(path)
    ]
    if saved and other:
        few = some_of(other, shown=4)
        text = (
            f"the network has the weights of the one in {file}, but other parts: {few}; it may compute something else"
        )
        warnings.warn(text, UserWarning, stacklevel=4)


def _own(argument: str, kind: type, remedy: str) -> ValueError:
    requirement = "be of tribayes's own classes, unless you say that you will give the class to tb.load"
    return refusal(argument, kind.__name__, requirement, f"pass custom=True here, and {remedy} there")


def network_names(names: list[str], paths: list[str]) -> dict[str, str]:
    """Of a model's tensors those of its plain network: full name → name in the plain network."""
    found = {}
    for name in names:
        own = plain_name(name)
        for path in paths:
            prefix = f"{path}." if path else ""
            if own.startswith((f"{prefix}family.", f"{prefix}priors.")) or own == f"{prefix}layout":
                break
            if own.startswith(f"{prefix}module."):
                found[name] = prefix + own.removeprefix(f"{prefix}module.")
                break
        else:
            found[name] = own
    return found


def separate(state: Mapping[str, Any], owner: str) -> tuple[Tensors, dict[str, str]]:
    """A state dict as a file takes it: on the CPU, each memory once, and which names are others again (tied ones)."""
    tensors: Tensors = {}
    shared: dict[str, str] = {}
    seen: dict[tuple[object, ...], str] = {}
    for name, value in state.items():
        if not isinstance(value, Tensor):
            remedy = "register it as a buffer, so that it can be kept in a safetensors file"
            raise refusal(f"{owner}.{name}", value, "be a tensor", remedy)
        place = (value.device, value.data_ptr(), value.dtype, tuple(value.shape), value.stride())
        if value.numel() and place in seen:
            shared[name] = seen[place]
        else:
            seen[place] = name
            tensors[name] = value.detach().to("cpu", copy=True).contiguous()
    return tensors, shared


def bayesian_paths(model: nn.Module) -> list[tuple[str, BayesianModule]]:
    """Every Bayesian module with its path."""
    return [(path, module) for path, module in model.named_modules() if isinstance(module, BayesianModule)]


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Name → shape and dtype."""
    return {name: (tuple(value.shape), value.dtype) for name, value in tensors.items()}


def ties(pairs: Iterable[tuple[str, object]]) -> set[str]:
    """Of (name, what it stands for) the names that stand for one and the same: "lm_head.weight = wte.weight"."""
    groups: dict[object, list[str]] = {}
    for name, thing in pairs:
        groups.setdefault(thing, []).append(name)
    return {" = ".join(sorted(names)) for names in groups.values() if len(names) > 1}
