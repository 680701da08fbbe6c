"""A network that draws its weights inside, from a seed that is an input: for other runtimes than Python."""

from __future__ import annotations

import copy
from typing import Any, cast

from torch import Tensor, nn

from tribayes._errors import wrong_type
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.held import HeldNetwork
from tribayes.nn.twin import bare
from tribayes.posterior.counter import CountedNormals
from tribayes.posterior.draw.plain import flat
from tribayes.posterior.family import Family


class SamplingNetwork(HeldNetwork):
    """A plain module for a Bayesian model: inputs and a seed in, the answer of one sampled network out.

    One seed, one network, always the same; another seed, another draw of the same posterior. The normals are made by
    integer operations (posterior/counter.py), so that `torch.export` and ONNX carry them along. They are others than
    those of `tribayes.predict` with an equal seed. The model is copied, in evaluation mode.

    Example:
        >>> network = SamplingNetwork(tribayes.to_bayesian(nn.Linear(4, 3)))
        >>> x, seeds = torch.randn(5, 4), torch.arange(3)
        >>> torch.stack([network(x, seed=seed) for seed in seeds]).shape
        torch.Size([3, 5, 3])
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        copies = [copy.deepcopy(module.family) for module in bayesian_modules(bare(model))]
        self.families = nn.ModuleList(copies).requires_grad_(False)

    def forward(self, inputs: Any = None, *more: Any, seed: Tensor, **named: Any) -> Any:
        """The answer (N, …) of the network that this seed names: a whole number in an int64 tensor."""
        return self.under(self.sample_weights(seed), () if inputs is None else (inputs, *more), named)

    def sample_weights(self, seed: Tensor) -> dict[str, Tensor]:
        """The weights of that network, by their full names."""
        if not isinstance(seed, Tensor):
            raise wrong_type("seed", seed, "be one number in an int64 tensor", "pass e.g. torch.tensor(0)")
        everything = [self.network.get_parameter(name) for names in self.groups for name in names.values()]
        source = CountedNormals(seed, block=sum(mean.numel() + 1 for mean in everything))  # at most so many per tensor
        weights: dict[str, Tensor] = {}
        for family, names in zip(self.families, self.groups, strict=True):
            means = [self.network.get_parameter(name) for name in names.values()]
            laws = cast(Family, family).laws([flat(mean) for mean in means])
            for name, mean, law in zip(names.values(), means, laws, strict=True):
                weights[name] = law.rsample((), source).reshape(mean.shape).to(mean.dtype)
        return weights
