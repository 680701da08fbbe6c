"""The objective: the paper's L_VI^k, and the only place that knows how large the data set is.

    L = −(1/M) Σ_i ln p(y_i | x_i, w)  +  ν KL(q ‖ p),      ν = kl_weight / data_size,     w ~ q

over a batch of M examples; kl_weight = 1 is the evidence lower bound per example. A network with many more weights than
examples cannot afford that: its divergence outweighs the data, and what is left is the prior. kl_weight="auto" is

    kl_weight = min(1, c N / K),     c = 0.1,

for N examples and K random weights: the divergence of a weight then counts a tenth of an example's share, however many
weights there are (docs/defaults.md: how it was found).
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from tribayes._errors import check_module, check_whole, is_number, refusal, wrong_type
from tribayes.inference.estimator import check_estimator, sampled_outputs
from tribayes.inference.finite import check_examples
from tribayes.inference.likelihood import Likelihood
from tribayes.inference.memory import remember
from tribayes.inference.processes import check_passes
from tribayes.nn.answer import Output, check_output, counted, remember_output
from tribayes.nn.calling import Home, arguments_of
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.stage import Stage
from tribayes.posterior.streams import Randomness

KLWeight = float | str | Callable[[int], float]
Parts = tuple[Tensor, Tensor, Tensor]  # NLL, divergence, outputs

AUTO = "auto"
AUTO_SHARE = 0.1  # c above

_LARGEST_WEIGHT = 1e6  # far over any use, far under what float32 could not multiply with a divergence
_SIZE_REMEDY = "pass the number of training examples, len(dataset)"


class ELBOTerms(NamedTuple):
    """The loss to minimise and what it is made of.

    Example:
        >>> model, elbo = tb.to_bayesian(nn.Linear(2, 3)), tb.ELBO(tb.Categorical(), data_size=8, kl_weight=0.5)
        >>> terms = elbo(model, torch.randn(8, 2), torch.randint(3, (8,)))
        >>> torch.testing.assert_close(terms.loss, terms.nll + 0.5 * terms.kl / 8)
        >>> terms.outputs.shape
        torch.Size([8, 3])
    """

    loss: Tensor
    nll: Tensor  # mean over examples and samples, nats per example
    kl: Tensor  # unscaled, nats
    outputs: Tensor  # the network's; with a leading axis of samples where there are several


class Objective(nn.Module, ABC):
    """What a step minimises: nll + ν kl. Base of `ELBO` and `MaximumLikelihood`."""

    output: Output

    def __init__(self, likelihood: Likelihood, output: Output = None) -> None:
        super().__init__()
        check_output(output)
        self.__dict__["output"] = output  # past torch: a module that computes it is no part of the objective
        if not isinstance(likelihood, Likelihood):
            raise wrong_type("likelihood", likelihood, "be a Likelihood", "pass e.g. tb.Categorical()")
        self.likelihood = likelihood

    def forward(
        self, model: nn.Module, inputs: Any, targets: Any, step: int | None = None, *, generator: Randomness = None
    ) -> ELBOTerms:
        """The terms for one batch; `inputs` is what the model takes (nn/calling.py): a tuple or a list for several
        arguments, a Mapping or a dataclass for named ones. Arrays of other libraries are tensors here, too."""
        check_module("model", model)
        stage = self.stage(model)
        if isinstance(stage, Stage):
            check_passes(model)
        if not (isinstance(inputs, Tensor) and isinstance(targets, Tensor)):
            home = Home.of(model)
            inputs, targets = home.arguments(inputs), home.place("targets", targets)
        check_examples(inputs, targets)
        nll, divergence, outputs = self.parts(stage, inputs, targets, generator)
        return ELBOTerms(nll + self.nu(step) * divergence.to(nll.device), nll, divergence, outputs)

    def stage(self, model: nn.Module) -> Any:
        """Where `parts` runs the model; one stage serves many steps. The model remembers the likelihood."""
        remember(model, self.likelihood)
        return Stage(model)

    @abstractmethod
    def parts(self, stage: Any, inputs: Any, targets: Tensor, generator: Randomness = None) -> Parts:
        """The two terms apart, on a stage: NLL, KL(q ‖ p) and the network's outputs."""

    def nu(self, step: int | None = None) -> float:
        """ν, the weight of the divergence at a step."""
        del step
        return 0.0


