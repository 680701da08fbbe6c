"""The networks that answer: drawn once, kept, and asked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tribayes.nn.convert import to_deterministic
from tribayes.nn.module import BayesianModule
from tribayes.prediction import ClassPredictive, Ensemble, ablate_correlation

CORRELATED, UNCORRELATED, MEAN = "correlated", "uncorrelated", "mean"


class Networks:
    """`samples` networks of a model's posterior, those without its correlations (where it has any), and its mean."""

    def __init__(self, model: BayesianModule, correlated: bool, samples: int, seed: int) -> None:
        self.model, self.samples, self.seed = model, samples, seed
        self.networks = (CORRELATED, UNCORRELATED, MEAN) if correlated else (CORRELATED, MEAN)
        self._ensembles: dict[str, Ensemble] = {}
        self._mean: nn.Module = to_deterministic(model).eval()

    def draw_for(self, example: Tensor) -> None:
        """Draw the networks, and ask each kind once: the first question must not wait for that."""
        for network in self.networks:
            if network == CORRELATED:
                self._ensembles[network] = Ensemble(self.model, self.samples, self.seed)
            elif network == UNCORRELATED:
                self._ensembles[network] = Ensemble(ablate_correlation(self.model), self.samples, self.seed)
            self.answers(network, example)

    @torch.no_grad()
    def answers(self, network: str, inputs: Tensor) -> Tensor:
        """(S, N, outputs): what every sampled network says of the network's inputs; the mean network is one."""
        if network == MEAN:
            said: Tensor = self._ensembles[CORRELATED].likelihood.response(self._mean(inputs))
            return said.unsqueeze(0)
        pred = self._ensembles[network].predict(inputs)
        found: Tensor = pred.class_last_samples if isinstance(pred, ClassPredictive) else pred.samples
        return found
