"""transformers' Trainer with the ELBO: what it learns, evaluates, saves, resumes and predicts; and the stock one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tests.libraries import library
from tests.library_networks import EVERYDAY, WORDS
from tests.networks import same_tensors
from tribayes.inference.validation import Validation

transformers = library("transformers")
library("accelerate")

from tribayes.integrations.transformers import TriBayesTrainer  # noqa: E402 - after what it needs

N, CLASSES = 10, 3


class Network(nn.Module):
    """As transformers has them: labels are an argument, and the answer has a loss then."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, CLASSES)

    def forward(self, values: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.head(self.body(values).tanh())
        answer = {"logits": logits}
        return answer if labels is None else {"loss": F.cross_entropy(logits, labels), **answer}


def examples() -> tuple[Tensor, Tensor]:
    x = torch.randn(N, 4, generator=torch.Generator().manual_seed(1))
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def dataset() -> list[dict[str, Any]]:
    return [{"values": row, "labels": int(label), "not an argument": 7} for row, label in zip(*examples(), strict=True)]


def network() -> tb.BayesianModule:
    torch.manual_seed(0)
    return tb.to_bayesian(Network(), tau=0.3)


def objective(**options: Any) -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), **{"data_size": N, **options})


def arguments(folder: Path, **options: Any) -> Any:
    small = {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 4, "num_train_epochs": 2}
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "save_strategy": "no", "logging_steps": 1}
    return transformers.TrainingArguments(str(folder), **{**small, **quiet, "learning_rate": 0.05, **options})


def trainer(folder: Path, model: nn.Module | None = None, given: dict[str, Any] | None = None, **options: Any) -> Any:
    choices = {"elbo": objective(), "train_dataset": dataset(), "eval_dataset": dataset(), "samples": 20}
    return TriBayesTrainer(model or network(), arguments(folder, **options), **{**choices, **(given or {})})


def test_it_learns_as_a_loop_by_hand(tmp_path: Path) -> None:
    """The same batches, random numbers and rates: the same bits."""
    theirs = trainer(tmp_path, given={"elbo": objective(kl_weight=lambda step: 0.1 * step)}, max_grad_norm=0.0)
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    plain = theirs.compute_loss

    def noting(model: nn.Module, inputs: dict[str, Tensor], **options: Any) -> Tensor:
        seen.append((torch.get_rng_state(), inputs["values"], inputs["labels"]))
        loss: Tensor = plain(model, inputs, **options)
        return loss

    theirs.compute_loss = noting
    theirs.train()
    ours = network()
    optimizer = torch.optim.AdamW(tb.parameter_groups(ours, lr=0.05, weight_decay=0.0), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 - done / 6)
    step = tb.TrainingStep(ours, objective(kl_weight=lambda step: 0.1 * step), optimizer)
    assert len(seen) == 6
    for state, x, y in seen:
        torch.set_rng_state(state)
        terms = step({"values": x}, y)
        schedule.step()
    assert same_tensors(ours.state_dict(), theirs.model.state_dict())
    logged = [entry for entry in theirs.state.log_history if "nll" in entry]
    assert [logged[-1][name] for name in ("loss", "nll", "kl")] == pytest.approx(
        [terms.loss.item(), terms.nll.item(), terms.kl.item()], rel=1e-4
    )


def test_groups_decay_and_rates(tmp_path: Path) -> None:
    one = trainer(tmp_path, weight_decay=0.01)
    groups = {group["name"]: group for group in one.create_optimizer().param_groups}
    assert {name: (group["lr"], group["weight_decay"]) for name, group in groups.items()} == {
        "means": (0.05, 0.01),
        "scales": (0.01, 0.0),
    }
    assert isinstance(one.optimizer, torch.optim.AdamW)


