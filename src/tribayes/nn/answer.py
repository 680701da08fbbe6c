"""Which tensor of a network's answer counts, where it answers with more than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes.nn.calling import is_record, kind_of, named_parts
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.module import BayesianModule

Output = str | int | Callable[[Any], Tensor] | None  # the name or the place of a part, or a function of the answer

_LOGITS = "logits"


def counted(answer: Any, output: Output = None) -> Tensor:
    """The tensor that counts: what `output` says; without it, the answer if it is a tensor, else its part "logits",
    else the first tensor in it that has an axis (a loss has none).

    An answer may be a tensor, a Mapping, a dataclass, a tuple or a list, nested or not; the outputs of transformers are
    Mappings.

    >>> counted({"loss": torch.tensor(1.0), "hidden": torch.zeros(3), "logits": torch.ones(2)})
    tensor([1., 1.])
    >>> counted((torch.zeros(3), torch.ones(2)), output=1)
    tensor([1., 1.])
    """
    if output is None:
        if isinstance(answer, Tensor):
            return answer
        named = _named(answer)
        logits = named.get(_LOGITS) if named else getattr(answer, _LOGITS, None)
        found = logits if isinstance(logits, Tensor) else next(_with_an_axis(answer), None)
    elif callable(output):
        found = output(answer)
    else:
        found = _part(answer, output)
    if isinstance(found, Tensor):
        return found
    if output is None:
        remedy = 'choose a part by output="name", output=0 or output=function'
        raise wrong_type("model", kind_of(answer), "answer with a tensor somewhere", remedy)
    remedy = f"the network answered with {kind_of(answer)}"
    raise wrong_type("output", output, f"lead to a tensor, but led to {kind_of(found)}", remedy)


def _part(answer: Any, output: str | int) -> Any:
    named = _named(answer)
    if isinstance(output, str):
        if output in named:
            return named[output]
        if not named and hasattr(answer, output):
            return getattr(answer, output)
        raise refusal("output", output, f"name a part of the network's answer, {kind_of(answer)}", "correct the name")
    parts = list(named.values()) if named else list(answer) if isinstance(answer, tuple | list) else [answer]
    if not -len(parts) <= output < len(parts):
        requirement = f"count the parts of the network's answer, {kind_of(answer)}"
        raise refusal("output", output, requirement, f"choose from 0 to {len(parts) - 1}")
    return parts[output]


def _named(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Mapping) or is_record(answer):
        return named_parts(answer)
    return answer._asdict() if hasattr(answer, "_asdict") else {}


def _with_an_axis(answer: Any) -> Iterator[Tensor]:
    if isinstance(answer, Tensor):
        if answer.ndim:
            yield answer
        return
    named = _named(answer)
    for part in named.values() if named else answer if isinstance(answer, tuple | list) else ():
        yield from _with_an_axis(part)


def check_output(output: object) -> None:
    """Refuse what says nothing about an answer."""
    if isinstance(output, bool) or not (output is None or isinstance(output, str | int) or callable(output)):
        remedy = 'pass e.g. output="logits", output=0 or output=lambda answer: answer.logits[:, -1]'
        raise wrong_type("output", output, "be a name, an index or a function of the network's answer", remedy)


def remember_output(model: nn.Module, output: Output) -> None:
    """Keep with a model what counted in its training, so that predictions mean the same. It is no part of its state."""
    first = bayesian_modules(model)[0]
    if first._output is not output:
        first.__dict__["_output"] = output  # past torch, which would take a module for a part of this one


def remembered_output(model: nn.Module) -> Output:
    """What counted in the model's last training; None where nothing was chosen, or no Bayesian module could keep it."""
    return next((module._output for module in model.modules() if isinstance(module, BayesianModule)), None)
