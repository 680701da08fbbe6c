"""A saved model comes back as it was, in another process or on another network; anything else is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

import tribayes as tb
from tests.networks import NETWORKS, any_family, any_network, bayesian, inputs_of, left_as_it_was, same_tensors
from tests.test_bad_disks import full_disk
from tests.test_written_code import run_blocks
from tribayes._tensor_files import read_tensors, write_tensors
from tribayes.inference.memory import likelihood_of, remember
from tribayes.prediction.calibration import calibrations_of
from tribayes.prediction.saving import facts_of


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@any_network
def test_any_network_comes_back(name: str, path: Path) -> None:
    model, x = bayesian(name), inputs_of(name)
    remember(model, tb.Gaussian())
    tb.save(model, path)
    other = NETWORKS[name].factory().double()
    again = tb.load(path, other)
    assert again.random_names == model.random_names
    assert same_tensors(again.state_dict(), model.state_dict())
    one, two = (tb.predict(each, x, 3, progress=False).samples for each in (model, again))
    assert torch.equal(one, two)


@any_family
def test_family_priors_and_choice_come_back(family: str, path: Path) -> None:
    priors = {"0.weight": tb.Prior(loc="pretrained", scale=0.3), "0.bias": tb.Prior(), "3.*": tb.RelativePrior()}
    model = tb.to_bayesian(net(), family=family, where=["0.*", "3.weight"], prior=priors)
    with torch.no_grad():
        for raw in model.family.parameters():
            raw.add_(torch.randn_like(raw))
    tb.save(model, path)
    again = tb.load(path, net())
    assert type(again.family) is type(model.family)
    assert again.random_names == ("0.weight", "0.bias", "3.weight")
    assert torch.equal(again.kl(), model.kl())
    assert str(again.posterior()) == str(model.posterior())


LIKELIHOODS: dict[str, Callable[[], tb.Likelihood]] = {
    "Categorical": lambda: tb.Categorical(class_weights=[1.0, 2.0, 0.5], label_smoothing=0.1, ignore_index=-100),
    "Bernoulli": tb.Bernoulli,
    "MultiLabel": tb.MultiLabel,
    "Gaussian": lambda: tb.Gaussian(0.3, learned=True),
    "HeteroscedasticGaussian": lambda: tb.HeteroscedasticGaussian(smallest=0.01),
    "StudentT": lambda: tb.StudentT(df=3.0, scale=0.2, df_learned=True),
    "Poisson": tb.Poisson,
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_likelihood_comes_back(name: str, path: Path) -> None:
    likelihood = LIKELIHOODS[name]()
    tb.save(tb.to_bayesian(net()), path, likelihood=likelihood)
    found = likelihood_of(tb.load(path, net()))
    assert type(found) is type(likelihood)
    assert str(found) == str(likelihood)
    assert same_tensors(found.state_dict(), likelihood.state_dict())
    assert [n for n, _ in found.named_parameters()] == [n for n, _ in likelihood.named_parameters()]


def test_what_a_calibration_found_comes_back(path: Path) -> None:
    model, likelihood = tb.to_bayesian(net()), tb.Categorical()
    remember(model, likelihood)
    x, y = torch.randn(60, 4), torch.randint(3, (60,))
    found = tb.calibrate(model, x, y, temperature=True, samples=5, progress=False)
    tb.save(model, path)
    again = tb.load(path, net())
    (kept,) = calibrations_of(again)
    assert kept["tau_factor"] == found.tau_factor
    assert kept["examples"] == 60
    assert float(likelihood_of(again).temperature) == pytest.approx(found.temperature)
    assert torch.equal(tb.predict(model, x, 5, progress=False).mean, tb.predict(again, x, 5, progress=False).mean)
    found.undo()
    assert calibrations_of(model) == []


def test_a_compiled_model_gives_the_same_file(path: Path, tmp_path: Path) -> None:
    model = tb.to_bayesian(net())
    tb.save(model, path)
    tb.save(torch.compile(model), tmp_path / "compiled")
    parts = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
    inside = tb.to_bayesian(nn.Sequential(torch.compile(parts), nn.Linear(6, 3)))
    tb.save(inside, tmp_path / "inside")
    assert (tmp_path / "compiled").read_bytes() == path.read_bytes()
    again = tb.load(tmp_path / "inside", nn.Sequential(nn.Sequential(nn.Linear(4, 6), nn.Tanh()), nn.Linear(6, 3)))
    assert torch.equal(again.module[0][0].weight, parts[0].weight)


def layers() -> nn.Module:
    return nn.Sequential(
        tb.nn.Linear(4, 6, tau=0.2), nn.Tanh(), tb.nn.Linear(6, 3, prior=tb.Prior(), family="diagonal")
    )


def test_a_model_of_bayesian_layers_comes_back(path: Path) -> None:
    model = layers()
    tb.save(model, path)
    other = nn.Sequential(tb.nn.Linear(4, 6), nn.Tanh(), tb.nn.Linear(6, 3))
    with left_as_it_was(other):
        again = tb.load(path, other)
    assert isinstance(again[2], tb.nn.Linear)
    assert same_tensors(again.state_dict(), model.state_dict())
    assert torch.equal(tb.kl(again), tb.kl(model))
    plain = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    with pytest.raises(ValueError, match=r"must have the Bayesian parts 0, 2 of the model .* has none; build it as"):
        tb.load(path, plain)


def test_the_given_network_is_not_touched(path: Path) -> None:
    tb.save(tb.to_bayesian(net()), path)
    other = net()
    random = torch.get_rng_state()
    with left_as_it_was(other):
        tb.load(path, other)
    assert torch.equal(torch.get_rng_state(), random)


def wider() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 5))


WRONG = [
    (wider, r"it has otherwise 3.weight \(5×6 float32, saved 3×6 float32\), 3.bias \(5 float32, saved 3 float32\);"),
    (lambda: net()[:3], "but it lacks 3.bias, 3.weight; build"),
    (lambda: nn.Sequential(*net(), nn.Linear(3, 3)), "but it has besides 4.bias, 4.weight; build"),
    (lambda: net().double(), r"it has otherwise 0.weight \(6×4 float64, saved 6×4 float32\)"),
]


@pytest.mark.parametrize(("build", "words"), WRONG)
def test_another_network_is_refused(build: Callable[[], nn.Module], words: str, path: Path) -> None:
    tb.save(tb.to_bayesian(net()), path)
    other = build()
    with left_as_it_was(other), pytest.raises(ValueError, match=words):
        tb.load(path, other)


class TestBadFiles:
    def refused(self, path: Path, words: str) -> None:
        other = net()
        with left_as_it_was(other), pytest.raises(ValueError, match=words):
            tb.load(path, other)

    def test_none(self, path: Path) -> None:
        self.refused(path, "must be a file; pass what was given to tb.save")

    @pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
    def test_truncated(self, share: float, path: Path) -> None:
        tb.save(tb.to_bayesian(net()), path)
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        self.refused(path, "is torn or no safetensors file .* save the model again")

    def test_sizes_beyond_any_tensor(self, path: Path) -> None:
        header = json.dumps({"a": {"dtype": "F32", "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        self.refused(path, "is torn or no safetensors file .* save the model again")

    def test_more_tensors_than_any_network_has(self, path: Path) -> None:
        entries = b",".join(b'"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(200_001))
        path.write_bytes((len(entries) + 2).to_bytes(8, "little") + b"{%b}" % entries)
        self.refused(path, r"is damaged: it says that it has 200,002 parts; save the model again")

    def test_changed(self, path: Path) -> None:
        tb.save(tb.to_bayesian(net()), path)
        content = bytearray(path.read_bytes())
        content[-5] ^= 1
        path.write_bytes(content)
        self.refused(path, "is damaged: its content does not match its sha256")

    def test_foreign(self, path: Path) -> None:
        from safetensors.torch import save_file

        save_file({"weight": torch.zeros(2)}, path)
        self.refused(path, "is not of tribayes")
        write_tensors(path, {}, {"kind": "checkpoint"})
        self.refused(path, "is a file of tribayes, but no saved model; pass a file that tb.save wrote")

    def test_newer(self, path: Path) -> None:
        tb.save(tb.to_bayesian(net()), path)
        tensors, facts = read_tensors(path, "")
        write_tensors(path, tensors, facts | {"version": 2, "tribayes": "9.0"})
        self.refused(path, "has version 2 of the format, by tribayes 9.0, and this one reads 1; load it with that")

    @pytest.mark.parametrize(("kind", "size"), [("F8_E8M0", 8), ("F6_E2M3", 6), ("F4", 4)])
    def test_numbers_of_kinds_that_the_reader_does_not_know(self, kind: str, size: int, path: Path) -> None:
        """As files of other libraries hold them."""
        header = json.dumps({"x": {"dtype": kind, "shape": [8], "data_offsets": [0, size]}}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
        self.refused(path, r"is (torn or no safetensors file|not of tribayes).*; save the model again")

    def test_a_header_whose_facts_are_null(self, path: Path) -> None:
        header = b'{"__metadata__": null}'
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        self.refused(path, "is not of tribayes: it carries no checksum; save the model again")

    @pytest.mark.parametrize("name", ["likelihood/raw_scale", "model/priors.0.scale"])
    def test_tensors_of_other_shapes_signed_again(self, name: str, path: Path) -> None:
        tb.save(tb.to_bayesian(net(), prior=tb.Prior()), path, likelihood=tb.StudentT())
        tensors, facts = read_tensors(path, "")
        write_tensors(path, tensors | {name: torch.ones(2, 3)}, facts)
        self.refused(path, r"(?s)does not describe a model \(RuntimeError: .*; save the model again")

    @pytest.mark.parametrize("key", ["modules", "likelihood", "shared", "calibrations"])
    def test_made_by_hand(self, key: str, path: Path) -> None:
        tb.save(tb.to_bayesian(net()), path)
        tensors, facts = read_tensors(path, "")
        write_tensors(path, tensors, facts | {key: 7})
        self.refused(path, "does not describe a model")

    def test_a_full_disk_leaves_what_was_there(self, path: Path) -> None:
        model = tb.to_bayesian(net())
        tb.save(model, path)
        before = path.read_bytes()
        with full_disk(), pytest.raises(OSError, match="could not be written"):
            tb.save(model, path, notes={"second": True})
        assert path.read_bytes() == before


class Robust(tb.Likelihood):
    """Somebody's own."""

    predicts = "values"

    def __init__(self, width: float = 1.0) -> None:
        super().__init__()
        self.width = width

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs - targets).abs() / self.width).flatten(1).sum(1)

    def response(self, outputs: Tensor) -> Tensor:
        return outputs


