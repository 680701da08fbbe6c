"""The boxplots of one example show its samples, its interval and its verdict."""

from io import BytesIO
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import PathPatch

from tests.plots.cases import NETWORKS, classes, images_for, random_classes, without_samples
from tribayes.plots import output_boxplot
from tribayes.plots.style import BLUE, PALE, PALE_ORANGE, drawn
from tribayes.prediction import ClassPredictive


@pytest.fixture(scope="module")
def pred() -> ClassPredictive:
    return random_classes()


def boxes_of(ax: Axes) -> list[PathPatch]:
    return [patch for patch in ax.patches if isinstance(patch, PathPatch)]


def two_way() -> ClassPredictive:
    """Example 0 is between classes 1 and 2, example 1 is surely class 0."""
    share = torch.linspace(0.3, 0.9, NETWORKS)
    unsure = torch.stack([torch.zeros(NETWORKS), share, 1 - share], dim=-1)
    sure = torch.tensor([1.0, 0.0, 0.0]).expand(NETWORKS, 3)
    return classes(torch.stack([unsure, sure], dim=1))


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_boxes_whiskers_and_dots_are_those_of_the_samples(pred: ClassPredictive, level: float) -> None:
    ax = output_boxplot(pred, 3, level=level)
    outputs = pred.samples[:, 3].double().numpy()
    lower, upper = (bound[3].numpy() for bound in pred.interval(level))
    boxes = boxes_of(ax)
    assert len(boxes) == 4
    for place, box in enumerate(boxes):
        heights = box.get_path().vertices[:, 1]
        assert [heights.min(), heights.max()] == pytest.approx(np.quantile(outputs[:, place], [0.25, 0.75]), abs=1e-6)
        low, high, _, _, median, dots = ax.lines[6 * place : 6 * place + 6]
        assert low.get_ydata()[-1] == pytest.approx(lower[place], abs=1e-7)
        assert high.get_ydata()[-1] == pytest.approx(upper[place], abs=1e-7)
        assert median.get_ydata() == pytest.approx(np.median(outputs[:, place]), abs=1e-6)
        outside = (outputs[:, place] < lower[place]) | (outputs[:, place] > upper[place])
        assert sorted(dots.get_ydata()) == pytest.approx(sorted(outputs[outside, place]), abs=1e-7)


def test_an_uncertain_prediction_is_called_so_and_its_rivals_are_marked() -> None:
    ax = output_boxplot(two_way(), 0, target=2, class_names=["cat", "dog", "hen"])
    assert ax.get_title(loc="left") == "Predicted dog, true hen: wrong\nUncertain at 95 %: overlap with hen"
    colours = [box.get_facecolor() for box in boxes_of(ax)]
    assert colours == [to_rgba(PALE), to_rgba(BLUE), to_rgba(PALE_ORANGE)]
    assert boxes_of(ax)[2].get_hatch() == "////"  # also in grey print
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["predicted", "overlaps it", "95 % interval", "networks\noutside it"]


