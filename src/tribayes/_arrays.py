"""Arrays of other libraries where a tensor is meant, known by what they can do: none of these libraries is imported."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type


def is_array(value: object) -> bool:
    """Whether this is an array of another library: NumPy's, a pandas or polars table or column, JAX's."""
    return not isinstance(value, Tensor | type) and (hasattr(value, "to_numpy") or hasattr(value, "__array__"))


def tensor_of(argument: str, value: Any, real: torch.dtype | None = None) -> Any:
    """An array as a tensor with a copy of its numbers; anything else as it is.

    NumPy's real numbers are float64 unless someone asked for less, which few networks are: they come in the dtype
    `real`, if there is one.

    >>> import numpy
    >>> tensor_of("inputs", numpy.zeros((2, 3)), real=torch.float32).dtype, tensor_of("inputs", "text")
    (torch.float32, 'text')
    """
    if not is_array(value):
        return value
    if hasattr(value, "filled") and value.mask.any():  # NumPy's masked arrays have numbers under the mask, too
        masked = f"{int(value.mask.sum())} of {value.size} entries masked"
        raise refusal(argument, masked, "have no missing values", "fill them, as by .filled(0), or drop their rows")
    array = value.to_numpy() if hasattr(value, "to_numpy") else value.__array__()
    native = array.dtype.newbyteorder("=")  # files of instruments and of IDX have their bytes the other way round
    try:
        tensor = torch.from_numpy(array.astype(native))  # a copy: a view must often not be written to
    except TypeError as error:
        kinds = {str(kind) for kind in value.dtypes} if hasattr(value, "columns") else {str(array.dtype)}
        found = f"{type(value).__name__} of shape {tuple(array.shape)} with columns of {', '.join(sorted(kinds))}"
        remedy = "encode words and dates first, and make all columns of one kind, e.g. by .astype('float32')"
        raise wrong_type(argument, found, "hold numbers alone", remedy) from error
    return tensor.to(real) if real is not None and tensor.is_floating_point() else tensor
