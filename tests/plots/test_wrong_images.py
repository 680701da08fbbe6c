"""The grid shows exactly the wrong and certain images, with their classes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from tests.plots.cases import constant_classes, images_for, noisy_targets, random_classes
from tribayes.plots import wrong_and_certain


@pytest.mark.parametrize("channels", [1, 3])
def test_images_and_captions_are_those_of_the_errors(channels: int) -> None:
    pred = random_classes(sharpness=8)
    targets, images = noisy_targets(pred), images_for(60, channels)
    found = ((pred.label != targets) & pred.certain(0.95)).nonzero().flatten().tolist()
    found.sort(key=lambda i: -float(pred.confidence[i]))
    assert len(found) > 3
    ax = wrong_and_certain(pred, targets, images)
    assert len(ax.child_axes) == len(found)
    for frame, example in zip(ax.child_axes, found, strict=True):
        image = images[example]
        assert np.array_equal(frame.images[0].get_array(), image[0] if channels == 1 else image.movedim(0, -1))
        assert frame.get_xlabel() == f"true {int(targets[example])}\npredicted {int(pred.label[example])}"
    expected = f"Wrong, yet quite certain at 95 %:\n{len(found)} of 9 wrong predictions"
    assert ax.get_title(loc="left") == expected


def test_only_the_most_confident_are_shown_where_there_are_many() -> None:
    pred = constant_classes([[0.6, 0.4], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    ax = wrong_and_certain(pred, torch.ones(4).long(), images_for(4), most=2, class_names=["cat", "dog"], level=0.9)
    title = "Wrong, yet quite certain at 90 %:\n4 of 4 wrong predictions (the 2 most confident)"
    assert ax.get_title(loc="left") == title
    assert [frame.get_xlabel() for frame in ax.child_axes] == ["true dog\npredicted cat"] * 2
    assert np.array_equal(ax.child_axes[0].images[0].get_array(), images_for(4)[1, 0])


def test_where_there_is_none_the_picture_says_so() -> None:
    sure, unsure = random_classes(), random_classes(sharpness=0.01)
    ax = wrong_and_certain(sure, sure.label, images_for(60))
    assert [text.get_text() for text in ax.texts] == ["no prediction was wrong"]
    ax = wrong_and_certain(unsure, noisy_targets(unsure), images_for(60))
    assert [text.get_text() for text in ax.texts] == ["none of the 9 wrong predictions was quite certain at 95 %"]
    assert ax.get_title(loc="left") == "Wrong, yet quite certain at 95 %: none"
    assert not ax.child_axes


@pytest.mark.parametrize("count", [1, 4, 5, 24])
@pytest.mark.parametrize("name", ["7", "automobile"])
def test_captions_and_images_do_not_overlap(count: int, name: str) -> None:
    pred = constant_classes([[0.9, 0.1]] * count)
    ax = wrong_and_certain(pred, torch.ones(count).long(), images_for(count), class_names=[name, name])
    ax.figure.draw_without_rendering()
    cells = [frame.get_tightbbox() for frame in ax.child_axes]
    assert len(cells) == count
    for number, cell in enumerate(cells):
        others = cells[number + 1 :]
        assert not any(cell.overlaps(other) for other in others)
        assert ax.figure.bbox.padded(1).containsx(cell.x0)
        assert ax.figure.bbox.padded(1).containsx(cell.x1)
        assert ax.figure.bbox.padded(1).containsy(cell.y0)


def test_it_draws_where_it_is_told() -> None:
    _, ax = plt.subplots(figsize=(8, 2))
    pred = constant_classes([[0.9, 0.1]] * 6)
    assert wrong_and_certain(pred, torch.ones(6).long(), images_for(6), ax=ax) is ax
    assert len({round(frame.get_position().y0, 3) for frame in ax.child_axes}) == 1  # a wide one: all in a row


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (images_for(59), r"`images` .* must hold 60 images, one per example"),
        (images_for(60, channels=2), r"`images` .* must have the shape \(N, 1, H, W\) or \(N, 3, H, W\)"),
        (images_for(60) - 0.5, r"`images` .* must lie in \[0, 1\]; divide bytes by 255, or undo the normalisation"),
        (torch.full((60, 1, 2, 2), torch.nan), r"`images` .* must lie in \[0, 1\]"),
    ],
)
def test_bad_images_are_refused(images: torch.Tensor, message: str) -> None:
    pred = random_classes()
    with pytest.raises(ValueError, match=message):
        wrong_and_certain(pred, pred.label, images)


def test_bad_input_is_refused_by_name() -> None:
    pred = random_classes()
    with pytest.raises(TypeError, match=r"`images` \(='ndarray'\) must be a tensor"):
        wrong_and_certain(pred, pred.label, images_for(60).numpy())
    with pytest.raises(ValueError, match=r"`targets` .* must lie in"):
        wrong_and_certain(pred, pred.label + 4, images_for(60))
    with pytest.raises(ValueError, match=r"`most` .* must be at least 1"):
        wrong_and_certain(pred, pred.label, images_for(60), most=0)
