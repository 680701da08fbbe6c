"""A finished run asked about image files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes._files import make_folder, store
from tribayes.data import class_names
from tribayes.experiments.evaluation import STREAM
from tribayes.experiments.images import Picture, network_inputs, read_picture
from tribayes.experiments.run import Run
from tribayes.nn.holding import seed_of
from tribayes.prediction import ClassPredictive, predict

_LEVEL = 0.95


def ask_about(
    run: Run, files: Sequence[Path], folder: Path, data_dir: Path | None, device: torch.device, samples: int
) -> Iterator[str]:
    """What the network says about image files, a few lines each; a boxplot of each is drawn in `folder`."""
    model = bayesian_model(run, device)
    pictures = [read_picture(path, run.setting.data) for path in files]
    pixels = torch.stack([picture.pixels for picture in pictures])
    inputs = network_inputs(run.setting, pixels, data_dir, device)
    pred = sampled_answers(run, model, inputs, samples, progress=False)
    make_folder(folder)
    for number, (picture, name) in enumerate(zip(pictures, _boxplot_names(files), strict=True)):
        store(folder / name, _boxplot(pred, number, picture, class_names(run.setting.data)))
        changes = [f"  {change}" for change in picture.changes]
        yield "\n".join([_verdict(run, pred, number, picture), *changes, f"  boxplot: {folder / name}"])


def bayesian_model(run: Run, device: torch.device) -> nn.Module:
    """The trained network of a run, if it is one that can be asked how sure it is."""
    if not run.setting.bayesian:
        remedy = "a frequentist network has no intervals; `tribayes evaluate` gives its figures"
        raise refusal("RUN", f"{run.folder}, {run.setting.name}", "be of a Bayesian network", remedy)
    return run.load_model(device)


def sampled_answers(run: Run, model: nn.Module, inputs: Tensor, samples: int, progress: bool) -> ClassPredictive:
    """What the sampled networks say: the same networks that the evaluation asked."""
    return predict(model, inputs, samples, seed=seed_of(run.seed, STREAM), progress=progress)


def _verdict(run: Run, pred: ClassPredictive, number: int, picture: Picture) -> str:
    label = int(pred.label[number])
    lower, upper = (float(bound[number, label]) for bound in pred.interval(_LEVEL))
    sure = "quite certain" if bool(pred.certain(_LEVEL)[number]) else "uncertain"
    probability = f"probability {float(pred.mean[number, label]):.3f}"
    interval = f"{100 * _LEVEL:g} % interval {lower:.3f} to {upper:.3f}"
    return f"{picture.path}: {class_names(run.setting.data)[label]}, {probability}, {interval}, {sure}"


def _boxplot(pred: ClassPredictive, number: int, picture: Picture, names: Sequence[str]) -> bytes:
    from tribayes.plots import output_boxplot  # needs matplotlib
    from tribayes.report.picture import drawn

    image = picture.pixels / 255
    draw = partial(output_boxplot, pred, number, image=image, class_names=names, level=_LEVEL)
    buffer = BytesIO()
    drawn(draw, 5.0, 3.3).savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _boxplot_names(files: Sequence[Path]) -> list[str]:
    """A name for each picture; those of equal names are numbered."""
    names: list[str] = []
    for path in files:
        times = sum(other.stem == path.stem for other in files[: len(names)])
        names.append(f"{path.stem}{f'-{times + 1}' if times else ''}.boxplot.png")
    return names
