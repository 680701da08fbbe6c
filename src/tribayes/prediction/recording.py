"""Draws and passes on a GPU as a CUDA graph: each is one launch, whatever the network is made of.

A small network leaves a GPU waiting for Python between its layers. So a draw and its pass over a batch are recorded
once, and replayed for other draws and other batches of that shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.fused import counter_seed
from tribayes.nn.holding import ModelDraw, sample_model_from
from tribayes.prediction.inputs import Batch

_WARM_UP = 2  # passes before the recording: what is made once is made then


def check_captured(captured: bool, model: nn.Module, at_once: object, method: str) -> None:
    """Refuse to record what cannot be recorded."""
    if not captured:
        return
    if method != "samples" or at_once != 1:
        raise refusal("captured", captured, 'be False with at_once or method="moments"', "leave one of them out")
    modules = bayesian_modules(model)
    if not all(parameter.is_cuda for parameter in model.parameters()):
        raise refusal("captured", captured, "be False for a model that is not on a GPU", "leave it out, or move it")
    if any(module.sampler != "fused" for module in modules):
        remedy = 'convert with sampler="fused", or set model.sampler = "fused"'
        raise refusal("captured", captured, "be False unless the model draws by the fused sampler", remedy)


class Recording:
    """One draw and its pass over a batch, recorded.

    Args:
        model: whose Bayesian modules all draw by the fused sampler.
        respond: (draw, batch) → answers, all of it on the device.
        batch: an example of the batches to come.
        only: as for `sample_model`.
    """

    def __init__(
        self,
        model: nn.Module,
        respond: Callable[[ModelDraw, Batch], Tensor],
        batch: Batch,
        only: Sequence[set[str]] | None,
    ) -> None:
        device = batch[0].device
        self._seeds = [torch.zeros(1, dtype=torch.int64, device=device) for _ in bayesian_modules(model)]
        self._places = tuple(part.clone() for part in batch)
        self._held = batch  # whose values are in the places

        def one() -> Tensor:
            return respond(sample_model_from(model, self._seeds, only), self._places)

        self._again, self._answers = _record(one, device)

    def fits(self, batch: Batch) -> bool:
        """Whether a batch has the shape and type of the one recorded."""
        return [(part.shape, part.dtype) for part in batch] == [(part.shape, part.dtype) for part in self._places]

    def replay(self, seeds: Sequence[int], batch: Batch) -> Tensor:
        """The answers to a batch under the draw of these seeds."""
        for place, seed in zip(self._seeds, seeds, strict=True):
            place.fill_(counter_seed(seed))
        if batch is not self._held:
            for part, value in zip(self._places, batch, strict=True):
                part.copy_(value)
            self._held = batch
        self._again()
        return self._answers.clone()


def _record(run: Callable[[], Tensor], device: torch.device) -> tuple[Callable[[], None], Tensor]:
    """How to run it again, and where its result will be. It first runs on a stream of its own, as a recording does."""
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            run()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = run()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise ValueError(
            "`captured` (=True) must be False for this network, which cannot be recorded as a CUDA graph "
            f"({_first_line(error)}); leave it out."
        ) from error
    return graph.replay, result


def _first_line(error: BaseException) -> str:
    """Of the error that came first: the one at a capture's end only says that there was one."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).splitlines()[0] if str(error) else type(error).__name__
