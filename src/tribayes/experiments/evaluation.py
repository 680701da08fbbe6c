"""What a trained network is worth: numbers ready for a JSON file, all from `tribayes.prediction`.

A Bayesian network answers by sampled networks, a frequentist one by its softmax. Everything heavy happens where the
images lie; samples are reduced there and not carried to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.experiments.setting import Setting
from tribayes.experiments.trainer import Examples
from tribayes.nn.holding import seed_of
from tribayes.nn.module import BayesianModule
from tribayes.prediction import ClassificationSummary, ClassPredictive, predict
from tribayes.prediction.metrics import out_of_distribution_auroc
from tribayes.prediction.source import entropy
from tribayes.prediction.state import undisturbed

LEVELS = (0.95, 0.99)
OUTPUT_UNIT = 10_000  # outputs of the example images are stored in so many parts, as whole numbers: half the bytes

_BATCH = 1000
STREAM = 4  # of the tree of seeds; the trainer uses 0 to 3


def evaluate(
    model: nn.Module, setting: Setting, test: Examples, seed: int, samples: int = 200, progress: bool = True
) -> dict[str, Any]:
    """All figures of one trained network on the test examples.

    Of every network: `examples_tested`, `error` (a share), `nll` (nats), `brier`, `ece`, `auroc_errors` (None where
    nothing, or everything, is wrong).

    Of a Bayesian one also: `samples`; `certain`, level → the four counts; `mean_network_error`, of the network at its
    means; `posterior`, τ and ρ of every tensor; `confidently_wrong`, the wrong predictions that are quite certain at
    95 %, the most confident first; and `examples`, three images with what every sampled network said of them
    (`choose_examples` says which).

    Args:
        model: as trained, on the device of the examples.
        setting: what it was trained by; only its family matters here.
        test: the examples to judge by.
        seed: of the run. The draws are the same for the same seed, and unrelated to those of the training.
        samples: networks to draw.
        progress: show a bar.

    Example:
        >>> evaluate(trainer.model, trainer.setting, test, seed=0)["error"]
    """
    if setting.bayesian != isinstance(model, BayesianModule):
        remedy = "pass the model that was trained by this setting"
        raise refusal("model", type(model).__name__, f"be of the family {setting.family!r}", remedy)
    if not isinstance(model, BayesianModule):
        mean = _answers(model, test.images)
        summary = ClassificationSummary.of(mean, test.labels.cpu(), {}, entropy(mean), samples=1)
        return _scores(summary)
    pred = _sampled(model, test.images, seed, samples, progress)
    return _bayesian(model, pred, test)


def out_of_distribution(
    model: nn.Module, inside: Examples, outside: Examples, seed: int, samples: int = 200, progress: bool = True
) -> dict[str, Any]:
    """How well uncertainty tells foreign images (`outside`) from those of the kind it was trained on (`inside`).

    AUROC by `entropy` and by `mutual_information`, and the share called quite certain of each kind, by level. A
    frequentist network has neither mutual information nor intervals; there these are None and empty.
    """
    if not isinstance(model, BayesianModule):
        scores = [entropy(_answers(model, examples.images)) for examples in (inside, outside)]
        none: dict[str, float] = {}
        return _ood(out_of_distribution_auroc(*scores), None, none, none)
    known, foreign = (_sampled(model, examples.images, seed, samples, progress) for examples in (inside, outside))
    return _ood(
        out_of_distribution_auroc(known.entropy, foreign.entropy),
        out_of_distribution_auroc(known.epistemic, foreign.epistemic),
        _certain_shares(known),
        _certain_shares(foreign),
    )


def choose_examples(pred: ClassPredictive, targets: Tensor) -> dict[str, int]:
    """Numbers of up to three images, by a rule that leaves no choice; the smaller number among equals.

    "sure": among the right and quite certain (95 %), the one of median entropy. "two-way": among the wrong and
    uncertain, the one that gave its true class most probability. "hopeless": of the other wrong and uncertain, the one
    of largest entropy. A kind that does not occur is left out.
    """
    correct, certain = pred.correct(targets), pred.certain(0.95)
    true_probability = pred.mean.gather(-1, pred.checked_targets(targets).unsqueeze(-1)).squeeze(-1)
    sure = _ordered(correct & certain, pred.entropy)
    two_way = _ordered(~correct & ~certain, -true_probability)
    hopeless = [number for number in _ordered(~correct & ~certain, -pred.entropy) if number not in two_way[:1]]
    found = {"sure": sure[len(sure) // 2 :], "two-way": two_way, "hopeless": hopeless}
    return {kind: numbers[0] for kind, numbers in found.items() if numbers}


def _bayesian(model: BayesianModule, pred: ClassPredictive, test: Examples) -> dict[str, Any]:
    targets = test.labels.cpu()
    summary = pred.summary(targets, LEVELS)
    mean_network = _answers(model, test.images)
    rows = [{"name": r.name, "K": r.K, "tau": _short(r.tau), "rho": _short(r.rho)} for r in model.posterior()]
    return {
        **_scores(summary),
        "samples": summary.samples,
        "certain": {str(level): dict(vars(counts)) for level, counts in summary.counts.items()},
        "mean_network_error": float((mean_network.argmax(-1) != targets).double().mean()),
        "posterior": rows,
        "confidently_wrong": _confidently_wrong(pred, targets),
        "examples": _examples(model, pred, test),
    }


def _scores(summary: ClassificationSummary) -> dict[str, Any]:
    auroc = summary.error_auroc
    return {
        "examples_tested": summary.examples,
        "error": summary.error,
        "nll": _short(summary.nll),
        "brier": _short(summary.brier),
        "ece": _short(summary.ece),
        "auroc_errors": None if auroc is None else _short(auroc),
    }


def _confidently_wrong(pred: ClassPredictive, targets: Tensor) -> dict[str, list[int]]:
    found = _ordered(~pred.correct(targets) & pred.certain(0.95), -pred.confidence)
    return {"index": found, "true": targets[found].tolist(), "predicted": pred.label[found].tolist()}


def _examples(model: BayesianModule, pred: ClassPredictive, test: Examples) -> dict[str, dict[str, Any]]:
    """The chosen images, asked again alone: the same seed draws the same networks."""
    chosen = choose_examples(pred, test.labels.cpu())
    if not chosen:
        return {}
    numbers = list(chosen.values())
    images = test.images[numbers]
    again = predict(model, images, pred.sample_count, seed=pred.seed, progress=False)
    parts = (again.samples * OUTPUT_UNIT).round().int()
    return {
        kind: {
            "index": number,
            "true": int(test.labels[number]),
            "predicted": int(pred.label[number]),
            "outputs": parts[:, place].tolist(),
        }
        for place, (kind, number) in enumerate(chosen.items())
    }


def _sampled(model: BayesianModule, images: Tensor, seed: int, samples: int, progress: bool) -> ClassPredictive:
    return predict(
        model,
        images,
        samples,
        seed=seed_of(seed, STREAM),
        progress=progress,
        keep_samples=False,
        levels=LEVELS,
    )


def _answers(model: nn.Module, images: Tensor) -> Tensor:
    """(N, C) on the CPU: class probabilities of a network, a Bayesian one at its means."""
    forward = _mean_network(model) if isinstance(model, BayesianModule) else model
    with undisturbed(model):
        answers = [forward(batch).softmax(-1) for batch in images.split(_BATCH)]
    return torch.cat(answers).cpu()


def _mean_network(model: BayesianModule) -> Callable[[Tensor], Tensor]:
    return lambda images: model.apply_weights({}, images)


def _ordered(chosen: Tensor, key: Tensor) -> list[int]:
    """Numbers of the chosen examples by increasing key, then by number."""
    numbers = chosen.nonzero().flatten()
    return [int(number) for number in numbers[key[numbers].argsort(stable=True)]]


def _certain_shares(pred: ClassPredictive) -> dict[str, float]:
    return {str(level): float(pred.certain(level).double().mean()) for level in LEVELS}


def _ood(
    by_entropy: float, by_information: float | None, inside: dict[str, float], outside: dict[str, float]
) -> dict[str, Any]:
    return {
        "auroc_entropy": _short(by_entropy),
        "auroc_mutual_information": None if by_information is None else _short(by_information),
        "certain_inside": inside,
        "certain_outside": outside,
    }


def _short(value: float) -> float:
    """Seven digits: more would only fill the file."""
    return float(f"{value:.7g}")
