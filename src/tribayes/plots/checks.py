"""What every picture asks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type
from tribayes.plots.style import plain
from tribayes.prediction import ClassPredictive

T = TypeVar("T")


def check_type(argument: str, value: object, kind: type[T], remedy: str) -> T:
    """A value of this class."""
    if not isinstance(value, kind):
        raise wrong_type(argument, type(value).__name__, f"be a {kind.__name__}", remedy)
    return value


def check_classes(argument: str, pred: object) -> ClassPredictive:
    """A prediction of classes."""
    return check_type(argument, pred, ClassPredictive, "pass what tribayes.predict returned")


def check_index(argument: str, index: object, count: int, things: str) -> int:
    """A whole number in [0, count)."""
    if isinstance(index, Tensor) and index.ndim == 0 and not index.is_floating_point():
        index = int(index)
    if isinstance(index, bool) or not isinstance(index, int):
        raise wrong_type(argument, index, "be a whole number", f"it numbers the {things} from 0")
    if not 0 <= index < count:
        raise refusal(argument, index, f"lie in [0, {count})", f"there are {count} {things}")
    return index


def check_count(argument: str, value: object, remedy: str) -> int:
    """A whole number, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refusal(argument, value, "be a whole number, at least 1", remedy)
    return value


def names_of(class_names: Sequence[str] | None, classes: int) -> list[str]:
    """A name for each class, ready to be drawn: its number where none is given."""
    if class_names is None:
        return [str(index) for index in range(classes)]
    if isinstance(class_names, str) or len(class_names) != classes:
        raise refusal("class_names", class_names, f"hold {classes} names, one per class", "check their number")
    return [plain(str(name)) for name in class_names]


def check_images(images: object, count: int) -> Tensor:
    """Images for `count` examples, (N, 1, H, W) or (N, 3, H, W), on the CPU as float32."""
    shape, remedy = "(N, 1, H, W) or (N, 3, H, W)", "add or move the channel axis"
    values = _in_unit_range("images", images, 4, shape, remedy)
    if len(values) != count:
        raise refusal("images", images, f"hold {count} images, one per example", "pass those that were predicted")
    return values


def check_image(image: object) -> Tensor:
    """One image as (1, H, W) or (3, H, W); (H, W) is taken for grey."""
    if isinstance(image, Tensor) and image.ndim == 2:
        image = image.unsqueeze(0)
    return _in_unit_range("image", image, 3, "(H, W), (1, H, W) or (3, H, W)", "pass one image, images[i]")


def _in_unit_range(argument: str, images: object, axes: int, shape: str, remedy: str) -> Tensor:
    if not isinstance(images, Tensor):
        raise wrong_type(argument, type(images).__name__, "be a tensor", "convert it with torch.as_tensor")
    if images.ndim != axes or images.shape[-3] not in (1, 3):
        raise refusal(argument, images, f"have the shape {shape}", remedy)
    values = images.detach().cpu().float()
    if values.numel() and not ((values >= 0) & (values <= 1)).all():  # NaN is refused too
        low, high = float(values.min()), float(values.max())
        remedy = "divide bytes by 255, or undo the normalisation"
        raise refusal(argument, f"values from {low:.3g} to {high:.3g}", "lie in [0, 1]", remedy)
    return values


def check_line(argument: str, values: object, count: int | None = None) -> Tensor:
    """Finite numbers along one axis, (N,), on the CPU as float64; (N, 1) is accepted."""
    try:
        line = torch.as_tensor(values).detach().cpu().double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise wrong_type(argument, values, "be a tensor or a list of numbers", "convert it") from error
    line = line.squeeze(-1) if line.ndim == 2 and line.shape[-1] == 1 else line
    if line.ndim != 1 or (count is not None and len(line) != count):
        raise refusal(argument, values, f"have the shape ({'N' if count is None else count},)", "check the data")
    if not torch.isfinite(line).all():
        raise refusal(argument, values, "be finite", "clean the data")
    return line
