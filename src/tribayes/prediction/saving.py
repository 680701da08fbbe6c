"""A model in one file: saved with all that is needed to ask it, and loaded into a fresh network of its kind."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from tribayes._errors import check_module, refusal, wrong_type
from tribayes._files import path_of
from tribayes._tensor_files import plain_values, read_tensors, unusable, write_tensors
from tribayes.inference.likelihood import Likelihood
from tribayes.inference.memory import likelihood_of, remember
from tribayes.nn.answer import Output, check_output, remember_output, remembered_output
from tribayes.nn.convert import bayesian_modules, copied
from tribayes.nn.module import BayesianModule
from tribayes.nn.places import some_of
from tribayes.nn.sharded import check_unsharded
from tribayes.nn.twin import bare, plain_name
from tribayes.posterior.family import FAMILIES, Family
from tribayes.prediction.calibration import calibrations_of, remember_calibrations
from tribayes.prediction.saved_form import (
    LIKELIHOODS,
    Facts,
    Tensors,
    bayesian_paths,
    conversion_options,
    likelihood_facts,
    likelihood_from,
    module_facts,
    network_names,
    output_facts,
    part_names,
    separate,
    shapes,
    ties,
    warn_of_other_parts,
)

FORMAT = "tribayes model"
VERSION = 1

_MODEL, _LIKELIHOOD = "model/", "likelihood/"  # before the names of tensors; no module's name has a slash
_AGAIN = "save the model again, or take another copy of the file"
_UNKNOWN = (
    "the model was filled from a state_dict, which does not say what its outputs mean, and neither does the file: who "
    "loads it is answered about classes. Pass likelihood=tb.Categorical() or whatever it was trained with."
)

Kind = TypeVar("Kind", bound=nn.Module)


def save(
    model: nn.Module,
    path: Path | str,
    *,
    likelihood: Likelihood | None = None,
    notes: Mapping[str, Any] | None = None,
    custom: bool = False,
) -> None:
    """Keep a model in one safetensors file: weights, posterior, priors, likelihood, calibrations, versions.

    The file is there whole or not at all, carries a checksum, and holds no code: reading it runs nothing.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones; compiled or not gives the same file.
        path: of the file, such as "model.safetensors".
        likelihood: what its outputs mean. Default: the one it was trained with, where it knows of one; where it was
            filled from a `state_dict`, which does not say, there is a warning.
        notes: anything of your own, as plain JSON values.
        custom: whether a family, a likelihood or a function (`ELBO(output=...)`) of your own may be in it, by name: it
            is then an argument of `tribayes.load`.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> save(model, folder / "model.safetensors", notes={"trained on": "irises"})
        >>> again = load(folder / "model.safetensors", nn.Linear(4, 3))
        >>> torch.equal(again.module.weight, model.module.weight)
        True
    """
    path, model = path_of("path", path), bare(model)
    bayesian_modules(model)
    check_unsharded(model)
    likelihood = likelihood_of(model) if likelihood is None else likelihood
    if likelihood is not None and not isinstance(likelihood, Likelihood):
        raise wrong_type("likelihood", likelihood, "be a Likelihood", "pass e.g. tb.Categorical()")
    if likelihood is None and any(module._filled for module in bayesian_modules(model)):
        warnings.warn(_UNKNOWN, UserWarning, stacklevel=2)
    modules = [module_facts(path, module, custom) for path, module in bayesian_paths(model)]
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "modules": modules,
        "parts": part_names(model),
        "output": output_facts(remembered_output(model), custom),
        "likelihood": None if likelihood is None else likelihood_facts(likelihood, custom),
        "calibrations": calibrations_of(model),
        "tribayes": import_module("tribayes").__version__,
        "torch": torch.__version__,
        "notes": plain_values("notes", {} if notes is None else notes),
    }
    tensors, shared = separate({plain_name(name): value for name, value in model.state_dict().items()}, "model")
    own, _ = separate({} if likelihood is None else likelihood.state_dict(), "likelihood")
    everything = {_MODEL + name: value for name, value in tensors.items()}
    everything |= {_LIKELIHOOD + name: value for name, value in own.items()}
    # contested: every process of a training may save
    write_tensors(path, everything, facts | {"shared": shared}, contested=True)


def load(
    path: Path | str,
    net: nn.Module,
    *,
    family: type[Family] | None = None,
    likelihood: type[Likelihood] | None = None,
    output: Output = None,
    device: torch.device | str | None = None,
) -> Any:
    """A saved model again: `net`, a network of the same architecture, is copied and the copy made that model.

    It predicts as the saved one did, by the likelihood that was saved with it. `net` itself is left as it is. What fits
    by its weights, but has other kinds of parts in it (a Tanh for a ReLU), is warned of.

    Args:
        path: of a file that `tribayes.save` wrote.
        net: the plain network, with any weights; where the model was built of Bayesian layers (`tribayes.nn`) or parts,
            one built in the same way.
        family: the class of the family, where it is one of your own.
        likelihood: the class of the likelihood, where it is one of your own.
        output: the function that says which part of the network's answer counts, where it is one of your own.
        device: where the model is to be. Default: where `net` is.

    Returns:
        A `BayesianModule`, or for a model with several of them one like `net`.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> tribayes.save(model, folder / "model.safetensors", likelihood=tribayes.Categorical())
        >>> load(folder / "model.safetensors", nn.Linear(4, 3)).random_names
        ('weight', 'bias')
    """
    path = path_of("path", path)
    check_module("net", net, "pass a network of the architecture that was saved")
    for name, kind in (("family", family), ("likelihood", likelihood)):
        if kind is not None and not isinstance(kind, type):
            raise wrong_type(name, kind, "be a class", "pass the class itself, not an object of it")
    check_output(output)
    place = None if device is None else _place(device)
    tensors, facts = _read(path)
    try:
        output = _output_of(path, facts.get("output"), output)
        model = _rebuilt(path, tensors, facts, bare(net), family, likelihood, place)
        remember_output(model, output)
        return model
    except torch.OutOfMemoryError:
        raise
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:  # made by hand: right is its checksum alone
        raise unusable(path, f"does not describe a model ({type(error).__name__}: {error})", _AGAIN) from error


def facts_of(path: Path | str) -> dict[str, Any]:
    """What a file says of itself: its format, versions, posterior family, likelihood, calibrations and your notes.

    Example:
        >>> save(tribayes.to_bayesian(nn.Linear(4, 3)), folder / "model.safetensors", notes={"data": "irises"})
        >>> facts_of(folder / "model.safetensors")["notes"]
        {'data': 'irises'}
    """
    return _read(path_of("path", path))[1]


def _read(path: Path) -> tuple[Tensors, Facts]:
    if not path.is_file():
        raise refusal("path", str(path), "be a file", "pass what was given to tb.save")
    tensors, facts = read_tensors(path, _AGAIN)
    if facts.get("format") != FORMAT:
        raise unusable(path, "is a file of tribayes, but no saved model", "pass a file that tb.save wrote")
    version = facts.get("version")
    if not isinstance(version, int) or version > VERSION:
        writer = facts.get("tribayes")
        problem = f"has version {version!r} of the format, by tribayes {writer}, and this one reads {VERSION}"
        raise unusable(path, problem, "load it with that tribayes or a newer one")
    return tensors, facts


def _rebuilt(
    path: Path,
    tensors: Tensors,
    facts: Facts,
    net: nn.Module,
    family: type[Family] | None,
    likelihood: type[Likelihood] | None,
    device: torch.device | None,
) -> nn.Module:
    state = {name.removeprefix(_MODEL): value for name, value in tensors.items() if name.startswith(_MODEL)}
    state |= {name: state[other] for name, other in facts["shared"].items()}
    families = [_class_of(path, "family", one["family"], FAMILIES, family) for one in facts["modules"]]
    _check_network(path, state, facts, net)
    warn_of_other_parts(str(path), facts.get("parts", {}), net)
    model = copied(net)
    for one, kind in zip(facts["modules"], families, strict=True):
        model = _converted(model, one, state, kind)
    names = {plain_name(name): name for name in model.state_dict()}
    fresh = model.state_dict()
    odd = names.keys() ^ state.keys() or {n for n, value in state.items() if value.shape != fresh[names[n]].shape}
    if odd:
        raise unusable(
            path, f"does not fit this family or network in {_few(sorted(odd))}", "pass what it was saved with"
        )
    # of names and shapes, which have been compared; in older files names were those of compiled parts
    state |= {name: fresh[names[name]] for name in state if name.rpartition(".")[2] == "layout"}
    model.load_state_dict({names[name]: value for name, value in state.items()})
    model = model if device is None else model.to(device)
    if facts["likelihood"] is not None:
        known = _class_of(path, "likelihood", facts["likelihood"]["kind"], LIKELIHOODS, likelihood)
        own = {name.removeprefix(_LIKELIHOOD): t for name, t in tensors.items() if name.startswith(_LIKELIHOOD)}
        remember(model, likelihood_from(facts["likelihood"], own, known).to(next(model.parameters()).device))
    for module in bayesian_modules(model):
        module._filled = False  # by a file, which says whatever was known of a likelihood
    remember_calibrations(model, facts["calibrations"])
    return model


def _converted(model: nn.Module, facts: Facts, state: Tensors, family: type[Family]) -> nn.Module:
    """The network with one of its Bayesian modules made anew as the facts say, from the means that were saved."""
    path = facts["path"]
    prefix = f"{path}." if path else ""
    own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    part = {plain_name(name): module for name, module in model.named_modules()}[path]
    module = part.module if isinstance(part, BayesianModule) else part
    options = conversion_options(facts, own, module, family)
    names = {plain_name(name): name for name in module.state_dict()}
    module.load_state_dict({names[name]: own[f"module.{name}"] for name in names})
    if not isinstance(part, BayesianModule):
        return BayesianModule(module, generator=0, **options)
    BayesianModule.__init__(part, module, generator=0, **options)  # keeps its class, such as tribayes.nn.Linear
    return model


def _place(device: torch.device | str) -> torch.device:
    """A device that is there."""
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise refusal("device", str(device), "be a device of this machine", 'pass e.g. "cpu"') from error
    return place


def _output_of(path: Path, saved: Any, given: Output) -> Output:
    """What counts of the network's answer: what is given, else what was saved; a function has to be given."""
    if given is None and isinstance(saved, dict):
        name = saved["function"]
        remedy = f"pass output={name}, the function itself, to tb.load"
        raise unusable(path, f"was saved with a function that chooses the output, {name!r}", remedy)
    found: Output = saved if given is None else given
    check_output(found)
    return found


