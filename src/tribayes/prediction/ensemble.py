"""A posterior to be kept and served: the networks drawn once, and asked all at once."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only, tree_structure, tree_unflatten

from tribayes._errors import check_whole, refusal, wrong_type
from tribayes.inference.likelihood import Likelihood
from tribayes.nn.answer import counted, remembered_output
from tribayes.nn.calling import Home, kind_of
from tribayes.nn.held import HeldNetwork
from tribayes.nn.stage import chosen_names, sample_model
from tribayes.nn.twin import bare
from tribayes.posterior.streams import Stream
from tribayes.prediction.answers import likelihood_for, predictive_of
from tribayes.prediction.inputs import Batch, batches_of, given, usual_batch_size
from tribayes.prediction.predict import check_options, check_outputs, computing
from tribayes.prediction.predictive_base import DEFAULT_LEVELS
from tribayes.prediction.question import Noting, Question
from tribayes.prediction.sampled import check_rows
from tribayes.prediction.samples import Drawn, numbers_of
from tribayes.prediction.source import Kept, Reduced, Source, join

Stacks = dict[str, Tensor]  # (S, …), by the full names
Ask = Callable[[dict[str, Tensor]], Any]  # weights by their names → what the network answers under them

_NO_TREE = "ensemble.predict(...) stacks the part that counts; a cache is left out by use_cache=False."
_WRITTEN_OUT = (
    "torch.export does not follow this network through a scan (it sets attributes, unpacks a buffer, or does what only "
    "Python can), so it is written out once for each of the {} draws: a larger program, and a longer export."
)
_ROWS = {"cpu": 512, "cuda": 16_384}  # networks × examples per pass: more leave the cache, or fill the memory


class Ensemble(HeldNetwork):
    """The networks that `tribayes.predict` would draw, kept: a plain module without state of its own.

    Args:
        model: a Bayesian model, or any module that contains Bayesian ones. It is copied.
        samples: how many networks, or a `range` of their numbers.
        seed: of all draws. The networks are those of `tribayes.predict` with the same seed, on the same device.
        dtype: what the drawn weights are kept in, such as torch.bfloat16 for half the memory; the network computes in
            its own dtype all the same. Default: its own.
        where: name pattern(s) of the weights to draw; the others stay at their means, stored once.
        likelihood: what the outputs mean to `predict`. Default: the one the model was trained with, as there.
        loop: ask one network after the other. Default: only where there are recurrent layers, which torch cannot run
            side by side.

    In `network`, a plain network, the random parameters have one axis more, the first: (S, …). Everything else
    (normalisation, buffers) is there once. Threads may share it, and `state_dict`, `.to(device)`, `torch.export` and
    `torch.onnx.export(..., dynamo=True)` are torch's own. `nbytes` says what it holds.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(4, 3))
        >>> ensemble = Ensemble(model, samples=50)
        >>> ensemble(torch.randn(5, 4)).shape, ensemble.nbytes
        (torch.Size([50, 5, 3]), 3000)
    """

    _computing: Tensor  # empty, of the dtype that the network computes in; it follows `.to(dtype)`

    def __init__(
        self,
        model: nn.Module,
        samples: int | range = 200,
        seed: int = 0,
        *,
        dtype: torch.dtype | None = None,
        where: str | Sequence[str] | None = None,
        likelihood: Likelihood | None = None,
        loop: bool | None = None,
    ) -> None:
        seed = check_whole("seed", seed, "pass e.g. seed=0")
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise wrong_type("dtype", dtype, "be a torch.dtype", "pass e.g. torch.bfloat16")
        super().__init__(model)
        self.origin = Drawn(seed, tuple(numbers_of(samples)))
        self.likelihood = copy.deepcopy(likelihood_for(model, likelihood)).requires_grad_(False)
        self._question = Question.to(model, self.likelihood, where)
        self._output = remembered_output(model)
        self._keep(bare(model), dtype, where)
        for module in self.network.modules():
            if isinstance(module, nn.RNNBase):
                module.flatten_parameters = _nothing  # type: ignore[method-assign]  # cuDNN's packing knows no stacks
        self.loop = self.recurrent if loop is None else loop

    def predict(
        self,
        inputs: Any,
        *,
        batch_size: int | None = None,
        precision: torch.dtype | None = None,
        keep_samples: bool = True,
        levels: Sequence[float] = DEFAULT_LEVELS,
    ) -> Any:
        """What `tribayes.predict` says with these networks: the same samples, to rounding. Options are explained there.

        Returns:
            What the likelihood predicts, such as a `ClassPredictive`.

        Example:
            >>> ensemble = Ensemble(tribayes.to_bayesian(nn.Linear(4, 3)))
            >>> ensemble.predict(torch.randn(5, 4))
            ClassPredictive(5 examples, 3 classes, 200 sampled networks)
        """
        check_options(batch_size, levels, precision)
        home = Home(self._computing.device, self._computing.dtype)
        inputs = given(inputs, home)
        parts: list[Source] = []
        noting = Noting(self._question)
        with computing(home.device.type, precision):
            for batch in noting(batches_of(inputs, batch_size or usual_batch_size(inputs, home.device), home)):
                said = self._responses(batch)
                check_outputs(self.likelihood, said, self.origin.indices, seen=sum(len(part.mean) for part in parts))
                parts.append(Kept(said) if keep_samples else Reduced.of(said, levels))
        prediction = predictive_of(self.likelihood, join(parts), self.origin)
        prediction.question = noting.question
        return prediction

    def _responses(self, batch: Batch) -> Tensor:
        """(S, N, …): what the networks' outputs mean."""
        outputs = self._answers(*batch.arguments, partial(counted, output=self._output))
        check_rows(outputs.shape[1:], batch)
        rows = outputs.float() if outputs.dtype.itemsize < 4 else outputs
        return self.likelihood.response(rows.flatten(0, 1)).unflatten(0, outputs.shape[:2])

    @torch.no_grad()
    def _keep(self, model: nn.Module, dtype: torch.dtype | None, where: str | Sequence[str] | None) -> None:
        """Put the stacks of drawn weights in the places of the means."""
        only = chosen_names(model, where)
        stacks: Stacks = {}
        for row, index in enumerate(self.origin.indices):
            draws = sample_model(model, Stream((self.origin.seed, index)), only)
            for name, value in self.in_full(draws).items():
                size = (len(self), *value.shape)
                stacks.setdefault(name, value.new_empty(size, dtype=dtype))[row] = value
        kinds = {self.network.get_parameter(name).dtype for name in stacks}
        if dtype is not None and (len(kinds) > 1 or not dtype.is_floating_point):
            requirement = "be a floating dtype, for a network whose random weights are all of one"
            raise refusal("dtype", dtype, requirement, "leave it out to keep each as it is")
        kind = kinds.pop() if len(kinds) == 1 else Home.of(model).dtype  # of several, what arrays become for the model
        device = next(iter(stacks.values())).device
        self.register_buffer("_computing", torch.empty(0, dtype=kind, device=device), persistent=False)
        self._cast = dtype is not None
        for name, stack in stacks.items():
            self.network.get_parameter(name).data = stack
        self.names = tuple(stacks)

    def __len__(self) -> int:
        return len(self.origin.indices)

    @property
    def nbytes(self) -> int:
        """Memory of everything it holds, in bytes."""
        return sum(held.nbytes for held in (*self.parameters(), *self.buffers()))

    def extra_repr(self) -> str:
        return f"{len(self)} networks, seed {self.origin.seed}, {self.nbytes / 1e6:.3g} MB"

    def forward(self, inputs: Any = None, *more: Any, **named: Any) -> Any:
        """What every network answers, (S, N, …): raw outputs, such as logits."""
        return self._answers(() if inputs is None else (inputs, *more), named, _all_of_it)

    def _answers(self, arguments: tuple[Any, ...], named: dict[str, Any], part: Callable[[Any], Any]) -> Any:
        """That part of what every network answers, stacked."""
        stacks: Stacks = {name: self.network.get_parameter(name) for name in self.names}
        ask = partial(self._one, arguments, named, part)
        if torch.compiler.is_exporting() and not self.recurrent:
            return _scanned(ask, stacks)
        size = self._at_once((arguments, named))
        parts = [
            self._side_by_side(ask, {name: stack[start : start + size] for name, stack in stacks.items()})
            for start in range(0, len(self), size)
        ]
        return parts[0] if len(parts) == 1 else tree_map(lambda *rows: torch.cat(rows), *parts)

    def _one(
        self, arguments: Any, named: dict[str, Any], part: Callable[[Any], Any], weights: dict[str, Tensor]
    ) -> Any:
        """What one of them answers."""
        if torch.compiler.is_exporting():  # a scan takes no views of what comes from outside: `source, goal = edges`
            arguments, named = tree_map_only(Tensor, torch.clone, (arguments, named))
        if self._cast:
            weights = {name: weight.to(self._computing.dtype) for name, weight in weights.items()}
        return part(self.under(weights, arguments, named))

    def _at_once(self, inputs: Any) -> int:
        """How many networks to ask at once: as many as the examples leave room for."""
        if self.loop:
            return 1
        if torch.compiler.is_compiling():  # where the number of examples may be any
            return len(self)
        example = next((leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.ndim), None)
        if example is None:
            remedy = "pass tensors with a row per example, or let ensemble.predict(...) convert arrays"
            raise wrong_type("inputs", kind_of(inputs[0]), "hold tensors", remedy)
        return min(len(self), max(1, _ROWS.get(example.device.type, _ROWS["cpu"]) // max(1, len(example))))

    def _side_by_side(self, ask: Ask, stacks: Stacks) -> Any:
        if len(next(iter(stacks.values()))) == 1:
            return tree_map(lambda answer: answer.unsqueeze(0), ask({name: one[0] for name, one in stacks.items()}))
        try:
            return vmap(ask)(stacks)
        except RuntimeError as error:
            error.add_note("Networks of an Ensemble are asked side by side; tb.Ensemble(..., loop=True) asks in turn.")
            raise
        except ValueError as error:
            if "must only return Tensors" in str(error):  # by vmap, of an answer that is no tree of tensors
                error.add_note(_NO_TREE)
            raise


def _scanned(ask: Ask, stacks: Stacks) -> Any:
    """One network after the other by an operation of the program: vmap would fix the number of examples.

    A scan gives tensors alone, none of which may be one of its inputs. The form they are in, such as a `ModelOutput`,
    is seen in an answer of the first network, whose numbers nobody uses: ONNX leaves it out. What torch's compiler does
    not follow through a scan, though it can be exported, is written out.
    """
    from torch._dynamo.exc import TorchDynamoException  # imports the compiler, as the next one
    from torch._higher_order_ops.scan import scan

    def step(carried: Tensor, weights: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
        return carried.clone(), [leaf.clone() for leaf in tree_leaves(ask(weights))]  # a scan wants something carried

    first = ask({name: stack[0] for name, stack in stacks.items()})
    some = next(iter(stacks.values()))
    try:
        return tree_unflatten(scan(step, some.new_zeros(1), stacks)[1], tree_structure(first))
    except TorchDynamoException:
        warnings.warn(_WRITTEN_OUT.format(len(some)), UserWarning, stacklevel=2)
        others = [ask({name: stack[row] for name, stack in stacks.items()}) for row in range(1, len(some))]
        return tree_map(lambda *rows: torch.stack(rows), first, *others)


def _all_of_it(answer: Any) -> Any:
    return answer


def _nothing() -> None:
    """Instead of `flatten_parameters`."""
