"""What a saved model means comes back with it: which part of the answer counts, and what the network computes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import same_tensors
from tribayes._tensor_files import read_tensors, write_tensors
from tribayes.nn.twin import plain_name
from tribayes.prediction.saving import facts_of


class Tagger(nn.Module):
    """Answers with two tensors, of which the second is meant."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = self.body(x)
        return {"hidden": hidden, "tags": self.head(hidden)}


def tags(answer: dict[str, Tensor]) -> Tensor:
    return answer["tags"]


X, Y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


def trained(output: Any, net: nn.Module | None = None) -> nn.Module:
    model = tb.to_bayesian(Tagger()) if net is None else net
    tb.ELBO(tb.Categorical(), data_size=6, output=output)(model, X, Y)
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def ask(model: nn.Module) -> Tensor:
    return tb.predict(model, X, 3, progress=False).samples


@pytest.mark.parametrize("output", ["tags", 1, -1])
def test_the_part_that_counts(output: Any, path: Path) -> None:
    model = trained(output)
    tb.save(model, path)
    again = tb.load(path, Tagger())
    assert ask(model).shape == (3, 6, 3)
    assert torch.equal(ask(again), ask(model))
    assert facts_of(path)["output"] == output


def test_a_function_that_chooses_it_has_to_be_given_again(path: Path) -> None:
    model = trained(tags)
    words = r"`output` \(='tags'\) must be a name or an index, .*; pass custom=True here, and output=tags there"
    with pytest.raises(ValueError, match=words):
        tb.save(model, path)
    tb.save(model, path, custom=True)
    with pytest.raises(ValueError, match="a function that chooses the output, 'tags'; pass output=tags, the function"):
        tb.load(path, Tagger())
    assert torch.equal(ask(tb.load(path, Tagger(), output=tags)), ask(model))
    assert torch.equal(ask(tb.load(path, Tagger(), output="tags")), ask(model))
    with pytest.raises(TypeError, match=r"`output` \(=1\.5\) must be a name, an index or a function"):
        tb.load(path, Tagger(), output=1.5)


def test_of_a_file_made_by_hand_nothing_is_believed(path: Path) -> None:
    tb.save(trained("tags"), path)
    tensors, facts = read_tensors(path, "")
    write_tensors(path, tensors, facts | {"output": [1]})
    with pytest.raises(ValueError, match="does not describe a model"):
        tb.load(path, Tagger())


def test_a_file_from_before_these_were_kept_is_read(path: Path) -> None:
    model = trained(None, tb.to_bayesian(nn.Linear(4, 3)))
    tb.save(model, path)
    tensors, facts = read_tensors(path, "")
    write_tensors(path, tensors, {key: value for key, value in facts.items() if key not in ("output", "parts")})
    assert torch.equal(ask(tb.load(path, nn.Linear(4, 3))), ask(model))


def layers(between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), between, nn.Linear(6, 3))


def test_another_kind_of_part_is_warned_of(path: Path) -> None:
    tb.save(torch.compile(tb.to_bayesian(layers(nn.ReLU()))), path)
    for net in (layers(nn.ReLU()), torch.compile(layers(nn.ReLU())), tb.to_bayesian(layers(nn.ReLU()))):
        tb.load(path, net)  # a warning would be an error
    with pytest.warns(UserWarning, match=r"but other parts: 1 \(Tanh, saved ReLU\); it may compute something else"):
        tb.load(path, layers(nn.Tanh()))
    with pytest.warns(UserWarning, match=r"other parts: 1 \(Sequential, saved ReLU\), 1\.0 \(ReLU, saved nothing\)"):
        tb.load(path, layers(nn.Sequential(nn.ReLU())))


def test_bayesian_layers_are_compared_as_they_were_built(path: Path) -> None:
    def built(between: nn.Module) -> nn.Module:
        return nn.Sequential(tb.nn.Linear(4, 6), between, tb.nn.Linear(6, 3))

    tb.save(built(nn.Tanh()), path)
    tb.load(path, built(nn.Tanh()))
    with pytest.warns(UserWarning, match=r"other parts: 1 \(GELU, saved Tanh\)"):
        tb.load(path, built(nn.GELU()))


def test_paths_are_those_of_a_shell(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(path.parent))
    monkeypatch.setenv("USERPROFILE", str(path.parent))
    model = tb.to_bayesian(nn.Linear(4, 3))
    for _ in range(2):  # over an existing file, too
        tb.save(model, os.path.join("~", path.name))
    tb.model_card(model, "~/card.md")
    assert path.is_file()
    assert (path.parent / "card.md").is_file()
    assert same_tensors(tb.load(f"~/{path.name}", nn.Linear(4, 3)).state_dict(), model.state_dict())
    for call in (lambda: tb.save(model, None), lambda: tb.load(model, path), lambda: tb.model_card(model, 3)):
        with pytest.raises(TypeError, match=r"(?s)`path` .* must be a path; pass e\.g\. \"model\.safetensors\""):
            call()
    with pytest.raises(OSError, match=r"No such file or directory; make its folder first, or choose another folder\."):
        tb.save(model, path.parent / "nowhere" / "model.safetensors")


def test_a_device_that_is_not_there_and_a_network_that_is_nowhere(path: Path) -> None:
    tb.save(tb.to_bayesian(nn.Linear(4, 3)), path)
    with pytest.raises(ValueError, match=r"`device` \(='gpu'\) must be a device of this machine; pass e\.g\. \"cpu\""):
        tb.load(path, nn.Linear(4, 3), device="gpu")
    with torch.device("meta"):
        net = nn.Linear(4, 3)
    with pytest.raises(ValueError, match=r"must have memory for its numbers, but is on the meta device; build it on"):
        tb.load(path, net)


def test_the_state_of_a_compiled_model_fits_the_model_itself() -> None:
    model, other = tb.to_bayesian(layers(nn.ReLU())), tb.to_bayesian(layers(nn.ReLU()))
    state = torch.compile(model).state_dict()
    assert all(name.startswith("_orig_mod.") for name in state)
    before = dict(state)
    other.load_state_dict(state)
    assert same_tensors(other.state_dict(), model.state_dict())
    assert same_tensors(dict(state), before)  # the given one is left alone
    torch.compile(other).load_state_dict(state)
    another = tb.to_bayesian(layers(nn.ReLU()), where="0.*")
    with pytest.raises(RuntimeError, match="the checkpoint's random tensors differ from this model's"):
        another.load_state_dict(state)


def test_the_state_of_a_network_with_compiled_parts_fits_one_without_and_the_other_way_round() -> None:
    def network(compiled: bool) -> tb.BayesianModule:
        parts = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
        net = nn.Sequential(torch.compile(parts) if compiled else parts, nn.Linear(6, 3))
        return tb.to_bayesian(torch.compile(net) if compiled else net, prior=tb.Prior(loc="pretrained"))

    for compiled in (True, False):
        model, other = network(compiled), network(not compiled)
        other.load_state_dict(model.state_dict())
        ours, theirs = ({plain_name(name): t for name, t in m.state_dict().items()} for m in (other, model))
        assert same_tensors(ours, theirs)
