"""What is served elsewhere answers as here: by `torch.export`, and by ONNX in onnxruntime, for any batch size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import tribayes as tb
from tests.library_networks import EVERYDAY
from tests.networks import NETWORKS

SAMPLES = 4
ANY = {0: Dim.DYNAMIC}  # of the inputs: the number of examples

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's exporter meets its own
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def lenet() -> tb.BayesianModule:
    convolutions = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.Conv2d(3, 5, 3), nn.ReLU()]
    torch.manual_seed(0)
    return tb.to_bayesian(nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(45, 3)), tau=0.3)


def images(count: int) -> Tensor:
    return torch.randn(count, 1, 12, 12, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("strict", [False, True])
def test_a_model_that_draws_anew_says_what_to_export_instead(strict: bool) -> None:
    for model in (lenet(), nn.Sequential(lenet(), nn.Softmax(1))):
        with pytest.raises(Exception, match=r"not draw anew .* where it is exported; export tb.Ensemble\(model\)"):
            export(model.eval(), (images(2),), strict=strict)


def test_recurrent_networks_too() -> None:
    net, x = NETWORKS["GRU"].build(), NETWORKS["GRU"].inputs()
    model, more = tb.to_bayesian(net, tau=0.3), torch.cat([x, -x])
    ensemble, sampling = tb.Ensemble(model, 2), tb.SamplingNetwork(model)
    program = export(ensemble, (x,), dynamic_shapes=(ANY,))
    torch.testing.assert_close(program.module()(more), ensemble(more))
    seed = torch.tensor(3)
    program = export(sampling, (x,), {"seed": seed}, dynamic_shapes={"inputs": ANY, "seed": None})
    torch.testing.assert_close(program.module()(more, seed=seed + 1), sampling(more, seed=seed + 1))


def test_a_graph_whose_edges_are_taken_apart_stays_one_network_for_all_draws() -> None:
    graph, ensemble = EVERYDAY["graph network"], tb.Ensemble(EVERYDAY["graph network"].model(tau=0.3), SAMPLES)
    nodes, edges = {0: Dim.DYNAMIC}, {1: Dim.DYNAMIC}
    program = export(ensemble, graph.given(), dynamic_shapes={"inputs": nodes, "more": (edges,)})
    other = torch.randn(9, 16), torch.randint(9, (2, 31))
    torch.testing.assert_close(program.module()(*other), ensemble(*other))
    assert sum(node.op == "call_function" for node in program.graph.nodes) < 30


class Affine(nn.Module):
    """Unpacks a buffer: torch's exporter follows that, but not the compiler within a scan."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("of_inputs", torch.randn(2, 4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        factor, shift = self.of_inputs
        return {"logits": self.layer(factor * x + shift)}


def test_what_no_scan_follows_is_written_out_once_for_each_draw_and_that_is_said() -> None:
    ensemble = tb.Ensemble(tb.to_bayesian(Affine(), tau=0.3), SAMPLES)
    few, many = torch.randn(2, 4), torch.randn(7, 4)
    with pytest.warns(UserWarning, match=f"written out once for each of the {SAMPLES} draws"):
        program = export(ensemble, (few,), dynamic_shapes=(ANY,))
    torch.testing.assert_close(program.module()(many), ensemble(many))


