"""The two transformers that steps are timed on: GPT-2 of 124 million weights, and ViT-B/16.

Each has a miniature of the same form, so that a quick run on a CPU goes the whole way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class LargeTask:
    """A network, its batch, and how many examples the divergence is spread over."""

    name: str
    title: str
    build: Callable[[], nn.Module]
    examples: Callable[[int], Batch]  # a batch of so many, on the CPU
    batch: int
    data_size: int
    needs: str = ""  # a package beside torch

    def network(self) -> nn.Module:
        """The network, always with the same initial weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.build()

    def examples_on(self, device: torch.device) -> Batch:
        """Made up, for time does not depend on what they say."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            inputs, targets = self.examples(self.batch)
        return inputs.to(device), targets.to(device)


class NextToken(nn.Module):
    """transformers' GPT-2 as a function from tokens (N, T) to logits (N T, V): one row for each token to guess."""

    def __init__(self, tokens: int, vocabulary: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel  # takes seconds, and only this network needs it

        config = GPT2Config(vocab_size=vocabulary, n_positions=tokens, n_embd=width, n_layer=depth, n_head=heads)
        self.network = GPT2LMHeadModel(config)

    def forward(self, tokens: Tensor) -> Tensor:
        # with use_cache=False transformers waits for the GPU, to see whether texts are packed: no graph could be made
        return self.network(input_ids=tokens).logits.flatten(0, 1)


class EncoderBlock(nn.Module):
    """Attention and a two-layer network, each after a LayerNorm and around a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.to_queries_keys_values, self.from_heads = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        joint = self.to_queries_keys_values(self.before_attention(tokens))
        parts = joint.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (3, N, heads, T, width / heads)
        seen = F.scaled_dot_product_attention(*parts.unbind())
        tokens = tokens + self.from_heads(seen.transpose(1, 2).flatten(2))
        return tokens + self.narrow(F.gelu(self.widen(self.before_network(tokens))))


class VisionTransformer(nn.Module):
    """Dosovitskiy et al. (2021): patches as tokens, a class token, learned positions."""

    def __init__(self, side: int, patch: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        first = self.class_token.expand(len(images), -1, -1).to(patches.dtype)
        tokens = torch.cat([first, patches], 1) + self.positions
        return self.head(self.norm(self.blocks(tokens))[:, 0])


def _text(tokens: int, vocabulary: int) -> Callable[[int], Batch]:
    def examples(count: int) -> Batch:
        text = torch.randint(vocabulary, (count, tokens + 1))
        return text[:, :-1].contiguous(), text[:, 1:].flatten()

    return examples


def _images(side: int, classes: int) -> Callable[[int], Batch]:
    return lambda count: (torch.randn(count, 3, side, side), torch.randint(classes, (count,)))


TASKS = (
    LargeTask(
        "gpt-2",
        "GPT-2 124M, 1,024 tokens",
        lambda: NextToken(1024, 50257, 768, 12, 12),
        _text(1024, 50257),
        batch=8,
        data_size=10**9,  # tokens
        needs="transformers",
    ),
    LargeTask(
        "vit-b-16",
        "ViT-B/16, 224×224",
        lambda: VisionTransformer(224, 16, 768, 12, 12, 1000),
        _images(224, 1000),
        batch=64,
        data_size=1_281_167,
    ),
)
MINIATURES = (
    LargeTask(
        "gpt-2", "GPT-2, a miniature", lambda: NextToken(16, 50, 32, 2, 2), _text(16, 50), 2, 1000, "transformers"
    ),
    LargeTask(
        "vit-b-16", "ViT, a miniature", lambda: VisionTransformer(32, 16, 32, 2, 2, 10), _images(32, 10), 2, 1000
    ),
)
