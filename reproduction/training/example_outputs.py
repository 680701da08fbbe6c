"""Three telling test examples of a trained network, with what every sampled network said of them, for the pictures."""

from __future__ import annotations

from typing import Any

import torch

from reproduction.results.packing import OUTPUT_UNIT
from tribayes.nn.module import BayesianModule
from tribayes.prediction import predict
from tribayes.prediction.classification import telling_examples
from tribayes.prediction.samples import Drawn
from tribayes.runs import Examples
from tribayes.runs.evaluation import sampled_answers


def example_outputs(
    model: BayesianModule, test: Examples, seed: int, samples: int = 200, progress: bool = False
) -> dict[str, dict[str, Any]]:
    """By what they are ("sure", "two-way", "hopeless"): number, true and predicted class, and the outputs.

    The chosen examples are asked again alone: the same seed draws the same networks as the run's evaluation.
    """
    pred = sampled_answers(model, test, seed, samples, progress)
    chosen = telling_examples(pred, test.targets.cpu())
    if not chosen:
        return {}
    assert isinstance(pred.origin, Drawn)
    asked = test.chosen(torch.tensor(list(chosen.values()), device=test.targets.device))
    again = predict(model, asked, pred.sample_count, seed=pred.origin.seed, progress=False)
    parts = (again.samples * OUTPUT_UNIT).round().int()
    return {
        kind: {
            "index": number,
            "true": int(test.targets[number]),
            "predicted": int(pred.label[number]),
            "outputs": parts[:, place].tolist(),
        }
        for place, (kind, number) in enumerate(chosen.items())
    }
