"""The plain network of a model, held by a module that brings the weights itself: kept ones, or some made inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tribayes.nn.convert import bayesian_modules, to_deterministic
from tribayes.nn.places import places_of
from tribayes.nn.stage import ModelDraw, random_names
from tribayes.nn.twin import Twin, bare


class HeldNetwork(nn.Module):
    """A copy of a model's plain network, always in evaluation mode and without gradients for its weights.

    `network` is that copy, `recurrent` says whether it has an LSTM or the like, `groups` has a dict for each Bayesian
    module, its names of random parameters → full names. A call changes nothing, so several threads may ask at once.
    """

    network: nn.Module

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        model = bare(model)
        own = [module.random_names for module in bayesian_modules(model)]
        self.groups = [dict(zip(*names, strict=True)) for names in zip(own, random_names(model), strict=True)]
        self.network = to_deterministic(model).requires_grad_(False)
        named: dict[Tensor, list[str]] = {}
        for name, parameter in self.network.named_parameters(remove_duplicate=False):
            named.setdefault(parameter, []).append(name)
        # these have a list of their weights beside their parameters, which functional_call passes over
        self.recurrent = any(isinstance(module, nn.RNNBase) for module in self.network.modules())
        self._places = {names[0]: places_of(self.network, names) for names in named.values()}
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Stays in evaluation mode."""
        del mode
        return super().train(False)

    def in_full(self, draws: ModelDraw) -> dict[str, Tensor]:
        """A draw of the whole model, by full names."""
        pairs = zip(self.groups, draws, strict=True)
        return {names[name]: value for names, draw in pairs for name, value in draw.items()}

    def under(self, weights: Mapping[str, Tensor], arguments: Any, named: Mapping[str, Any]) -> Any:
        """What the network answers with these weights, by their full names, in place."""
        exporting = torch.compiler.is_exporting() and not self.recurrent
        if exporting or torch.compiler.is_dynamo_compiling():  # a traced call swaps nothing, and knows no twin
            everywhere = {place: value for name, value in weights.items() for place in self._places[name]}
            return functional_call(self.network, everywhere, arguments, dict(named), tie_weights=False)
        replaced = {id(self.network.get_parameter(name)): value for name, value in weights.items()}
        return Twin(self.network, replaced, own_buffers=True).network(*arguments, **named)
