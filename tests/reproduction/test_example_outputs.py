"""The stored outputs of telling examples, against the prediction they come from."""

from __future__ import annotations

import torch

import tribayes as tb
from reproduction.results.packing import OUTPUT_UNIT
from reproduction.training.example_outputs import example_outputs
from tests.runs.test_evaluation import SAMPLES, trained
from tribayes.posterior import Stream
from tribayes.prediction.classification import telling_examples


def test_the_examples_hold_what_the_networks_said() -> None:
    trainer, test = trained("digits")
    found = example_outputs(trainer.model, test, seed=0, samples=SAMPLES)
    pred = tb.predict(trainer.model, test.inputs, SAMPLES, seed=Stream((0, 4)).number, progress=False)
    assert {kind: each["index"] for kind, each in found.items()} == telling_examples(pred, test.targets)
    for each in found.values():
        outputs = torch.tensor(each["outputs"]) / OUTPUT_UNIT
        torch.testing.assert_close(outputs, pred.samples[:, each["index"]], rtol=0, atol=1e-4)
        assert each["true"] == int(test.targets[each["index"]])
        assert each["predicted"] == int(pred.label[each["index"]])
