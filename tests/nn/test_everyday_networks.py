"""Networks as people have them are converted, trained by a step and asked, without a line about any of them here."""

from __future__ import annotations

import inspect
import threading
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.libraries import library
from tests.library_networks import EVERYDAY, HIDDEN, WORDS, N, any_everyday
from tests.networks import left_as_it_was
from tests.patience import PATIENCE
from tribayes.nn.answer import counted
from tribayes.nn.calling import arguments_of


@cache
def trained(name: str) -> tuple[tb.BayesianModule, tb.ELBOTerms, dict[str, Tensor]]:
    """A model after one step, what the step saw, and the parameters before it."""
    one = EVERYDAY[name]
    model = one.model(tau=0.2)
    before = {key: parameter.detach().clone() for key, parameter in model.named_parameters()}
    elbo = tb.ELBO(tb.Categorical(), data_size=N, output=one.output)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01), momentum=0.9)
    terms = tb.TrainingStep(model, elbo, optimizer, generator=0)(one.given(), one.targets())
    return model, terms, before


@any_everyday
def test_a_step_learns(name: str) -> None:
    model, terms, before = trained(name)
    assert terms.outputs.shape == (N, EVERYDAY[name].classes)
    assert all(value.isfinite().all() for value in terms)
    learned = {key: parameter for key, parameter in model.named_parameters() if parameter.requires_grad}
    assert any(key.startswith("family.") and not torch.equal(p, before[key]) for key, p in learned.items())
    random = {f"module.{key}" for key in model.random_names}
    assert any(not torch.equal(learned[key], before[key]) for key in random)
    frozen = {key: parameter for key, parameter in model.named_parameters() if not parameter.requires_grad}
    assert all(torch.equal(parameter, before[key]) for key, parameter in frozen.items())


@any_everyday
def test_a_draw_is_the_plain_network_with_those_weights(name: str) -> None:
    model, one = trained(name)[0].eval(), EVERYDAY[name]
    draw = model.sample_weights(generator=1)
    plain = tb.to_deterministic(model)
    args, kwargs = arguments_of(one.given())
    with torch.no_grad(), left_as_it_was(model):
        for key, value in draw.items():
            plain.get_parameter(key).copy_(value)
        ours = counted(model.apply_weights(draw, *args, **kwargs), one.output)
        theirs = counted(plain(*args, **kwargs), one.output)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    at_means = counted(model.module(*args, **kwargs), one.output)
    assert not torch.equal(ours, at_means)


@any_everyday
def test_a_prediction_is_the_same_from_several_threads_and_leaves_the_model_alone(name: str) -> None:
    model, one = trained(name)[0], EVERYDAY[name]
    inputs, answers = one.asked(), []

    def ask() -> None:
        answers.append(tb.predict(model, inputs, 3, progress=False).samples)

    with left_as_it_was(model):
        ask()
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert [answer.shape for answer in answers] == [(3, N, one.classes)] * 3
    assert all(torch.equal(answer, answers[0]) for answer in answers)


@any_everyday
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # torch loops inside, rightly
def test_it_is_saved_and_kept_as_it_is(name: str, tmp_path: Path) -> None:
    model, one = trained(name)[0], EVERYDAY[name]
    expected = tb.predict(model, one.asked(), 2, progress=False).samples
    tb.save(model, tmp_path / "model.safetensors", custom=True)  # some choose the output by a function
    again = tb.load(tmp_path / "model.safetensors", one.factory(), output=one.output)
    assert torch.equal(tb.predict(again, one.asked(), 2, progress=False).samples, expected)
    assert torch.equal(tb.Ensemble(model, 2, loop=True).predict(one.asked()).samples, expected)
    torch.testing.assert_close(tb.Ensemble(model, 2).predict(one.asked()).samples, expected)


@any_everyday
def test_the_signature_of_forward_is_the_networks_own(name: str) -> None:
    model = trained(name)[0]
    assert inspect.signature(model.forward) == inspect.signature(model.module.forward)