class ELBO(Objective):
    """The negative evidence lower bound per example, from one or a few draws of the weights.

    Args:
        likelihood: `Categorical()`, `Gaussian(...)`, `Bernoulli()` or your own.
        data_size: number of training examples (β in the paper). Required: it sets how much the prior weighs.
        kl_weight: "auto" (the default): min(1, 0.1 N / K) for N = `data_size` and the K random weights of the model.
            Or a number (the paper uses 0.01 and 0.1; 1 is the evidence lower bound), or a function of the
            step (`TrainingStep` and `fit` count; in a loop of your own pass `step=`).
        output: which part of the network's answer counts, if it is more than a tensor: a name, an index or a function
            of the answer. Default: its part "logits", else the first tensor in it that has an axis. It is kept with
            the model, and `predict` uses it.
        samples: draws of the weights per step.
        estimator: how these draws are used. "plain": each for the whole batch. "local": the noise of a layer is drawn
            on its outputs, for each example anew: a smaller gradient variance, exact for linear layers, per position
            for convolutions (docs/estimators.md). "antithetic": in pairs w and 2m − w, for an even number of samples.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> elbo = ELBO(tribayes.Categorical(), data_size=60)
        >>> terms = elbo(model, torch.randn(8, 4), torch.randint(3, (8,)))
        >>> terms.loss.backward()
        >>> elbo
        ELBO(
          data_size=60, kl_weight='auto' (0.4 for 15 weights), samples=1, estimator='plain'
          (likelihood): Categorical()
        )
    """

    def __init__(
        self,
        likelihood: Likelihood,
        *,
        data_size: int | None = None,
        kl_weight: KLWeight = AUTO,
        samples: int = 1,
        estimator: str = "plain",
        output: Output = None,
    ) -> None:
        super().__init__(likelihood, output)
        if data_size is None:  # no default could be right
            raise refusal("data_size", None, "be given", _SIZE_REMEDY)
        data_size = check_whole("data_size", data_size, _SIZE_REMEDY, least=1)
        samples = check_whole("samples", samples, "pass the number of weight draws per step", least=1)
        check_estimator(estimator, samples)
        if not callable(kl_weight) and kl_weight != AUTO:
            check_weight(kl_weight)
        self.weights: int | None = None  # K, once a model is known
        self.data_size, self.kl_weight = data_size, kl_weight
        self.samples, self.estimator = samples, estimator

    def parts(self, stage: Stage, inputs: Any, targets: Tensor, generator: Randomness = None) -> Parts:
        answers, divergence = sampled_outputs(stage, arguments_of(inputs), self.estimator, self.samples, generator)
        outputs = [counted(answer, self.output) for answer in answers]
        if outputs[0].ndim and len(outputs[0]) > self.data_size:
            warnings.warn(self._too_few(len(outputs[0])), UserWarning, stacklevel=2)
        nll = self.data_term(outputs, targets)
        return nll, divergence, outputs[0] if self.samples == 1 else torch.stack(outputs)

    def _too_few(self, examples: int) -> str:
        return (
            f"`data_size` (={self.data_size}) is fewer than the {examples} examples of one batch: it counts examples, "
            "not batches, and sets how much the prior weighs; pass len(dataset), or len(loader.dataset)."
        )

    def data_term(self, outputs: Sequence[Any], targets: Tensor) -> Tensor:
        """The likelihood term from what the network answered under each draw: the mean NLL."""
        each = [self.likelihood.mean_nll(output, targets) for output in outputs]
        return each[0] if len(each) == 1 else torch.stack(each).mean()

    def stage(self, model: nn.Module) -> Stage:
        weights = sum(mean.numel() for module in bayesian_modules(model) for _, mean in module.means())
        if self.kl_weight == AUTO and self.weights not in (None, weights):
            requirement = (
                f"be of one model, but this one has {weights:,} random weights and the last had {self.weights:,}"
            )
            raise refusal("kl_weight", AUTO, requirement, "make an ELBO for each model, or pass a number")
        self.weights = weights
        remember_output(model, self.output)
        stage: Stage = super().stage(model)
        return stage

    def nu(self, step: int | None = None) -> float:
        """ν = kl_weight / data_size, at a step where the weight is a schedule."""
        return self.weight(step) / self.data_size

    def weight(self, step: int | None = None) -> float:
        """kl_weight as a number: what "auto" came to, or a schedule's at a step."""
        if self.kl_weight == AUTO:
            if self.weights is None:
                remedy = "make a TrainingStep, or call elbo(model, x, y) once"
                raise refusal("kl_weight", AUTO, "know the model, on whose number of weights it depends", remedy)
            return min(1.0, AUTO_SHARE * self.data_size / self.weights)
        if not callable(self.kl_weight):
            return cast(float, self.kl_weight)
        if step is None:
            raise refusal("step", step, "be given when `kl_weight` is a schedule", "call elbo(model, x, y, step=i)")
        weight = self.kl_weight(step)
        check_weight(weight)
        return weight

    def extra_repr(self) -> str:
        found = (
            f" ({self.weight():.3g} for {self.weights:,} weights)" if self.kl_weight == AUTO and self.weights else ""
        )
        others = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("samples", "estimator"))
        return f"data_size={self.data_size}, kl_weight={self.kl_weight!r}{found}, {others}"


class MaximumLikelihood(Objective):
    """The objective of a plain network, for comparison: the mean negative log likelihood, and no divergence.

    Example:
        >>> objective = MaximumLikelihood(tribayes.Categorical())
        >>> objective(nn.Linear(4, 3), torch.randn(8, 4), torch.randint(3, (8,))).kl
        tensor(0.)
    """

    def stage(self, model: nn.Module) -> nn.Module:
        remember(model, self.likelihood)
        return model

    def parts(self, stage: nn.Module, inputs: Any, targets: Tensor, generator: Randomness = None) -> Parts:
        del generator
        args, kwargs = arguments_of(inputs)
        outputs = counted(stage(*args, **kwargs), self.output)
        nll = self.likelihood.mean_nll(outputs, targets)
        return nll, torch.zeros((), device=nll.device), outputs


def check_weight(weight: Any) -> None:
    """Refuse a kl_weight that is no number, or none to multiply a divergence by."""
    if not is_number(weight):
        raise wrong_type("kl_weight", weight, 'be "auto", a number or a function of the step', "pass e.g. 1.0")
    if not (math.isfinite(weight) and weight >= 0):
        raise refusal("kl_weight", weight, "be finite and not negative", "1.0 is the evidence lower bound")
    if weight > _LARGEST_WEIGHT:
        raise refusal("kl_weight", weight, f"be at most {_LARGEST_WEIGHT:g}", "1.0 is the evidence lower bound")