class TestOwnClasses:
    def test_a_family(self, path: Path) -> None:
        family = run_blocks("CONTRIBUTING.md")["OneScale"]
        model = tb.to_bayesian(net(), family=family, prior=tb.Prior())
        words = r"`model` \(='OneScale'\) must be of tribayes's own .* custom=True here, and family=OneScale there"
        with pytest.raises(ValueError, match=words):
            tb.save(model, path)
        assert not path.exists()
        tb.save(model, path, custom=True)
        with pytest.raises(ValueError, match="a family of its own, 'OneScale'; pass family=OneScale, the class itself"):
            tb.load(path, net())
        again = tb.load(path, net(), family=family)
        assert torch.equal(again.family.log_scale, model.family.log_scale)

    def test_a_likelihood(self, path: Path) -> None:
        model = tb.to_bayesian(net())
        with pytest.raises(ValueError, match=r"custom=True here, and likelihood=Robust there"):
            tb.save(model, path, likelihood=Robust())
        tb.save(model, path, likelihood=Robust(2.5), custom=True)
        with pytest.raises(ValueError, match=r"must be Robust, which .* was saved with"):
            tb.load(path, net(), likelihood=tb.Gaussian)
        assert likelihood_of(tb.load(path, net(), likelihood=Robust)).width == 2.5

    def test_a_prior(self, path: Path) -> None:
        model = tb.to_bayesian(net())
        model.priors[0] = nn.Identity()
        with pytest.raises(ValueError, match=r"`prior of 0.weight` .* must be one of tribayes's own; give it"):
            tb.save(model, path)


