"""Families of these laws: one or two numbers per tensor beside τ, learned like the paper's ρ."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

import tribayes as tb
from benchmarks.correlation.laws import Along, Multiplicative, Neighbours, Separable, Structure
from tribayes.posterior import Family, parametrisation

_ORDER = 0  # seed of the random orders: the same for all networks


class Structured(Family):
    """w = m + τ|m| ε: what is common. A subclass says how the noise of a tensor is correlated."""

    multiplicative = True
    numbers = 1  # per tensor, beside τ

    def __init__(self, means: Sequence[Tensor], tau: Sequence[float], rho: Sequence[float]) -> None:
        nn.Module.__init__(self)
        del rho
        self.shapes = [tuple(mean.shape) for mean in means]
        self.delta = nn.Parameter(parametrisation.delta_of(torch.tensor(tau)))
        self.raw = nn.Parameter(torch.zeros(self.numbers, len(means)))

    @abstractmethod
    def structure(self, number: int, mean: Tensor) -> Structure:
        """R of a tensor, by its flat mean; `self.raw[:, number]` has what was learned about it."""

    def laws(self, means: Sequence[Tensor]) -> list[Multiplicative]:  # type: ignore[override]  # not among the library's two
        taus = parametrisation.tau_of(self.delta).unbind()
        return [
            Multiplicative(mean, tau, self.structure(number, mean))
            for number, (mean, tau) in enumerate(zip(means, taus, strict=True))
        ]

    def divergence(self, means: Sequence[Tensor], priors: Sequence[object]) -> Tensor:
        """From relative priors, without a logarithm of means that cancels."""
        del priors  # the study has no other
        return torch.stack([law.relative_divergence() for law in self.laws([mean.flatten() for mean in means])]).sum()

    def scale_parameters(self) -> list[nn.Parameter]:
        return [self.delta]

    def correlation_parameters(self) -> list[nn.Parameter]:
        return [self.raw]

    @torch.no_grad()
    def found(self) -> list[list[float]]:
        """The numbers beside τ of each tensor: correlations ρ."""
        return parametrisation.rho_of(self.raw).T.tolist()

    def coefficient(self, number: int, which: int = 0) -> Tensor:
        return parametrisation.coefficient_of(self.raw[which, number])


class RandomOrder(Structured):
    """The paper's T(ρ), but along a fixed random order of the weights: correlation without neighbourhood."""

    def __init__(self, means: Sequence[Tensor], tau: Sequence[float], rho: Sequence[float]) -> None:
        super().__init__(means, tau, rho)
        source = torch.Generator().manual_seed(_ORDER)
        self.places = [torch.randperm(mean.numel(), generator=source).to(mean.device) for mean in means]

    def structure(self, number: int, mean: Tensor) -> Structure:
        return Neighbours(self.coefficient(number), len(mean), self.places[number])


class InsideKernels(Structured):
    """T(ρ_h) ⊗ T(ρ_w) inside each kernel of a convolution; T(ρ) along each row of a matrix, and along a bias."""

    numbers = 2

    def structure(self, number: int, mean: Tensor) -> Structure:
        shape = self.shapes[number]
        height, width = (shape[-2], shape[-1]) if len(shape) == 4 else (1, shape[-1])
        down = self.coefficient(number, 0) if height > 1 else torch.zeros_like(mean[0])
        return Separable((down, self.coefficient(number, 1)), (len(mean) // (height * width), height, width))


class WithoutMean(Structured):
    """Noise along |m| of each kernel (or row of a matrix) is s times the other; biases have independent noise."""

    @torch.no_grad()
    def found(self) -> list[list[float]]:
        """s of each tensor."""
        return self.raw.exp().T.tolist()

    def structure(self, number: int, mean: Tensor) -> Structure:
        return Along(self.raw[0, number] * self._counts(number), self.directions(number, mean))

    def directions(self, number: int, mean: Tensor) -> Tensor:
        shape = self.shapes[number]
        return mean.abs().reshape(-1, math.prod(shape[-2:]) if len(shape) == 4 else shape[-1])

    def _counts(self, number: int) -> float:
        return float(len(self.shapes[number]) > 1)


class MeanInput(WithoutMean):
    """The same along |m| E[x] for all weights of an output: noise in its answer to the mean input is s times the other.

    E[x] of a layer is what `see_inputs_` was last given: (inputs,) for a matrix, (channels,) for a convolution.
    """

    def __init__(self, means: Sequence[Tensor], tau: Sequence[float], rho: Sequence[float]) -> None:
        super().__init__(means, tau, rho)
        self.inputs: dict[int, Tensor] = {}

    def see_inputs_(self, number: int, mean_input: Tensor) -> None:
        self.inputs[number] = mean_input.detach()

    def directions(self, number: int, mean: Tensor) -> Tensor:
        shape = self.shapes[number]
        rows = mean.abs().reshape(shape[0], shape[1] if len(shape) > 1 else 1, -1)
        seen = self.inputs.get(number)
        weighed = rows if seen is None else rows * seen.reshape(1, -1, 1)
        return weighed.flatten(1)


@torch.no_grad()
def mean_inputs(model: tb.BayesianModule, images: Tensor) -> dict[int, Tensor]:
    """E[x] over images and places of every layer with a random weight, by the network of the means."""
    network = tb.to_deterministic(model).eval()
    numbers = {name.rpartition(".")[0]: n for n, (name, _) in enumerate(model.means()) if name.endswith("weight")}
    found: dict[int, Tensor] = {}

    def note(number: int, inputs: Tensor) -> None:
        axes = (0, 2, 3) if inputs.ndim == 4 else (0,)
        found[number] = inputs.mean(axes)

    hooks = [
        module.register_forward_pre_hook(lambda _, inputs, number=numbers[name]: note(number, inputs[0]))
        for name, module in network.named_modules()
        if name in numbers
    ]
    network(images)
    for hook in hooks:
        hook.remove()
    return found
