"""The standard page: the numbers of the summary, the examples that tell most, a picture for all that is given."""

import re
from pathlib import Path

import pytest
from torch import nn

from tests.plots.cases import images_for, noisy_targets, random_classes, without_samples
from tests.plots.test_training_plot import HISTORY
from tests.report.test_page import Outline, assert_self_contained
from tribayes.nn.convert import to_bayesian
from tribayes.prediction import ClassPredictive
from tribayes.prediction.classification import telling_examples
from tribayes.prediction.diagnostics import LayerReport, LayerRow
from tribayes.prediction.samples import Moments
from tribayes.prediction.source import Kept
from tribayes.report import classification_report

LAYERS = LayerReport(
    (LayerRow("conv", 0.01, 0.02, 0.25), LayerRow("out", 0.03, 0.04, 0.75)), LayerRow("all", 0.05, 0.06, 1.0)
)


@pytest.fixture(scope="module")
def pred() -> ClassPredictive:
    return random_classes()


def text_of(page: str) -> str:
    return " ".join(Outline(page).text).replace("\u00a0", " ")


def test_the_whole_page(pred: ClassPredictive, tmp_path: Path) -> None:
    targets = noisy_targets(pred)
    model = nn.Sequential(to_bayesian(nn.Linear(3, 4)), nn.ReLU(), to_bayesian(nn.Linear(4, 2)))
    path = classification_report(
        tmp_path / "report.html",
        pred,
        targets,
        model=model,
        images=images_for(60),
        history=HISTORY,
        foreign=random_classes(sharpness=0.5, seed=5),
        layers=LAYERS,
        title="Test page",
    )
    page = path.read_text()
    text = text_of(page)
    assert_self_contained(page)
    summary = pred.summary(targets)
    for number in (f"{summary.nll:.4f}", f"{summary.brier:.4f}", f"{100 * summary.ece:.2f} %", "15.00 %"):
        assert number in text
    for counts in summary.counts.values():
        for count in vars(counts).values():
            assert re.search(rf"\b{count}( \(|\b)", text)
    for name in ("0.weight", "0.bias", "2.weight", "2.bias", "conv", "out"):  # within the model
        assert name in text
    assert "75 %" in text
    assert "95 %" in text
    assert "99 %" in text
    for word in ("Level", "Quite certain", "Epistemic", "Aleatoric"):
        assert word in text
    assert page.count("<figure>") == 9
    assert all(len(source) < 150_000 for source in re.findall(r'src="([^"]*)"', page))
    alts = re.findall(r'alt="([^"]*)"', page)
    captions = re.findall(r"<figcaption>([^<]*)</figcaption>", page)
    assert len(set(alts)) == 9
    assert all(caption.endswith(".") for caption in captions)


def test_what_is_not_given_is_left_out(pred: ClassPredictive, tmp_path: Path) -> None:
    page = classification_report(tmp_path / "r.html", pred, pred.label).read_text()
    headings = re.findall(r"<h2>([^<]*)</h2>", page)
    assert headings == ["Key numbers", "What the sampled networks say", "Can the uncertainty be trusted?", "Words"]
    assert "0 of 60 predictions are wrong (0.00 %)" in text_of(page)


def test_class_names_are_escaped_everywhere(pred: ClassPredictive, tmp_path: Path) -> None:
    names = ["<b>", "a&b", '"quoted"', "$x$"]
    page = classification_report(
        tmp_path / "r.html", pred, noisy_targets(pred), images=images_for(60), class_names=names, title="<i>"
    ).read_text()
    assert_self_contained(page)
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;" in page


def test_without_samples_the_page_says_what_is_missing(pred: ClassPredictive, tmp_path: Path) -> None:
    page = classification_report(tmp_path / "r.html", without_samples(pred), noisy_targets(pred)).read_text()
    assert "keep_samples=True" in page
    assert page.count("<figure>") == 3


def test_a_prediction_by_moments_says_so_and_has_no_sampling_error(pred: ClassPredictive, tmp_path: Path) -> None:
    by_moments = ClassPredictive(Kept(pred.samples), Moments())
    pages = [classification_report(tmp_path / "r.html", p, noisy_targets(p)).read_text() for p in (pred, by_moments)]
    assert ["sampling error" in page for page in pages] == [True, False]
    assert ["from one pass of moments" in text_of(page) for page in pages] == [False, True]


def test_levels_can_be_chosen(pred: ClassPredictive, tmp_path: Path) -> None:
    page = classification_report(tmp_path / "r.html", pred, pred.label, levels=(0.8,)).read_text()
    assert "80 %" in text_of(page)
    assert "99 %" not in text_of(page)


def test_the_boxplots_are_of_the_telling_examples(pred: ClassPredictive, tmp_path: Path) -> None:
    targets = noisy_targets(pred, every=3)
    page = classification_report(tmp_path / "r.html", pred, targets).read_text()
    shown = [int(number) for number in re.findall(r'alt="Boxplots of the class probabilities of example (\d+):', page)]
    assert shown == list(telling_examples(pred, targets).values())
    assert len(shown) == 3


def test_the_rows_of_the_page_are_those_of_the_summary(pred: ClassPredictive, tmp_path: Path) -> None:
    targets = noisy_targets(pred)
    text = text_of(classification_report(tmp_path / "r.html", pred, targets).read_text())
    for row in pred.summary(targets).rows():
        assert " ".join(row) in text


def test_bad_input_is_refused_and_the_old_page_kept(pred: ClassPredictive, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("old")
    with pytest.raises(ValueError, match=r"`targets` .* must have the shape \(60,\)"):
        classification_report(path, pred, pred.label[:3])
    with pytest.raises(ValueError, match=r"`images` .* must hold 60 images"):
        classification_report(path, pred, pred.label, images=images_for(3))
    with pytest.raises(ValueError, match=r"`class_names` .* must hold 4 names"):
        classification_report(path, pred, pred.label, class_names=["a"])
    with pytest.raises(ValueError, match=r"`levels` \(=\(\)\) must hold at least one level"):
        classification_report(path, pred, pred.label, levels=())
    with pytest.raises(ValueError, match=r"`model` .* must contain a BayesianModule"):
        classification_report(path, pred, pred.label, model=nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"`layers` \(='dict'\) must be a LayerReport"):
        classification_report(path, pred, pred.label, layers=LAYERS.as_dict())
    with pytest.raises(TypeError, match=r"`history` \(='list'\) must be a History"):
        classification_report(path, pred, pred.label, history=[])
    with pytest.raises(TypeError, match=r"`pred` .* must be a ClassPredictive"):
        classification_report(path, pred.mean, pred.label)
    assert path.read_text() == "old"
