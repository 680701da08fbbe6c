"""What a trained classifier is worth, ready for a JSON file: by sampled networks, or for a plain one by its softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import check_module, refusal, wrong_type
from tribayes._text import format_table, percent, printable
from tribayes.inference import Categorical
from tribayes.inference.memory import likelihood_of
from tribayes.nn.answer import counted, remembered_output
from tribayes.nn.module import BayesianModule
from tribayes.nn.stage import ModelDraw, Stage, posterior_rows
from tribayes.posterior.streams import Stream
from tribayes.prediction import ClassificationSummary, ClassPredictive, predict
from tribayes.prediction.classification import confidently_wrong
from tribayes.prediction.source import entropy
from tribayes.runs.batches import Examples
from tribayes.runs.folder import RunFolder

LEVELS = (0.95, 0.99)

_BATCH = 1000
_STREAM = 4  # of the tree of seeds; the trainer uses 0 to 3, and 5


def evaluate(model: nn.Module, test: Examples, seed: int, samples: int = 200, progress: bool = True) -> dict[str, Any]:
    """All figures of one trained network on the test examples.

    Of every network: `examples_tested`, `error` (a share), `nll` (nats per example), `brier`, `ece`, `auroc_errors`
    (None where nothing, or everything, is wrong).

    Of a Bayesian one also: `samples`; `certain`, level → the four counts; `mean_network_error`, of the network at its
    means; `posterior`, τ and ρ of every tensor; and `confidently_wrong`, the wrong predictions that are quite certain
    at 95 %, the most confident first.

    Args:
        model: as trained, on the device of the examples; its outputs are logits.
        test: the examples to judge by, with classes for targets.
        seed: of the run. The draws are the same for the same seed, and unrelated to those of the training.
        samples: networks to draw.
        progress: show a bar.

    Example:
        >>> test = tb.runs.Examples(torch.randn(40, 2), torch.randint(3, (40,)))
        >>> found = evaluate(tb.to_bayesian(nn.Linear(2, 3)), test, seed=0, samples=20, progress=False)
        >>> found["examples_tested"], sorted(found["certain"])
        (40, ['0.95', '0.99'])
    """
    check_module("model", model)
    if not isinstance(test, Examples):
        raise wrong_type("test", test, "be Examples", "pass tb.runs.Examples(inputs, targets)")
    if not test.are_labelled:
        remedy = "judge a regression by tribayes.predict(model, x, likelihood=...).summary(y)"
        raise refusal("test", test.targets, "have classes for targets, int64 of shape (N,)", remedy)
    if not posterior_rows(model):
        mean = mean_answers(model, test)
        return _scores(ClassificationSummary.of(mean, test.targets.cpu(), {}, entropy(mean), samples=None))
    pred, targets = sampled_answers(model, test, seed, samples, progress), test.targets.cpu()
    summary = pred.summary(targets, LEVELS)
    rows, wrong = posterior_rows(model).items(), confidently_wrong(pred, targets)
    return {
        **_scores(summary),
        "samples": summary.samples,
        "certain": {str(level): dict(vars(counts)) for level, counts in summary.counts.items()},
        "mean_network_error": float((mean_answers(model, test).argmax(-1) != targets).double().mean()),
        "posterior": [{"name": name, "K": r.K, "tau": short(r.tau), "rho": short(r.rho)} for name, r in rows],
        "confidently_wrong": {"index": wrong, "true": targets[wrong].tolist(), "predicted": pred.label[wrong].tolist()},
    }


def sampled_answers(
    model: nn.Module, test: Examples, seed: int, samples: int, progress: bool = False, keep_samples: bool = False
) -> ClassPredictive:
    """What the sampled networks say: the same networks for the same seed, whatever they are asked."""
    pred: ClassPredictive = predict(
        model,
        test.inputs,
        samples,
        likelihood_of(model) or Categorical(),
        seed=seed_of_answers(seed),
        progress=progress,
        keep_samples=keep_samples,
        levels=LEVELS,
    )
    return pred


def seed_of_answers(seed: int) -> int:
    """The seed of the networks that answer for a run: unrelated to the draws of its training."""
    return Stream((seed, _STREAM)).number


def mean_answers(model: nn.Module, test: Examples) -> Tensor:
    """(N, C) on the CPU: class probabilities of a network, of a Bayesian one at its means."""
    at_means: ModelDraw = [{} for module in model.modules() if isinstance(module, BayesianModule)]
    stage = Stage(model, evaluation=True)
    with torch.no_grad():
        parts = zip(*(argument.split(_BATCH) for argument in test.arguments), strict=True)
        answers = (counted(stage.run(at_means, *part), remembered_output(model)) for part in parts)
        return torch.cat([outputs.softmax(-1).cpu() for outputs in answers])


def short(value: float) -> float:
    """Seven digits: more would only fill the file."""
    return float(f"{value:.7g}")


def _scores(summary: ClassificationSummary) -> dict[str, Any]:
    auroc = None if summary.error_auroc is None else short(summary.error_auroc)
    scores = {name: short(getattr(summary, name)) for name in ("nll", "brier", "ece")}
    found = {"examples_tested": summary.examples, "error": summary.error, **scores, "auroc_errors": auroc}
    return found | ({"remarks": list(summary.remarks)} if summary.remarks else {})


def comparison(runs: Sequence[RunFolder]) -> str:
    """The figures of several evaluated runs as a table, with the counts at 95 %.

    Example:
        >>> run, model = tb.runs.Run.at(folder / "mine"), tb.to_bayesian(nn.Linear(2, 3))
        >>> figures = run.evaluate(model, (torch.randn(40, 2), torch.randint(3, (40,))), samples=20, progress=False)
        >>> print(comparison([run]))
        run ... error ... wrong certain  wrong unsure
        ...
    """
    header = ["run", "experiment", "seed", "error", "NLL", "Brier", "ECE"]
    header += ["right certain", "right unsure", "wrong certain", "wrong unsure"]
    rows: list[list[object]] = []
    for run in runs:
        scores = ClassificationSummary.from_dict(run.evaluation())
        counts = vars(scores.counts[0.95]).values() if 0.95 in scores.counts else [None] * 4
        cells = [percent(scores.error, 2), scores.nll, scores.brier, percent(scores.ece, 2), *counts]
        rows.append([printable(run.folder), printable(run.name), run.seed, *cells])
    return format_table(header, rows)
