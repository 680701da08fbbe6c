"""A training step recorded as a CUDA graph: one launch a step, whatever the network is made of.

Small networks leave a GPU waiting for Python. The first steps run as they are, with their own batches; then a step is
recorded, and from there on only its batch is copied in and the record replayed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.inference.objective import ELBO, ELBOTerms
from tribayes.inference.training import training_step

_WARM_UP = 3  # steps before a capture: what torch allocates once, it allocates then


class CapturedStep:
    """`training_step` as a callable that records itself on a GPU. On a CPU it is the plain step.

    Steps are those of the plain loop, for the same seeds. The learning rate may change, as by a scheduler: a new number
    is recorded anew, so for a rate that changes every step give the optimizer a tensor as its `lr`. A batch of another
    shape (often the last) is not replayed but run as it is.

    A model by `torch.compile` is captured, too: compiling fuses what the graph then launches.

    The returned terms are overwritten by the next step: read them, or clone them, before. They are values without a
    graph, for the backward pass is over.

    Args:
        model, elbo, optimizer: as for `training_step`; the optimizer must allow captures (`torch.optim.SGD` does,
            Adam with `capturable=True`), and `elbo.kl_weight` be a number.
        rule, clip: as for `training_step`.

    Example:
        >>> step = CapturedStep(model, elbo, torch.optim.SGD(parameter_groups(model, lr=0.01), momentum=0.9))
        >>> for x, y in loader:
        ...     terms = step(x.cuda(), y.cuda())
    """

    def __init__(
        self,
        model: nn.Module,
        elbo: ELBO,
        optimizer: torch.optim.Optimizer,
        *,
        rule: str = "closed_form",
        clip: float | None = None,
    ) -> None:
        if callable(elbo.kl_weight):
            remedy = "use training_step, or change kl_weight between captures"
            raise refusal("elbo", "a schedule of kl_weight", "have a number as kl_weight to be captured", remedy)
        self.model, self.elbo, self.optimizer = model, elbo, optimizer
        self.rule, self.clip = rule, clip
        self._left = _WARM_UP
        self._recording: _Recording | None = None

    @property
    def captured(self) -> bool:
        """Whether steps are replayed by now."""
        return self._recording is not None

    def __call__(self, inputs: Any, targets: Tensor) -> ELBOTerms:
        arguments = inputs if isinstance(inputs, tuple) else (inputs,)
        if self._left or not targets.is_cuda:
            self._left = max(self._left - 1, 0)
            return self._plain(arguments, targets)
        if self._recording is None or self._recording.rates != self._rates():
            self._recording = _Recording(self, arguments, targets)
        if not self._recording.fits(arguments, targets):
            return self._plain(arguments, targets)
        return self._recording.replay(arguments, targets)

    def _plain(self, arguments: tuple[Tensor, ...], targets: Tensor) -> ELBOTerms:
        return training_step(self.model, self.elbo, arguments, targets, self.optimizer, rule=self.rule, clip=self.clip)

    def _rates(self) -> list[float]:
        """Learning rates that a recording would hold fast; tensors are read anew in each replay."""
        return [group["lr"] for group in self.optimizer.param_groups if not isinstance(group["lr"], Tensor)]


class _Recording:
    """The graph, and the places it reads from."""

    def __init__(self, step: CapturedStep, arguments: tuple[Tensor, ...], targets: Tensor) -> None:
        self.rates = step._rates()
        self._places = [value.clone() for value in (*arguments, targets)]
        *inputs, labels = self._places
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            terms = step._plain(tuple(inputs), labels)
        # detached: torch's graph would keep this stream for the slopes of later eager steps
        self._terms = ELBOTerms(*(term.detach() for term in terms))

    def fits(self, arguments: tuple[Tensor, ...], targets: Tensor) -> bool:
        given = (*arguments, targets)
        return len(given) == len(self._places) and all(
            (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
            for a, b in zip(given, self._places, strict=True)
        )

    def replay(self, arguments: tuple[Tensor, ...], targets: Tensor) -> ELBOTerms:
        for place, value in zip(self._places, (*arguments, targets), strict=True):
            place.copy_(value)
        self._graph.replay()
        return self._terms
