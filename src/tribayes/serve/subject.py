"""The run that is asked: its networks, drawn once and kept, its test images, and how images become its inputs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from tribayes.data import class_names
from tribayes.nn.convert import to_deterministic
from tribayes.prediction import Ensemble, ablate_correlation
from tribayes.recipes.examples import load_split, network_inputs, prepare, shown_images
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.setting import SHAPES
from tribayes.runs.evaluation import seed_of_answers
from tribayes.serve.ink import PREPARATIONS

CORRELATED, UNCORRELATED, MEAN = "correlated", "uncorrelated", "mean"

_CPU = torch.device("cpu")


class Subject:
    """A finished run of a Bayesian network, ready to be asked about images (C, H, W) in [0, 1], as a person sees them.

    `images` (N, C, H, W) and `labels` (N,) are its test images, `shape` is that of one, `classes` what labels mean,
    `preparation` how drawn digits become such images; None where they are no digits. The networks that answer are
    those of `tribayes predict`.
    """

    def __init__(self, run: RecipeRun, data_dir: Path | None = None, samples: int = 200) -> None:
        self.run, self.samples = run, samples
        setting = run.setting
        self.model = run.bayesian_network(_CPU)
        self.classes = class_names(setting.data)
        self.shape = SHAPES[setting.data]
        self.preparation = PREPARATIONS.get(setting.data)
        split = load_split(setting, data_dir)
        self.images = shown_images(setting, split)
        self.labels = prepare(setting.data, split, _CPU, setting.validation)[1].targets
        ends = torch.stack([torch.full(self.shape, value, dtype=torch.uint8) for value in (0, 255)])
        dark, light = network_inputs(setting, ends, data_dir, _CPU).arguments[0]
        self._dark, self._range = dark, light - dark  # inputs are linear in the pixels, whatever the data set
        self._ensembles: dict[str, Ensemble] = {}
        self._mean: nn.Module = to_deterministic(self.model).eval()

    @property
    def networks(self) -> tuple[str, ...]:
        """Which can be asked; without correlations nothing can be taken away."""
        has_correlations = self.run.setting.family == "tridiagonal"
        return (CORRELATED, UNCORRELATED, MEAN) if has_correlations else (CORRELATED, MEAN)

    @property
    def seed(self) -> int:
        """Of the networks that answer."""
        return seed_of_answers(self.run.seed)

    def draw(self) -> None:
        """Draw the networks, and ask each kind once: the first question must not wait for that."""
        for network in self.networks:
            if network == CORRELATED:
                self._ensembles[network] = Ensemble(self.model, self.samples, self.seed)
            elif network == UNCORRELATED:
                self._ensembles[network] = Ensemble(ablate_correlation(self.model), self.samples, self.seed)
            self.ask(network, self.images[:1])

    @torch.no_grad()
    def ask(self, network: str, images: Tensor) -> Tensor:
        """(S, N, classes): what every sampled network says of images (N, C, H, W); the mean network is one."""
        inputs = self._dark + images * self._range
        if network == MEAN:
            said: Tensor = self._mean(inputs).softmax(-1)
            return said.unsqueeze(0)
        answers: Tensor = self._ensembles[network].predict(inputs).class_last_samples
        return answers