def test_the_fused_normalisation_of_an_efficientnet_stays_fixed() -> None:
    net = EVERYDAY["EfficientNet"].factory()
    plan = tb.to_bayesian(net, dry_run=True).as_dict()
    kinds = {key: type(net.get_submodule(key.rpartition(".")[0])).__name__ for key in plan}
    fixed = {key for key, row in plan.items() if row["reason"] == "normalisation"}
    assert fixed == {key for key, kind in kinds.items() if kind == "BatchNormAct2d"}
    assert len(fixed) == 98
    assert {row["random"] for key, row in plan.items() if key not in fixed} == {True}


def test_tied_embeddings_of_a_language_model_are_one_random_tensor() -> None:
    model = trained("GPT-2")[0]
    assert model.module.lm_head.weight is model.module.transformer.wte.weight
    assert [key for key in model.random_names if "wte" in key or "lm_head" in key] == ["transformer.wte.weight"]
    draw = model.sample_weights(generator=0)
    with model.using(draw) as network:
        assert network.lm_head.weight is network.transformer.wte.weight is draw["transformer.wte.weight"]


def test_a_text_is_generated_by_one_draw() -> None:
    model = EVERYDAY["GPT-2"].model(tau=0.5).eval()
    words = torch.randint(WORDS, (2, 3), generator=torch.Generator().manual_seed(0))
    options = {"attention_mask": torch.ones_like(words), "min_new_tokens": 6, "max_new_tokens": 6, "pad_token_id": 0}

    def text(seed: int) -> Tensor:
        with model.using(model.sample_weights(generator=seed)) as network:
            return network.generate(words, do_sample=False, **options)

    with left_as_it_was(model):
        texts = [text(seed) for seed in range(6)]
        assert torch.equal(text(0), texts[0])
        assert any(not torch.equal(texts[0], other) for other in texts[1:])
        assert texts[0].shape == (2, 9)
    draw, plain = model.sample_weights(generator=0), tb.to_deterministic(model)
    with torch.no_grad():
        for key, value in draw.items():
            plain.get_parameter(key).copy_(value)
    assert torch.equal(plain.generate(words, do_sample=False, **options), texts[0])
    with pytest.raises(AttributeError, match=r"'generate' is a method of the wrapped GPT2LMHeadModel.*model\.using\("):
        model.generate(words)


def test_of_lora_only_its_own_matrices_are_random() -> None:
    model = trained("LoRA")[0]
    assert len(model.random_names) == 2 * 2 * 2  # A and B of query and value in two layers
    assert all("lora_A" in key or "lora_B" in key for key in model.random_names)
    others = {key: p for key, p in model.module.named_parameters() if key not in model.random_names}
    assert {key for key, p in others.items() if p.requires_grad} == {key for key in others if "modules_to_save" in key}


def test_lora_learns_from_a_start_at_zero_as_the_plain_one_does() -> None:
    """As docs/design.md says: B leaves 1e-6 by the gradient of the data alone, for the default prior does not push."""
    peft = library("peft")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 8, generator=generator)
    y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 0).long()

    def net() -> nn.Module:
        torch.manual_seed(1)
        base = nn.Sequential(nn.Linear(8, 2 * HIDDEN), nn.Tanh(), nn.Linear(2 * HIDDEN, 3))
        return peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["0", "2"], lora_alpha=8))

    plain, model = net(), tb.to_bayesian(net(), where="*lora_*", generator=0)
    ours = [mean for key, mean in model.means() if "lora_B" in key]
    assert all((mean.abs() == 1e-6).all() for mean in ours)
    first: list[list[float]] = []
    for network, objective in (
        (plain, tb.MaximumLikelihood(tb.Categorical())),
        (model, tb.ELBO(tb.Categorical(), data_size=256)),
    ):
        trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
        groups = tb.parameter_groups(model, lr=0.01) if network is model else trainable
        step = tb.TrainingStep(network, objective, torch.optim.Adam(groups, lr=0.01), generator=0)
        first.append([float(step(x, y).nll) for _ in range(11)])
    assert first[0][0] == pytest.approx(first[1][0], abs=1e-4)  # the network it was, to 1e-6 in B
    assert first[0][-1] < 0.9  # from 1.08
    assert first[1][-1] == pytest.approx(first[0][-1], abs=0.05)
    assert all((mean.abs() > 1e-3).float().mean() > 0.9 for mean in ours)
