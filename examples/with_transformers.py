"""A small BERT with transformers' Trainer: `python examples/with_transformers.py` (pip install '.[transformers]')."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers

import tribayes as tb
from tribayes.integrations.transformers import TriBayesTrainer

WORDS, LENGTH = 20, 8


def sentences(count: int, seed: int) -> Any:
    """Whether words of the first half are in the majority."""
    ids = torch.randint(WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": row, "labels": int((row < WORDS // 2).sum() > LENGTH / 2)} for row in ids]


def main(epochs: int = 12) -> dict[str, float]:
    transformers.set_seed(0)
    config = transformers.BertConfig(vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    net = transformers.BertForSequenceClassification(config)
    train, test = sentences(512, seed=0), sentences(100, seed=1)
    elbo = tb.ELBO(tb.Categorical(), data_size=len(train))
    with TemporaryDirectory() as folder:
        options: dict[str, Any] = {"num_train_epochs": epochs, "per_device_train_batch_size": 32, "learning_rate": 2e-3}
        args = transformers.TrainingArguments(folder, report_to="none", use_cpu=True, disable_tqdm=True, **options)
        trainer = TriBayesTrainer(tb.to_bayesian(net), args, elbo=elbo, train_dataset=train, samples=50)
        trainer.train()
        found: Any = trainer.predict(test)  # averaged probabilities
    wrong = float((found.predictions.argmax(-1) != found.label_ids).mean())
    return {"error": wrong, "nll": found.metrics["test_loss"]}


if __name__ == "__main__":
    print(main())