def test_accumulated_batches_count_the_divergence_once(tmp_path: Path) -> None:
    """One step of three batches; the reported loss is their mean NLL and one divergence."""
    options = {"gradient_accumulation_steps": 3, "max_steps": 1}
    one = trainer(tmp_path, given={"elbo": objective(kl_weight=1.0)}, **options)
    seen: list[tuple[float, float]] = []
    plain = one.compute_loss

    def noting(*args: Any, **kwargs: Any) -> Tensor:
        loss = plain(*args, **kwargs)
        seen.append((one._terms.nll.item(), one._terms.kl.item()))
        return loss

    one.compute_loss = noting
    one.train()
    nlls, divergences = zip(*seen, strict=True)
    assert len(nlls) == 3
    assert set(divergences) == {divergences[0]}
    assert one.state.log_history[0]["loss"] == pytest.approx(sum(nlls) / 3 + divergences[0] / N, rel=1e-4)


def test_evaluation_is_that_of_the_averaged_network(tmp_path: Path) -> None:
    asked: list[Any] = []

    def metrics(found: Any) -> dict[str, float]:
        asked.append(found)
        return {"error": float((found.predictions.argmax(-1) != found.label_ids).mean())}

    one, (x, y) = trainer(tmp_path, given={"compute_metrics": metrics}), examples()
    expected = Validation(({"values": x}, y), one.model, one.elbo).nll()
    probabilities = tb.predict(one.model, {"values": x}, 20, progress=False).mean
    found = one.evaluate()
    assert found["eval_loss"] == pytest.approx(expected, rel=1e-6)
    assert found["eval_error"] == pytest.approx((probabilities.argmax(1) != y).double().mean().item())
    numpy.testing.assert_allclose(asked[0].predictions, probabilities, rtol=1e-6)
    numpy.testing.assert_array_equal(asked[0].label_ids, y)


def test_predictions_without_labels(tmp_path: Path) -> None:
    one, (x, _) = trainer(tmp_path), examples()
    found = one.predict([{"values": row} for row in x])
    numpy.testing.assert_allclose(
        found.predictions, tb.predict(one.model, {"values": x}, 20, progress=False).mean, 1e-6
    )
    assert found.label_ids is None
    assert "test_loss" not in found.metrics


def test_a_training_that_was_stopped_ends_with_the_same_bits(tmp_path: Path) -> None:
    options = {"save_strategy": "steps", "save_steps": 4, "eval_strategy": "epoch"}
    given = {"elbo": tb.ELBO(tb.Categorical(label_smoothing=0.1), data_size=N)}
    whole = trainer(tmp_path / "whole", given=given, **options)
    whole.train()
    rest = trainer(tmp_path / "rest", given=given, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert whole.state.global_step == rest.state.global_step == 6
    assert same_tensors(whole.model.state_dict(), rest.model.state_dict())


def test_a_learned_noise_is_saved_and_comes_back(tmp_path: Path) -> None:
    x, _ = examples()
    data = [{"input": row, "labels": row[:2]} for row in x]

    def regression(folder: str) -> Any:
        torch.manual_seed(0)
        elbo = tb.ELBO(tb.Gaussian(noise=0.5, learned=True), data_size=N)
        given = {"elbo": elbo, "train_dataset": data, "eval_dataset": data}
        options = {"save_strategy": "steps", "save_steps": 3, "max_steps": 6}
        return trainer(tmp_path / folder, tb.to_bayesian(nn.Linear(4, 2)), given, **options)

    whole, rest = regression("whole"), regression("rest")
    start = whole.elbo.likelihood.noise.item()
    whole.train()
    rest.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    assert whole.elbo.likelihood.noise.item() != start
    assert same_tensors(whole.elbo.state_dict(), rest.elbo.state_dict())
    assert same_tensors(whole.model.state_dict(), rest.model.state_dict())
    best = regression("best")
    best.state.best_model_checkpoint = str(tmp_path / "whole" / "checkpoint-6")
    best._load_best_model()
    assert same_tensors(whole.elbo.state_dict(), best.elbo.state_dict())


def test_half_precision_is_the_trainers(tmp_path: Path) -> None:
    model, seen = network(), []
    model.module.body.register_forward_hook(lambda *call: seen.append(call[2].dtype))
    one = trainer(tmp_path, model, bf16=True, max_steps=1)
    one.train()
    one.evaluate()
    assert set(seen) == {torch.bfloat16}
    assert one.model.module.body.weight.dtype == torch.float32


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*deprecated:FutureWarning")  # old 5.x know no other name
def test_blocks_that_are_computed_again_meet_the_same_draw(tmp_path: Path) -> None:
    ids = torch.randint(WORDS, (N, 5), generator=torch.Generator().manual_seed(2))
    rows = [{"input_ids": row, "labels": number % 2} for number, row in enumerate(ids)]
    small = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=WORDS, **small)
    learned = []
    for again in (False, True):
        torch.manual_seed(0)
        model = tb.to_bayesian(transformers.BertForSequenceClassification(config))
        theirs = trainer(tmp_path, model, {"train_dataset": rows}, gradient_checkpointing=again)
        theirs.train()
        assert model.module.is_gradient_checkpointing == again
        learned.append(model.state_dict())
    assert same_tensors(*learned)


