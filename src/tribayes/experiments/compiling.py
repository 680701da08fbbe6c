"""A network by torch.compile, and what torch says where it cannot."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tribayes._errors import refusal


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function by torch.compile, for arguments of the same shapes in every call."""
    from torch._dynamo.exc import BackendCompilerFailed  # takes a second, and only this needs it

    run = torch.compile(function, dynamic=False)

    def call(*arguments: object) -> Tensor:
        try:
            return run(*arguments)
        except BackendCompilerFailed as error:
            requirement = f"be false where torch cannot compile ({error.inner_exception})"
            remedy = "install what it misses, on a CPU a C++ compiler such as g++, or leave it out"
            raise refusal("compiled", True, requirement, remedy) from error

    return call