class Named(nn.Module):
    """As networks of transformers: arguments by name, an answer of several parts, of which one is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, shift: Tensor) -> dict[str, Tensor]:
        return {"logits": self.layer(x) + shift, "x": x}


def named(count: int) -> dict[str, Tensor]:
    return {"x": torch.randn(count, 4), "shift": torch.randn(count, 1)}


def test_arguments_by_name_and_answers_of_several_parts() -> None:
    model, seed = tb.to_bayesian(Named(), tau=0.3), {"seed": torch.tensor(3)}
    for network, own in ((tb.Ensemble(model, SAMPLES), {}), (tb.SamplingNetwork(model), seed)):
        few, many = named(2), named(7)
        torch.testing.assert_close(export(network, (), own | few).module()(**own, **few), network(**own, **few))
        shapes = {"inputs": ANY, "more": (ANY,)} | dict.fromkeys(own)  # torch wants places, for any number of examples
        program = export(network, tuple(few.values()), own, dynamic_shapes=shapes)
        torch.testing.assert_close(program.module()(*many.values(), **own), network(**own, **many))


class TestONNX:
    def run(self, program: Any, path: Path, inputs: Mapping[str, Tensor]) -> Tensor:
        runtime = pytest.importorskip("onnxruntime", reason="runs ONNX programs: pip install 'tribayes[onnx]'")
        program.save(path)
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return torch.from_numpy(session.run(None, {name: value.numpy() for name, value in inputs.items()})[0])

    def export(self, network: nn.Module, shapes: Any, **named: Tensor) -> Any:
        pytest.importorskip("onnxscript", reason="writes ONNX programs: pip install 'tribayes[onnx]'")
        options = {"dynamo": True, "dynamic_shapes": shapes, "verbose": False}
        return torch.onnx.export(network, (images(3),), kwargs=named, **options)

    def test_an_ensemble_in_half_the_memory(self, tmp_path: Path) -> None:  # docs/serving.md has one in full
        pytest.importorskip("onnxscript", reason="writes ONNX programs: pip install 'tribayes[onnx]'")
        ensemble = tb.Ensemble(lenet(), SAMPLES, dtype=torch.bfloat16)
        exported = export(ensemble, (images(3),), dynamic_shapes=(ANY,))
        assert sum(node.op == "call_function" for node in exported.graph.nodes) < 40  # one network for all SAMPLES
        program = torch.onnx.export(exported, dynamo=True, verbose=False)
        for count in (1, 7):
            expected = ensemble(images(count))
            torch.testing.assert_close(exported.module()(images(count)), expected)
            found = self.run(program, tmp_path / "ensemble.onnx", {"inputs": images(count)})
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)

    def test_the_mean_network(self, tmp_path: Path) -> None:
        network = tb.to_deterministic(lenet()).eval()
        program = self.export(network, (ANY,))
        found = self.run(program, tmp_path / "mean.onnx", {program.model.graph.inputs[0].name: images(7)})
        torch.testing.assert_close(found, network(images(7)), rtol=1e-4, atol=1e-5)

    def test_a_network_that_draws_inside(self, tmp_path: Path) -> None:
        network = tb.SamplingNetwork(lenet())
        program = self.export(network, {"inputs": ANY, "seed": None}, seed=torch.tensor(0))
        answers = []
        for seed in torch.tensor([1, 1, 2**40 + 1, -1]):
            found = self.run(program, tmp_path / "sampling.onnx", {"inputs": images(7), "seed": seed})
            torch.testing.assert_close(found, network(images(7), seed=seed), rtol=1e-4, atol=1e-5)
            answers.append(found)
        assert torch.equal(answers[0], answers[1])
        assert (answers[1] != answers[2]).any()

    @pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # of torch, about vmap
    @pytest.mark.parametrize("kind", ["ensemble", "sampling"])
    def test_a_network_of_transformers(self, kind: str, tmp_path: Path) -> None:
        pytest.importorskip("onnxscript", reason="writes ONNX programs: pip install 'tribayes[onnx]'")
        model = EVERYDAY["BERT"].model(tau=0.3)
        network = tb.Ensemble(model, SAMPLES) if kind == "ensemble" else tb.SamplingNetwork(model)
        own = {} if kind == "ensemble" else {"seed": torch.tensor(3)}
        few = tuple(EVERYDAY["BERT"].given().values())
        many = tuple(torch.cat([value, value.flip(1)]) for value in few)
        shapes = {"inputs": ANY, "more": (ANY,)} | dict.fromkeys(own)
        options = {"dynamo": True, "dynamic_shapes": shapes, "verbose": False}
        program = torch.onnx.export(network, few, kwargs=own, **options)
        names = [one.name for one in program.model.graph.inputs]
        found = self.run(program, tmp_path / "bert.onnx", dict(zip(names, (*many, *own.values()), strict=True)))
        torch.testing.assert_close(found, network(*many, **own).logits, rtol=1e-4, atol=1e-5)
