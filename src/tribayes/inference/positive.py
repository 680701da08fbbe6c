"""Positive numbers of a likelihood (a noise, a scale), kept raw so that an optimizer may move them freely."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tribayes._errors import check_spread, refusal
from tribayes.inference.targets import check_outputs
from tribayes.posterior.parametrisation import delta_of


def put_positive(module: nn.Module, name: str, value: float, learned: bool, meaning: str) -> None:
    """Give a module a positive number: its raw value under the name `raw_…`, as a parameter or a buffer."""
    check_spread(name, value, meaning)
    raw = delta_of(torch.tensor(float(value), dtype=torch.float64)).to(torch.get_default_dtype())
    if learned:
        module.register_parameter(f"raw_{name}", nn.Parameter(raw))
    else:
        module.register_buffer(f"raw_{name}", raw)


def rows_of_values(outputs: Tensor) -> Tensor:
    """(N,) as (N, 1), and (N, …) as (N, D)."""
    check_outputs(outputs)
    if outputs.ndim == 0:
        raise refusal("outputs", outputs, "have a row for each example", "pass what the network returns for a batch")
    return outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs.flatten(1)
