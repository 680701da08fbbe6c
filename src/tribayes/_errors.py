"""One form for every complaint: the argument, its value, what is required, what to do."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

SMALLEST_SPREAD, LARGEST_SPREAD = 1e-10, 1e10  # of standard deviations
_MOST_BITS = 10_000  # of a whole number: Python writes none of more than 4,300 digits
LARGEST_RATE, LARGEST_DECAY = 1e30, 1e6  # whose product, and a tenfold rate of Adam's first step, float32 still has
SPREAD = "lie between 1e-10 and 1e10, since its square is computed with"


def refusal(argument: str, value: object, requirement: str, remedy: str) -> ValueError:
    """The error for a bad value, ready to be raised.

    >>> raise refusal("tau", -1.0, "be positive", "pass the relative standard deviation, such as 0.05")
    Traceback (most recent call last):
    ValueError: `tau` (=-1.0) must be positive; pass the relative standard deviation, such as 0.05.
    """
    return ValueError(f"`{argument}` (={describe(value)}) must {requirement}; {remedy}.")


def wrong_type(argument: str, value: object, requirement: str, remedy: str) -> TypeError:
    """The same sentence for an argument of the wrong type."""
    return TypeError(f"`{argument}` (={describe(value)}) must {requirement}; {remedy}.")


def describe(value: object) -> str:
    """A value as a reader wants to meet it in an error: short, and a tensor by its shape and dtype."""
    if isinstance(value, Tensor):
        if value.numel() == 1 and not value.is_meta and value.layout == torch.strided:
            return repr(value.item())
        return f"tensor of shape {tuple(value.shape)}, {value.dtype}"
    try:
        text = repr(value)
    except ValueError:  # of a whole number that is too long to be written, or of what holds one
        return f"{type(value).__name__} of thousands of digits"
    return text if len(text) <= 120 else text[:117] + "..."


def is_number(value: object) -> bool:
    """A real number within a float's range, NumPy's as well, and not a bool, which Python counts as an int."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and float(value) is not None
    except OverflowError:
        return False


def check_positive(argument: str, value: Any, remedy: str) -> None:
    """Refuse what is not a finite positive number."""
    if not is_number(value):
        raise wrong_type(argument, value, "be a number", remedy)
    if not (math.isfinite(value) and value > 0):
        raise refusal(argument, value, "be finite and positive", remedy)


def check_rate(argument: str, value: Any, remedy: str) -> None:
    """Refuse what is no positive number, or a learning rate at which optimizers leave float32's range."""
    check_positive(argument, value, remedy)
    if value > LARGEST_RATE:
        raise refusal(argument, value, f"be at most {LARGEST_RATE:g}", remedy)


def check_decay(argument: str, value: Any, remedy: str) -> None:
    """Refuse what is no number from zero on, or a weight decay at which optimizers leave float32's range."""
    if not is_number(value):
        raise wrong_type(argument, value, "be a number", remedy)
    if not 0 <= value < math.inf:
        raise refusal(argument, value, "be finite and not negative", remedy)
    if value > LARGEST_DECAY:
        raise refusal(argument, value, f"be at most {LARGEST_DECAY:g}", remedy)


def check_spread(argument: str, value: Any, remedy: str) -> None:
    """Refuse what is no positive number, or one whose square would come near the ends of float32's range."""
    check_positive(argument, value, remedy)
    if not SMALLEST_SPREAD <= value <= LARGEST_SPREAD:
        raise refusal(argument, value, SPREAD, remedy)


def check_whole(argument: str, value: object, remedy: str, least: int | None = None) -> int:
    """It as Python's int; refused where it is not a whole number, or below the least that is allowed."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_type(argument, value, "be a whole number", remedy)
    if int(value).bit_length() > _MOST_BITS:
        raise refusal(argument, value, f"have at most {_MOST_BITS:,} bits", remedy)
    if least is not None and value < least:
        raise refusal(argument, value, f"be at least {least}", remedy)
    return int(value)


def check_characters(argument: str, text: str) -> None:
    """Refuse text that no file can hold: one with half a character (a lone surrogate)."""
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise refusal(argument, text, "be without half a character", "leave out what is no Unicode")


def check_module(argument: str, value: object, remedy: str = "pass the network itself") -> None:
    """Refuse what is no network: its class, its name, None."""
    if not isinstance(value, nn.Module):
        raise wrong_type(argument, value, "be a torch.nn.Module", remedy)


def check_plain(argument: str, value: Tensor) -> None:
    """Refuse what torch does not compute with as with numbers: sparse, quantized, complex and float8 tensors, and meta.

    >>> check_plain("targets", torch.zeros(3, dtype=torch.complex64))
    Traceback (most recent call last):
    TypeError: `targets` (=tensor of shape (3,), torch.complex64) must be real numbers, dense and in memory; ...
    """
    small = value.is_floating_point() and value.dtype.itemsize < 2
    dense = value.layout == torch.strided and not (value.is_meta or value.is_quantized)
    if small or not dense or value.is_complex():
        remedy = f"convert it from {value.layout} on {value.device}, e.g. by x.to_dense(), x.real or x.float()"
        raise wrong_type(argument, value, "be real numbers, dense and in memory", remedy)


def check_all(argument: str, value: Tensor, legal: Tensor, requirement: str, remedy: str) -> None:
    """Refuse a tensor with any entry that is not legal: the first is named, and how many there are."""
    if not torch.all(legal):
        bad = (~legal).expand(value.shape)
        index = tuple(bad.nonzero()[0].tolist())
        entry = f"{value[index].item()} at {index}" if index else f"{value.item()}"
        found = f"{entry}, {int(bad.sum())} of {value.numel()} entries"
        raise ValueError(f"`{argument}` (={found}) must {requirement}; {remedy}.")
