"""The run that is asked about images: its networks, its test images, and how images become its inputs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tribayes.data import class_names
from tribayes.own.image_folder import Pixels
from tribayes.own.own_run import OwnRun
from tribayes.recipes.examples import load_split, network_inputs, prepare, shown_images
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.setting import SHAPES
from tribayes.runs.evaluation import seed_of_answers
from tribayes.serve.ink import PREPARATIONS, Preparation
from tribayes.serve.networks import Networks

CPU = torch.device("cpu")


class Subject(Networks):
    """A finished run of a Bayesian network, ready to be asked about images (C, H, W) in [0, 1], as a person sees them.

    `images` (N, C, H, W) and `labels` (N,) are its test images, `shape` is that of one, `classes` what labels mean,
    `preparation` how drawn digits become such images; None where they are no digits. The networks that answer are
    those of `tribayes predict`.
    """

    kind = "images"

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    preparation: Preparation | None
    images: Tensor
    labels: Tensor
    data: str  # its name

    def __init__(
        self,
        run: RecipeRun | OwnRun,
        data_dir: Path | None = None,
        samples: int = 200,
        network: str | None = None,
    ) -> None:
        self.run = run
        model = run.network(CPU, network) if isinstance(run, OwnRun) else run.bayesian_network(CPU)
        super().__init__(model, run.setting.family == "tridiagonal", samples, seed_of_answers(run.seed))
        if isinstance(run, OwnRun):
            self._take_folder(run)
        else:
            self._take_recipe(run, data_dir)

    def _take_recipe(self, run: RecipeRun, data_dir: Path | None) -> None:
        setting = run.setting
        self.data, self.classes, self.shape = setting.data, class_names(setting.data), SHAPES[setting.data]
        self.preparation = PREPARATIONS.get(setting.data)
        split = load_split(setting, data_dir)
        self.images = shown_images(setting, split)
        self.labels = prepare(setting.data, split, CPU, setting.validation)[1].targets
        ends = torch.stack([torch.full(self.shape, value, dtype=torch.uint8) for value in (0, 255)])
        self._take_range(network_inputs(setting, ends, data_dir, CPU).arguments[0])

    def _take_folder(self, run: OwnRun) -> None:
        pixels, prepared = run.form.inputs, run.prepared
        assert isinstance(pixels, Pixels)
        self.data, self.classes, self.shape = Path(run.setting.data).name, run.form.target.classes, pixels.shape
        self.preparation = None
        self.images = prepared.inputs[prepared.parts.test] / 255
        self.labels = prepared.targets[prepared.parts.test]
        self._take_range(pixels.scaled(torch.stack([torch.full(self.shape, value) for value in (0.0, 255.0)])))

    def _take_range(self, ends: Tensor) -> None:
        """Inputs are linear in the pixels, whatever the data set: what black and white become says all."""
        dark, light = ends
        self._dark, self._range = dark, light - dark

    def draw(self) -> None:
        """Draw the networks."""
        self.draw_for(self._dark + self.images[:1] * self._range)

    def ask(self, network: str, images: Tensor) -> Tensor:
        """(S, N, classes): what every sampled network says of images (N, C, H, W); the mean network is one."""
        return self.answers(network, self._dark + images * self._range)
