"""The uncertainty scores in words, with their units."""

from __future__ import annotations

_LABELS = {
    "entropy": "entropy: total uncertainty (nats)",
    "aleatoric": "aleatoric uncertainty (nats)",
    "epistemic": "epistemic uncertainty (nats)",
    "confidence": "one minus the confidence (probability)",
    "std": "standard deviation of the label's probability",
}


def score_label(score: str) -> str:
    """An axis label for `ClassPredictive.uncertainty(score)`."""
    return _LABELS.get(score, score)
