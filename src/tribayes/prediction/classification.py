"""Which examples of a classification to look at."""

from __future__ import annotations

from torch import Tensor

from tribayes.prediction.predictive import ClassPredictive, check_one_label_each


def telling_examples(pred: ClassPredictive, targets: Tensor, level: float = 0.95) -> dict[str, int]:
    """Numbers of up to three different examples, by what they are: "sure", "two-way", "hopeless".

    Sure: among the right and quite certain at `level`, the one of median entropy. Two-way: among the wrong and
    uncertain, the one that gave its true class most probability. Hopeless: of the other wrong and uncertain, the one of
    largest entropy. Where nothing is wrong, the last two are chosen among the uncertain, and two-way is the one with
    the strongest second class. The smaller number wins among equals, so that a report shows the same examples whoever
    makes it; a kind that does not occur is left out.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(4, 3), generator=0), torch.eye(4)
        >>> pred = tb.predict(model, x, samples=20, progress=False)
        >>> chosen = telling_examples(pred, targets=pred.label)
        >>> set(chosen) <= {"sure", "two-way", "hopeless"}
        True
    """
    check_one_label_each(pred, "telling examples")
    targets = pred.checked_targets(targets)
    correct, certain = pred.correct(targets), pred.certain(level)
    doubtful = ~certain & (~correct | correct.all())
    sure = _ordered(correct & certain, pred.entropy)
    true = pred.mean.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    others = pred.mean.scatter(-1, pred.label.unsqueeze(-1), 0)
    rival = true.where(~correct, others.amax(-1))  # of the label: the true class, or the second where that wins
    two_way = _ordered(doubtful, -rival)
    hopeless = [number for number in _ordered(doubtful, -pred.entropy) if number not in two_way[:1]]
    found = {"sure": sure[len(sure) // 2 :], "two-way": two_way, "hopeless": hopeless}
    return {kind: numbers[0] for kind, numbers in found.items() if numbers}


def confidently_wrong(pred: ClassPredictive, targets: Tensor, level: float = 0.95) -> list[int]:
    """Numbers of the wrong predictions that are quite certain at `level`, the most confident first.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(4, 3), tau=1e-6, generator=0), torch.eye(4)
        >>> pred = tb.predict(model, x, samples=20, progress=False)
        >>> len(confidently_wrong(pred, targets=(pred.label + 1) % 3))
        4
    """
    check_one_label_each(pred, "a list of examples")
    return _ordered(~pred.correct(targets) & pred.certain(level), -pred.confidence)


def _ordered(chosen: Tensor, key: Tensor) -> list[int]:
    """Numbers of the chosen examples by increasing key, then by number."""
    numbers = chosen.nonzero().flatten()
    return [int(number) for number in numbers[key[numbers].argsort(stable=True)]]
