"""A finished run asked about image files: read as its network takes them, answered in words and by a boxplot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import count
from pathlib import Path

import torch

from tribayes._files import make_folder, shortened, store
from tribayes._text import level_text, printable
from tribayes.data import class_names
from tribayes.data.pictures import ImageFile, read_picture
from tribayes.plots import output_boxplot
from tribayes.plots.style import drawn
from tribayes.prediction import ClassPredictive
from tribayes.recipes.examples import network_inputs
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.setting import SHAPES
from tribayes.runs.evaluation import sampled_answers

_LEVEL = 0.95


def ask_about(
    run: RecipeRun, files: Sequence[Path], folder: Path, data_dir: Path | None, device: torch.device, samples: int
) -> Iterator[str]:
    """What the network says about image files, a few lines each; a boxplot of each is drawn in `folder`."""
    setting, model = run.setting, run.bayesian_network(device)
    images = [read_image(path, setting.data) for path in files]
    inputs = network_inputs(setting, torch.stack([image.pixels for image in images]), data_dir, device)
    pred = sampled_answers(model, inputs, run.seed, samples, keep_samples=True)
    names = class_names(setting.data)
    make_folder(folder)
    for number, (image, plot) in enumerate(zip(images, _boxplot_names(files), strict=True)):
        options = {"image": image.pixels / 255, "class_names": names, "level": _LEVEL}
        picture = BytesIO()
        drawn(output_boxplot, 5.0, 3.3, pred, number, **options).savefig(picture, format="png", dpi=150)
        store(folder / plot, picture.getvalue())
        verdict = f"{printable(image.path)}: {_verdict(pred, number, names)}"
        yield "\n  ".join([verdict, *image.changes, f"boxplot: {printable(folder / plot)}"])


def read_image(path: Path, data: str) -> ImageFile:
    """An image file in the shape and colours of a data set's images."""
    return read_picture(path, SHAPES[data])


def _verdict(pred: ClassPredictive, number: int, names: Sequence[str]) -> str:
    label = int(pred.label[number])
    lower, upper = (float(bound[number, label]) for bound in pred.interval(_LEVEL))
    sure = "quite certain" if bool(pred.certain(_LEVEL)[number]) else "uncertain"
    probability = f"probability {float(pred.mean[number, label]):.3f}"
    return f"{names[label]}, {probability}, {level_text(_LEVEL)} interval {lower:.3f} to {upper:.3f}, {sure}"


def _boxplot_names(files: Sequence[Path]) -> list[str]:
    """A name for each picture that no other has; those that would be equal are numbered."""
    names: list[str] = []
    for stem in (shortened(path.stem) for path in files):
        numbered = (f"{stem}{f'-{times}' * (times > 1)}.boxplot.png" for times in count(1))
        names.append(next(name for name in numbered if name not in names))
    return names
