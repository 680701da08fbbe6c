"""A network by torch.compile, and what torch says where it cannot."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from tribayes._errors import refusal


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function by torch.compile, for arguments of the same shapes in every call."""
    from torch._dynamo.exc import BackendCompilerFailed  # takes a second, and only this needs it

    # while it traces, torch looks at the .grad of the draws it is handed, and warns of that itself
    warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
    run = torch.compile(function, dynamic=False)

    def call(*arguments: object) -> Tensor:
        try:
            return run(*arguments)
        except BackendCompilerFailed as error:
            requirement = f"be false where torch cannot compile ({error.inner_exception})"
            raise refusal(
                "compiled", True, requirement, "install a C++ compiler such as g++, or leave it out"
            ) from error

    return call