def test_a_certain_prediction_is_called_so() -> None:
    ax = output_boxplot(two_way(), 1, target=0, level=0.99)
    assert ax.get_title(loc="left") == "Predicted 0, true 0: right\nQuite certain at 99 %: no interval overlaps"
    assert "overlaps it" not in [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("example", range(12))
def test_the_title_and_the_prediction_agree(pred: ClassPredictive, example: int) -> None:
    title = output_boxplot(pred, example).get_title(loc="left")
    assert title.startswith(f"Predicted {int(pred.label[example])}\n")
    assert ("Quite certain" in title) == bool(pred.certain(0.95)[example])


def test_many_rivals_are_counted_not_listed() -> None:
    pred = classes(torch.rand(NETWORKS, 1, 12, generator=torch.Generator().manual_seed(0)).softmax(-1))
    title = output_boxplot(pred, 0, class_names=[f"species {i}" for i in range(12)]).get_title(loc="left")
    assert "overlap with species" in title
    assert title.endswith("and 10 more")


def test_the_axes_are_labelled(pred: ClassPredictive) -> None:
    ax = output_boxplot(pred, 0)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("class", "probability")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1", "2", "3"]
    assert ax.get_ylim()[0] <= 0
    assert ax.get_ylim()[1] >= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_the_image_stands_beside(pred: ClassPredictive, channels: int) -> None:
    image = images_for(1, channels)[0]
    ax = output_boxplot(pred, 0, image=image)
    (frame,) = ax.child_axes
    shown = frame.images[0].get_array()
    assert np.array_equal(shown, image[0] if channels == 1 else image.movedim(0, -1))
    assert output_boxplot(pred, 0, image=image[0]).child_axes[0].images[0].get_array().shape == (5, 5)


def test_of_many_classes_only_the_probable_and_the_true_one_are_drawn() -> None:
    pred = random_classes(examples=1, number=50)
    order = pred.mean[0].argsort(descending=True).tolist()
    ax = output_boxplot(pred, 0, target=order[-1], most=5)
    shown = sorted([*order[:5], order[-1]])
    assert [text.get_text() for text in ax.get_xticklabels()] == [str(index) for index in shown]
    assert ax.get_xlabel() == "class (6 of 50)"


def test_dollar_signs_in_names_are_not_formulas(pred: ClassPredictive) -> None:
    ax = output_boxplot(pred, 0, target=0, class_names=["$1", "$2", "$5 $10", "^_{"])
    ax.figure.savefig("/dev/null", format="png")  # a bad formula would raise


def test_it_draws_where_it_is_told(pred: ClassPredictive) -> None:
    _, (left, right) = plt.subplots(1, 2)
    assert output_boxplot(pred, 0, ax=right) is right
    assert not left.has_data()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"example": 60}, r"`example` \(=60\) must lie in \[0, 60\); there are 60 examples"),
        ({"example": -1}, r"`example` \(=-1\) must lie in"),
        ({"target": 4}, r"`target` \(=4\) must lie in \[0, 4\); there are 4 classes"),
        ({"class_names": ["a", "b"]}, r"`class_names` .* must hold 4 names"),
        ({"level": 1.5}, r"`level` \(=1.5\) must lie strictly between 0 and 1"),
        ({"most": 0}, r"`most` \(=0\) must be at least 1"),
        ({"image": torch.rand(2, 5, 5)}, r"`image` .* must have the shape \(H, W\)"),
        ({"image": 255 * torch.ones(1, 5, 5)}, r"`image` \(='values from 255 to 255'\) must lie in \[0, 1\]; divide"),
    ],
)
def test_bad_input_is_refused_by_name(pred: ClassPredictive, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        output_boxplot(pred, **{"example": 0, **arguments})


def test_bad_types_are_refused_by_name(pred: ClassPredictive) -> None:
    with pytest.raises(TypeError, match=r"`pred` \(='Tensor'\) must be a ClassPredictive"):
        output_boxplot(pred.mean, 0)
    with pytest.raises(TypeError, match=r"`example` \(=1.0\) must be a whole number"):
        output_boxplot(pred, 1.0)
    with pytest.raises(TypeError, match=r"`ax` .* must be a matplotlib Axes or None"):
        output_boxplot(pred, 0, ax=plt.subplots(1, 2)[1])


def test_without_samples_the_error_says_how_to_get_them(pred: ClassPredictive) -> None:
    with pytest.raises(ValueError, match="keep_samples=True"):
        output_boxplot(without_samples(pred), 0)


def test_control_characters_in_a_name_break_no_svg() -> None:
    """An XML file may hold none of them, written out or not; a font has none either."""
    picture = BytesIO()
    names = ["a\x00b\x1b[2J", "\x07\udcff", "c"]
    drawn(output_boxplot, 5.0, 3.3, two_way(), 0, class_names=names).savefig(picture, format="svg")
    assert ElementTree.fromstring(picture.getvalue()).tag.endswith("svg")