def test_the_labels_of_a_language_model_are_shifted_as_its_own_loss_does(tmp_path: Path) -> None:
    model = EVERYDAY["GPT-2"].model(tau=1e-4)
    tokens = torch.randint(WORDS, (4, 5), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": row, "labels": row} for row in tokens]
    elbo = tb.ELBO(tb.Categorical(class_axis=-1, ignore_index=-100), data_size=4)
    one = trainer(tmp_path, model, {"elbo": elbo, "train_dataset": data, "eval_dataset": data, "samples": 2})
    mean_network = model.module.eval()
    expected = 4 * mean_network(input_ids=tokens, labels=tokens).loss.item()  # 4 of 5 tokens have a next one
    assert one.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-3)
    assert one.predict(data).predictions.shape == (4, 5, WORDS)
    one.save_model(str(tmp_path / "saved"))  # its first and last layers are tied
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        model.module.transformer.wte.weight.add_(1.0)
    one._load_from_checkpoint(str(tmp_path / "saved"))
    assert same_tensors(before, model.state_dict())


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`label_smoothing_factor` \(=0.1\) must be 0; pass it to the likelihood: tb"):
        trainer(tmp_path, label_smoothing_factor=0.1)
    with pytest.raises(ValueError, match=r"`compute_loss_func` \(=.*\) must be left out; the ELBO is the loss"):
        trainer(tmp_path, given={"compute_loss_func": print})
    with pytest.raises(ValueError, match="must contain a BayesianModule; convert it first"):
        trainer(tmp_path, Network())
    with pytest.warns(UserWarning, match=r"`data_size` \(=5\) is not the number of training examples, 10: the diverg"):
        trainer(tmp_path, given={"elbo": objective(data_size=5)})
    model = network()
    short = torch.optim.SGD(model.module.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="must hold everything that learns, but lacks scales δ"):
        trainer(tmp_path, model, given={"optimizers": (short, None)}).train()


def test_a_stock_trainer_is_noticed(tmp_path: Path) -> None:
    """It takes the network's own loss, which has no divergence; ours never asks for that loss."""
    stock = transformers.Trainer(network(), arguments(tmp_path, label_names=["labels"]), train_dataset=dataset())
    with pytest.warns(UserWarning, match=r"trained by it without the divergence KL\(q ‖ p\).*TriBayesTrainer"):
        stock.train()


def test_a_stock_trainer_finds_the_labels_by_itself(tmp_path: Path) -> None:
    """It looks for them in the class of what it is given, and else leaves `eval_loss` out without a word."""
    stock = transformers.Trainer(network(), arguments(tmp_path), eval_dataset=dataset())
    assert stock.label_names == ["labels"]
    assert stock.evaluate()["eval_loss"] > 0
