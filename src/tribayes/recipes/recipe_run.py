"""A run of a setting: its trained network, judged by its test images and shown on a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tribayes._errors import refusal
from tribayes.data import class_names
from tribayes.nn.module import BayesianModule
from tribayes.recipes.examples import load_examples, load_split, prepare, shown_images
from tribayes.recipes.recipe_trainer import build_model
from tribayes.recipes.setting import Setting
from tribayes.runs import Run
from tribayes.runs.evaluation import LEVELS, sampled_answers


class RecipeRun(Run):
    """A run whose config is a setting."""

    @property
    def setting(self) -> Setting:
        return Setting.from_dict(self.config)

    def comparable(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """With the fields of today's settings."""
        return Setting.from_dict(config).as_dict()

    def network(self, device: torch.device) -> nn.Module:
        """The trained network, on a device."""
        return self.load_model(lambda: build_model(self.setting, self.seed), device)

    def bayesian_network(self, device: torch.device) -> BayesianModule:
        """The same, if it is one that can be asked how sure it is."""
        if not self.setting.bayesian:
            remedy = "a frequentist network has no intervals; `tribayes evaluate` gives its figures"
            raise refusal("RUN", f"{self.folder}, {self.setting.name}", "be of a Bayesian network", remedy)
        model = self.network(device)
        assert isinstance(model, BayesianModule)
        return model

    def judged(self, data_dir: Path | None, device: torch.device, samples: int, progress: bool) -> dict[str, Any]:
        """Its evaluation by the test images of the setting."""
        _, test = load_examples(self.setting, data_dir, device)
        return self.evaluate(self.network(device), test, samples=samples, progress=progress)

    def report(self, path: Path, data_dir: Path | None, device: torch.device, samples: int, progress: bool) -> Path:
        """Write the HTML page about it."""
        from tribayes.report import classification_report  # needs matplotlib

        setting, model = self.setting, self.bayesian_network(device)
        split = load_split(setting, data_dir)
        _, test = prepare(setting.data, split, device, setting.validation)
        return classification_report(
            path,
            sampled_answers(model, test, self.seed, samples, progress, keep_samples=True),
            test.targets,
            model=model,
            images=shown_images(setting, split),
            history=self.history(),
            class_names=class_names(setting.data),
            levels=LEVELS,
            title=f"{setting.name}, seed {self.seed}",
        )
