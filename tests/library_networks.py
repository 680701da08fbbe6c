"""Networks as people have them, each at a small size and with weights of its own making: nothing is downloaded.

`EVERYDAY` is for what should hold for any of them. Outputs that count are (N, C).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tests.libraries import library

N, CLASSES, WORDS, LENGTH, HIDDEN = 4, 3, 11, 5, 16


@dataclass(frozen=True)
class Everyday:
    """How to build a network, what it takes, and what of its answer counts."""

    factory: Callable[[], nn.Module]
    inputs: Callable[[], Any]
    output: Any = None
    where: str | None = None
    classes: int = CLASSES
    whole: bool = False

    def model(self, **options: Any) -> tb.BayesianModule:
        """Always with the same weights."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return tb.to_bayesian(self.factory(), generator=0, where=self.where, **options)

    def given(self) -> Any:
        """Always the same inputs."""
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return self.inputs()

    def asked(self) -> Any:
        """The same as a prediction wants them."""
        return tb.Whole(self.given()) if self.whole else self.given()

    def targets(self) -> Tensor:
        return torch.arange(N) % self.classes


def _images(size: int = 32) -> Callable[[], Tensor]:
    return lambda: torch.randn(N, 3, size, size)


def _tokens(**more: Callable[[], Any]) -> Callable[[], dict[str, Any]]:
    return lambda: {
        "input_ids": torch.randint(WORDS, (N, LENGTH)),
        "attention_mask": torch.ones(N, LENGTH, dtype=torch.long),
        **{name: value() for name, value in more.items()},
    }


def _timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: library("timm").create_model(name, num_classes=CLASSES, **options)


def _transformer(network: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        transformers = library("transformers")
        return getattr(transformers, network)(getattr(transformers, config)(**options))

    return build


_GPT2 = _transformer(
    "GPT2LMHeadModel", "GPT2Config",
    vocab_size=WORDS, n_positions=16, n_embd=HIDDEN, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
)  # fmt: skip
_BERT = _transformer(
    "BertForSequenceClassification", "BertConfig",
    vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=2, intermediate_size=HIDDEN,
    max_position_embeddings=16, num_labels=CLASSES,
)  # fmt: skip
_T5 = _transformer(
    "T5ForConditionalGeneration", "T5Config",
    vocab_size=WORDS, d_model=HIDDEN, d_kv=8, d_ff=HIDDEN, num_layers=2, num_heads=2, decoder_start_token_id=0,
)  # fmt: skip
_SWIN = _transformer(
    "SwinForImageClassification", "SwinConfig",
    image_size=16, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=2, num_labels=CLASSES,
)  # fmt: skip


def _lora() -> nn.Module:
    peft = library("peft")
    config = peft.LoraConfig(r=2, target_modules=["query", "value"], task_type="SEQ_CLS")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of transformers, about what peft asks it
        return peft.get_peft_model(_BERT(), config)


class Tagger(nn.Module):
    """A class for every word: the answer has the classes last, as loops over sentences want them."""

    def __init__(self, cell: type[nn.RNNBase]) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN, padding_idx=0)
        self.cell = cell(HIDDEN, HIDDEN, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, words: Tensor) -> dict[str, Tensor]:
        states, _ = self.cell(self.words(words))
        return {"states": states, "tags": self.head(states)}


class Encoder(nn.Module):
    """Torch's own transformer."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(HIDDEN, 2, dim_feedforward=HIDDEN, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.encoder(inputs).mean(1))


class UNet(nn.Module):
    """Down, up, and across: a class for every pixel, (N, C, H, W)."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self._block(3, 8), self._block(8, 16)])
        self.bottom = self._block(16, 16)
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 16, 2, stride=2), nn.ConvTranspose2d(8, 8, 2, stride=2)])
        self.merge = nn.ModuleList([self._block(32, 8), self._block(16, 8)])
        self.head = nn.Conv2d(8, CLASSES, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, inputs: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            kept.append(block(inputs if not kept else F.max_pool2d(kept[-1], 2)))
        outputs = self.bottom(F.max_pool2d(kept[-1], 2))
        for up, merge, across in zip(self.up, self.merge, reversed(kept), strict=True):
            outputs = merge(torch.cat([up(outputs), across], dim=1))
        return self.head(outputs)


class GraphNetwork(nn.Module):
    """Two rounds of messages along edges (2, E), one row per node: `edge_index` has no row per example."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = nn.ModuleList([nn.Linear(2 * HIDDEN, HIDDEN), nn.Linear(2 * HIDDEN, CLASSES)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, goal = edge_index
        for number, layer in enumerate(self.rounds):
            messages = torch.zeros_like(x).index_add(0, goal, x[source])
            x = layer(torch.cat([F.relu(x) if number else x, messages], dim=1))
        return x


def _last(answer: Any) -> Tensor:
    """Of a language model: the word that follows."""
    return answer.logits[:, -1]


def _pixel(answer: Tensor) -> Tensor:
    return answer[..., 0, 0]


EVERYDAY: dict[str, Everyday] = {
    "ResNet": Everyday(_timm("resnet10t", channels=[8, 8, 8, 8]), _images()),
    "WideResNet": Everyday(_timm("wide_resnet50_2", layers=[1, 1, 1, 1], channels=[8, 8, 8, 8]), _images()),
    "EfficientNet": Everyday(_timm("efficientnet_b0"), _images()),
    "RegNet": Everyday(_timm("regnetx_002"), _images()),
    "ViT": Everyday(
        _timm("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=HIDDEN, depth=2, num_heads=2), _images()
    ),
    "Swin": Everyday(_SWIN, lambda: {"pixel_values": torch.randn(N, 3, 16, 16)}),
    "LSTM tagger": Everyday(
        lambda: Tagger(nn.LSTM), lambda: torch.randint(WORDS, (N, LENGTH)), output=lambda answer: answer["tags"][:, 0]
    ),
    "GRU": Everyday(
        lambda: Tagger(nn.GRU), lambda: torch.randint(WORDS, (N, LENGTH)), output=lambda answer: answer["tags"].mean(1)
    ),
    "TransformerEncoder": Everyday(Encoder, lambda: torch.randn(N, LENGTH, HIDDEN)),
    "GPT-2": Everyday(_GPT2, _tokens(), output=_last, classes=WORDS),
    "BERT": Everyday(_BERT, _tokens()),
    "T5": Everyday(_T5, _tokens(decoder_input_ids=lambda: torch.randint(WORDS, (N, 2))), output=_last, classes=WORDS),
    "U-Net": Everyday(UNet, _images(8), output=_pixel),
    "graph network": Everyday(GraphNetwork, lambda: (torch.randn(N, HIDDEN), torch.randint(N, (2, 9))), whole=True),
    "LoRA": Everyday(_lora, _tokens(), where="*lora_*"),
}

any_everyday = pytest.mark.parametrize("name", EVERYDAY)
