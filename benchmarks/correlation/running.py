"""Train one network, and ask it about images like those of training, rougher and smoother ones, and foreign ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

import tribayes as tb
from benchmarks.correlation.families import MeanInput, Structured, mean_inputs
from benchmarks.correlation.plan import (
    BATCH,
    DRAWS,
    EPOCHS,
    FOREIGN,
    HELD_OUT,
    LR,
    TRAINING,
    WEIGHT_DECAY,
    Job,
)
from benchmarks.correlation.shifts import shifted
from benchmarks.defaults.classification import batches
from benchmarks.defaults.plan import kl_weight
from benchmarks.modern.figures import scores, told_apart
from benchmarks.modern.images import letters
from benchmarks.store import RESULTS as FOLDER
from benchmarks.store import made_with, rounded
from tribayes._files import make_folder, read_json, store_json
from tribayes._progress import progress_bar
from tribayes.data import load
from tribayes.prediction.source import entropy

RESULTS = FOLDER / "correlation.json"

SEEN = 500  # training images whose mean a layer's E[x] is


@dataclass(frozen=True)
class Images:
    """Pixels from 0 to 1, (N, 1, 28, 28), and labels. Held-out ones are of the training set: no test image is seen."""

    train: Tensor
    labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor
    foreign: dict[str, Tensor]


def network() -> nn.Module:
    """A small LeNet with ReLUs, for which ten thousand images are enough. From torch's global random numbers."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * 16, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


@cache
def images_of(name: str, foreign: tuple[str, ...], folder: Path | None) -> Images:
    """The first of a fixed shuffle of the training images; foreign ones are test images of other sets."""
    data = load(name, folder, progress=False)
    order = torch.randperm(len(data.train_images), generator=torch.Generator().manual_seed(0))
    kept, held = order[:TRAINING], order[TRAINING : TRAINING + HELD_OUT]

    def pixels(raw: Tensor) -> Tensor:
        return raw.reshape(-1, 1, 28, 28).float() / 255

    others = {one: pixels(foreign_images(one, folder)[:FOREIGN]) for one in foreign}
    seen, labels = pixels(data.train_images), data.train_labels
    return Images(seen[kept], labels[kept], seen[held], labels[held], others)


def foreign_images(name: str, folder: Path | None) -> Tensor:
    return letters(folder) if name == "kmnist" else load(name, folder, progress=False).test_images


def trained(job: Job, images: Images, epochs: int = EPOCHS) -> tb.BayesianModule:
    """SGD with Nesterov's momentum along half a cosine; weights and order of images by the seed, alike in all arms."""
    torch.manual_seed(job.seed)
    model = tb.to_bayesian(network(), family=job.arm.family, generator=job.seed)
    rows, weights = len(images.labels), sum(mean.numel() for _, mean in model.means())
    elbo = tb.ELBO(tb.Categorical(), data_size=rows, kl_weight=kl_weight(job.share, rows, weights))
    groups = tb.parameter_groups(model, LR, weight_decay=WEIGHT_DECAY)
    optimizer = torch.optim.SGD(groups, lr=LR, momentum=0.9, nesterov=True)
    step = tb.TrainingStep(model, elbo, optimizer, generator=job.seed)
    order = list(batches(rows, BATCH, epochs, job.seed))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(order))
    centred = standardised(images.train, images)
    for number, some in enumerate(order):
        if number % (rows // BATCH) == 0:  # once per epoch
            look_at_inputs_(model, centred[:SEEN])
        step(centred[some], images.labels[some])
        schedule.step()
    tb.stabilise_(model)
    return model


def look_at_inputs_(model: tb.BayesianModule, images: Tensor) -> None:
    """For the law that knows the mean input of each layer: what it is now."""
    if isinstance(model.family, MeanInput):
        for number, inputs in mean_inputs(model, images).items():
            model.family.see_inputs_(number, inputs)


def standardised(images: Tensor, by: Images) -> Tensor:
    """As the network sees them."""
    return (images - by.train.mean()) / by.train.std()


def figures(job: Job, model: tb.BayesianModule, images: Images) -> dict[str, Any]:
    """NLL, error and epistemic entropy, clean and by kind of shift; AUROC of foreign images; what was learned."""

    def ask(some: Tensor) -> Tensor:
        pred = tb.predict(model, standardised(some, images), DRAWS, seed=job.seed, progress=False)
        return pred.samples

    clean, labels = ask(images.held_out), images.held_out_labels
    found: dict[str, Any] = {"clean": _scores(clean, labels)}
    for kind, strength, some in shifted(images.held_out):
        found.setdefault(kind, {})[f"{strength:g}"] = _scores(ask(some), labels)
    found["foreign"] = {}
    for name, some in images.foreign.items():
        outside = ask(some)
        found["foreign"][name] = told_apart(clean.mean(0), outside.mean(0), clean, outside)
    return found | {"learned": learned(model)}


def _scores(samples: Tensor, labels: Tensor) -> dict[str, float]:
    mean = samples.mean(0)
    doubt = entropy(mean) - entropy(samples).mean(0)
    return scores(mean, labels) | {"epistemic": float(doubt.mean())}


def learned(model: tb.BayesianModule) -> dict[str, list[float]]:
    """τ of each tensor, and ρ or what a law has instead."""
    rows = model.posterior().as_dict()
    own = model.family.found() if isinstance(model.family, Structured) else [[row["rho"]] for row in rows.values()]
    return {name: [row["tau"], *beside] for (name, row), beside in zip(rows.items(), own, strict=True)}


def run(planned: Iterable[Job], path: Path | None, folder: Path | None, seconds: float, epochs: int = EPOCHS) -> int:
    """What is not stored, storing after each; none begins later than `seconds`. Returns how many are left."""
    kept: dict[str, Any] = read_json(path)["networks"] if path is not None and path.is_file() else {}
    missing = [job for job in planned if job.name not in kept]
    begin = perf_counter()
    with progress_bar("correlation", len(missing)) as advance:
        for place, job in enumerate(missing):
            if perf_counter() - begin > seconds:
                return len(missing) - place
            images = images_of(job.task.name, job.task.foreign, folder)
            kept[job.name] = rounded(figures(job, trained(job, images, epochs), images))
            if path is not None:
                make_folder(path.parent)
                store_json(path, {"made_with": made_with(), "networks": kept})
            advance(1, job.name)
            print(_line(job, kept[job.name]), flush=True)
    return 0


def _line(job: Job, found: dict[str, Any]) -> str:
    shifts = {kind: fmean(_nlls(found[kind])) for kind in found if kind not in ("clean", "foreign", "learned")}
    words = ", ".join(f"{kind} {value:.3f}" for kind, value in shifts.items())
    return f"{job.name}: NLL {found['clean']['nll']:.4f}, {words}"


def _nlls(by_strength: dict[str, dict[str, float]]) -> Iterator[float]:
    yield from (one["nll"] for one in by_strength.values())
