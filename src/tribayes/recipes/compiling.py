"""A network by torch.compile: where that is faster, how, and what torch says where it cannot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import cast

import torch
from torch import nn

from tribayes._errors import refusal
from tribayes.recipes.setting import Setting

# Iterations that make up for the compiling, with an empty cache, on an H200: LeNet-100 takes 9 s to compile and then
# 0.06 ms less per step (docs/performance.md), CIFAR10_full about 18 s and 0.19 ms. LeNet-250 is taken to be like it.
PAYS_FROM = {"lenet-100": 150_000, "lenet-250": 150_000, "cifar10-full": 100_000}


def is_compiled(setting: Setting, device: torch.device) -> bool:
    """Whether a setting's network is compiled: as it says; else on a GPU, where the training is long enough.

    Dropout draws from a generator of its own, which torch cannot trace. On a CPU a C++ compiler is needed, which not
    everyone has: there one asks for it.
    """
    if setting.compiled is not None:
        return setting.compiled
    long = setting.iterations >= PAYS_FROM.get(setting.network, math.inf) and not setting.dropout
    return device.type == "cuda" and long and find_spec("triton") is not None


def compiled(model: nn.Module) -> nn.Module:
    """The model by torch.compile, for arguments of the same shapes in every call."""
    # deterministic: torch would choose between ways to sum by timing them, so that a resumed run might have other bits
    return cast(nn.Module, torch.compile(model, dynamic=False, options={"deterministic": True}))


@contextmanager
def explained() -> Iterator[None]:
    """What torch says within where it cannot compile, in words that help."""
    from torch._dynamo.exc import BackendCompilerFailed  # takes a second, and only this needs it

    try:
        yield
    except BackendCompilerFailed as error:
        requirement = f"be false where torch cannot compile ({error.inner_exception})"
        remedy = "install what it misses, on a CPU a C++ compiler such as g++, or start anew with --set compiled=false"
        raise refusal("compiled", True, requirement, remedy) from error
