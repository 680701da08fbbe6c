"""A tiny text classifier with words of its own: is a review good or bad, and does the network know the words?

Sentences are made by a few rules; the test sentences contain words that training never showed.
"""

# %%
from __future__ import annotations

import os
import random
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import tribayes as tb

EPOCHS = 40 if os.environ.get("TRIBAYES_SMALL") else 150
PICTURE = Path("runs/gallery/text.png")
GOOD, BAD = ["fine", "lovely", "great", "bright", "superb"], ["dull", "awful", "poor", "broken", "bleak"]
THINGS = ["film", "book", "meal", "song", "game"]
WORDS = ["the", "was", "and", "not", *THINGS, *GOOD, *BAD]

# %% [markdown]
# "superb" and "bleak" are in the vocabulary, but in no training sentence.


# %%
def sentence(good: bool, words: int = 4) -> str:
    first, second = random.sample((GOOD if good else BAD)[:words], 2)
    return f"the {random.choice(THINGS)} was {first} and {second}"


def tokens(texts: list[str]) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in text.split()] for text in texts])


random.seed(0), torch.manual_seed(0)
y = torch.arange(200) % 2
x = tokens([sentence(bool(label)) for label in y])


# %%
class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS), 16)
        self.memory = nn.GRU(16, 24, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, text: Tensor) -> Tensor:
        return self.head(self.memory(self.words(text))[1][0])


model = tb.to_bayesian(Reader())
elbo = tb.ELBO(tb.Categorical(), data_size=len(x))
optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
tb.fit(model, elbo, [(x, y)], optimizer, epochs=EPOCHS, progress=False)

# %% [markdown]
# Sentences it can know, one that contradicts itself, and one of words it has never learned.

# %%
asked = ["the film was great and lovely", "the meal was poor and awful", "the song was fine and dull"]
asked += ["the game was superb and superb", "the book was bleak and bleak"]
pred = tb.predict(model, tokens(asked), progress=False)
low, high = pred.interval(0.95)
for number, text in enumerate(asked):
    print(f"{text:32} good: {pred.mean[number, 1]:.2f} in [{low[number, 1]:.2f}, {high[number, 1]:.2f}]")

# %%
figure = Figure(figsize=(8, 2.8), layout="constrained")
ax = figure.subplots()
ax.hlines(range(5), low[:, 1], high[:, 1], linewidth=6, alpha=0.35)
ax.plot(pred.mean[:, 1], range(5), "o")
ax.set(yticks=range(5), yticklabels=asked, xlim=(0, 1), xlabel="probability of a good review, with its 95 % interval")
ax.invert_yaxis()
PICTURE.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(PICTURE, dpi=110)