def _check_network(path: Path, state: Tensors, facts: Facts, net: nn.Module) -> None:
    """Refuse a network unlike the saved one: in Bayesian parts, in its tensors' names, shapes, dtypes and ties."""
    if any(tensor.is_meta for tensor in (*net.parameters(), *net.buffers())):
        remedy = 'build it on the CPU, and say where the model is to be: device="cuda"'
        raise refusal("net", type(net).__name__, "have memory for its numbers, but is on the meta device", remedy)
    paths = [one["path"] for one in facts["modules"]]
    there = [plain_name(name) for name, _ in bayesian_paths(net)]
    if paths != [""] and there != paths:
        requirement = f"have the Bayesian parts {_few(paths)} of the model in {path}, but has {_few(there)}"
        raise refusal("net", type(net).__name__, requirement, "build it as it was built before it was saved")
    if paths == [""] and there not in ([], [""]):
        requirement = f"be plain, as the one converted before it was saved to {path}, but has the parts {_few(there)}"
        raise refusal("net", type(net).__name__, requirement, "pass the network without Bayesian layers")
    found = net.state_dict()
    our_names, their_names = network_names(list(found), there), network_names(list(state), paths)
    ours = shapes({plain: found[name] for name, plain in our_names.items()})
    theirs = shapes({plain: state[name] for name, plain in their_names.items()})
    other = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    own = [(name, id(p)) for name, p in net.named_parameters(remove_duplicate=False) if name in our_names and p.numel()]
    our_ties = ties((our_names[name], number) for name, number in own)
    learned, shared = {our_names[name] for name, _ in own}, facts["shared"]
    their_ties = ties((plain, shared.get(name, name)) for name, plain in their_names.items() if plain in learned)
    problems = {
        "lacks": sorted(theirs.keys() - ours.keys()),
        "has besides": sorted(ours.keys() - theirs.keys()),
        "has otherwise": [f"{name} ({_form(ours[name])}, saved {_form(theirs[name])})" for name in other],
        "ties what was apart:": sorted(our_ties - their_ties),
        "has apart what was tied:": sorted(their_ties - our_ties),
    }
    said = "; ".join(f"it {words} {_few(names)}" for words, names in problems.items() if names)
    if said:
        requirement = f"be a network like the one in {path}, but {said}"
        raise refusal("net", type(net).__name__, requirement, "build the architecture that was saved, with its dtype")


def _class_of(
    path: Path, word: str, name: str, known: Mapping[str, type[Kind]], given: type[Kind] | None
) -> type[Kind]:
    """The class by its name: tribayes's own, or the one given, which has to be called so."""
    if given is None and name in known:
        return known[name]
    if given is None:
        remedy = f"pass {word}={name}, the class itself, to tb.load"
        raise unusable(path, f"was saved with a {word} of its own, {name!r}", remedy)
    if given.__name__ != name and given is not known.get(name):
        raise refusal(word, given.__name__, f"be {name}, which {path} was saved with", "leave it out, or pass that one")
    return given


def _form(shape_and_dtype: tuple[tuple[int, ...], torch.dtype]) -> str:
    shape, dtype = shape_and_dtype
    return f"{'×'.join(map(str, shape)) or 'scalar'} {str(dtype).removeprefix('torch.')}"


def _few(names: list[str]) -> str:
    return some_of(names, shown=4) or "none"