def test_the_file_says_what_it_is(path: Path) -> None:
    tb.save(tb.to_bayesian(net(), where="3.*"), path, likelihood=tb.Gaussian(), notes={"data": "a", "n": [1, 2]})
    facts = facts_of(path)
    assert (facts["format"], facts["version"], facts["torch"]) == ("tribayes model", 1, torch.__version__)
    assert facts["tribayes"] == tb.__version__
    assert facts["notes"] == {"data": "a", "n": [1, 2]}
    assert facts["modules"][0]["family"] == "diagonal"
    assert [one["name"] for one in facts["modules"][0]["random"]] == ["3.weight", "3.bias"]
    with safe_open(path, framework="pt") as file:  # any reader of safetensors finds the same
        assert json.loads(file.metadata()["tribayes"])["facts"] == facts


def test_tied_weights_are_stored_once(path: Path) -> None:
    tb.save(bayesian("tied weights"), path)
    tensors, facts = read_tensors(path, "")
    assert facts["shared"] == {"module.decoder.weight": "module.embedding.weight"}
    assert "model/module.decoder.weight" not in tensors


class Words(nn.Module):
    """A language model whose two ends are one tensor, or two of one shape, as a setting has it."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.wte, self.body, self.head = nn.Embedding(9, 6), nn.Linear(6, 6), nn.Linear(6, 9, bias=False)
        if tied:
            self.head.weight = self.wte.weight

    def forward(self, words: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(self.wte(words)))
        return logits


@pytest.mark.parametrize("where", [None, "wte.*", "body.*"])
@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (True, "it has apart what was tied: head.weight = wte.weight; build"),
        (False, "it ties what was apart: head.weight = wte.weight; build"),
    ],
)
def test_a_network_tied_otherwise_is_refused(saved: bool, words: str, where: str | None, path: Path) -> None:
    tb.save(tb.to_bayesian(Words(saved), where=where), path)
    again = tb.load(path, Words(saved))
    assert (again.module.head.weight is again.module.wte.weight) is saved
    other = Words(not saved)
    with left_as_it_was(other), pytest.raises(ValueError, match=words):
        tb.load(path, other)


def test_processes_of_one_training_may_all_save(path: Path) -> None:
    """At one time: all but one found the file gone that it was writing."""
    model = tb.to_bayesian(net())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [tb.save(model, path) for _ in range(10)], range(8)))
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert torch.equal(tb.load(path, net()).kl(), model.kl())


def test_notes_are_plain_values(path: Path) -> None:
    with pytest.raises(ValueError, match=r"`notes` .* must be plain values"):
        tb.save(tb.to_bayesian(net()), path, notes={"x": torch.zeros(1)})


def test_it_goes_to_another_device(path: Path) -> None:
    tb.save(tb.to_bayesian(net()), path, likelihood=tb.Gaussian())
    model = tb.load(path, net(), device="meta")
    assert {value.device.type for value in model.state_dict().values()} == {"meta"}
    assert likelihood_of(model).raw_noise.device.type == "meta"


def test_facts_that_name_other_tensors_than_there_are_are_refused(path: Path) -> None:
    """Signed again, as by someone who knows the format: a checksum says nothing then."""
    tb.save(tb.to_bayesian(nn.Linear(3, 2)), path)
    tensors, facts = read_tensors(path, "")
    del facts["modules"][0]["random"][1]
    write_tensors(path, tensors, facts)
    with pytest.raises(
        ValueError, match=r"does not fit this family or network in .*family.delta.*; pass what it was saved"
    ):
        tb.load(path, nn.Linear(3, 2))


def test_an_average_of_weights_gives_the_file_of_its_model(path: Path, tmp_path: Path) -> None:
    model = tb.to_bayesian(net())
    tb.save(model, path)
    tb.save(AveragedModel(model), tmp_path / "averaged")
    assert (tmp_path / "averaged").read_bytes() == path.read_bytes()
