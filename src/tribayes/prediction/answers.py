"""From what networks said to a prediction: the likelihood decides which."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes.inference.likelihood import CLASSES, LABELS, VALUES, Categorical, Likelihood
from tribayes.inference.memory import likelihood_of
from tribayes.nn.convert import bayesian_modules
from tribayes.prediction.predictive import ClassPredictive, LabelPredictive, RegressionPredictive
from tribayes.prediction.predictive_base import DEFAULT_LEVELS, Predictive
from tribayes.prediction.samples import Drawn, Moments
from tribayes.prediction.source import Kept, Reduced, Source

KINDS: dict[str, type[Predictive]] = {CLASSES: ClassPredictive, LABELS: LabelPredictive, VALUES: RegressionPredictive}

_UNKNOWN = (
    "the model was filled from a state_dict, which does not say what its outputs mean: they are taken for classes. Say "
    "it by likelihood=tb.Categorical() or whatever it was trained with; tb.save and tb.load keep it."
)


def likelihood_for(model: nn.Module, given: Any = None) -> Likelihood:
    """The likelihood by which a model is asked: the one given, else the one it was trained with.

    A model that knows of none, trained by a loop of its own, is taken for a classifier, `Categorical()`: that is what
    such a loop nearly always is, and outputs (N, 1) are refused by it. Filled from a `state_dict`, it may have been
    trained by any: that is said.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 2))
        >>> likelihood_for(model)
        Categorical()
        >>> likelihood_for(model, tribayes.Gaussian())
        Gaussian(noise=1, learned=False)
    """
    if given is None:
        known = likelihood_of(model)
        if known is None and any(module._filled for module in bayesian_modules(model)):
            warnings.warn(_UNKNOWN, UserWarning, stacklevel=3)
        return known or Categorical()
    if not isinstance(given, Likelihood):
        raise wrong_type("likelihood", given, "be a Likelihood", "pass e.g. tb.Categorical()")
    return given


def predictive_class(likelihood: Likelihood) -> type[Predictive]:
    """What a likelihood predicts; an error that says what to declare where it does not say."""
    declared = likelihood.predicts
    if isinstance(declared, type) and issubclass(declared, Predictive):
        return declared
    if not isinstance(declared, str) or declared not in KINDS:
        requirement = f"declare what it predicts, but says predicts = {declared!r}"
        remedy = f"set its class attribute `predicts` to one of {list(KINDS)}, or to a tb.Predictive of your own"
        raise refusal("likelihood", type(likelihood).__name__, requirement, remedy)
    if declared == VALUES:
        likelihood.noise_law()  # refuses where there is none, before any network is asked
    return KINDS[declared]


def predictive_of(likelihood: Likelihood, source: Source, origin: Drawn | Moments) -> Predictive:
    """The prediction that kept or reduced responses of a likelihood are."""
    return predictive_class(likelihood).of(likelihood, source, origin)


def predictive_from(
    likelihood: Likelihood,
    outputs: Tensor,
    origin: Drawn | Moments | None = None,
    *,
    keep_samples: bool = True,
    levels: Sequence[float] = DEFAULT_LEVELS,
) -> Predictive:
    """The prediction that raw outputs (S, N, …) of S networks are, wherever these come from.

    Without an origin the networks are numbered from 0, with seed 0.

    Example:
        >>> predictive_from(tribayes.Categorical(), torch.randn(20, 5, 3))
        ClassPredictive(5 examples, 3 classes, 20 sampled networks)
    """
    kind = predictive_class(likelihood)
    if outputs.ndim < 2 or 0 in outputs.shape[:2]:
        remedy = "stack what the networks returned: torch.stack(outputs)"
        raise refusal("outputs", outputs, "have the shape (S, N, …), of at least one network and example", remedy)
    with torch.no_grad():
        said = torch.stack([likelihood.response(one) for one in outputs])
        kind.check_response(likelihood, said[0])
        source: Source = Kept(said) if keep_samples else Reduced.of(said, levels)
    return kind.of(likelihood, source, origin or Drawn(0, tuple(range(len(outputs)))))
