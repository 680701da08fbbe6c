"""A run on your own data as plain values: what was asked for, what was chosen by the size of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, get_type_hints

from tribayes._errors import check_decay, check_rate, refusal
from tribayes.inference.objective import check_weight
from tribayes.nn.conversion import DEFAULT_FAMILY
from tribayes.own.target import TASKS
from tribayes.posterior.family import FAMILIES
from tribayes.runs.records import is_of

TABLE, IMAGES = "table", "images"
MLP, RESNET = "mlp", "resnet"
CHANGEABLE = ("width", "depth", "size", "iterations", "batch", "learning_rate", "weight_decay", "kl_weight", "family")

_FEWEST_STEPS, _MOST_STEPS = 2_000, 20_000
_EPOCHS = 20


@dataclass(frozen=True)
class OwnSetting:
    """What determines a run beside its seed. Zeros of sizes, steps and `kl_weight` are chosen by the data."""

    name: str
    kind: str  # "table" or "images"
    data: str  # where it was read from
    task: str  # "classification" or "regression"
    schema: str  # sha256 of schema.json: columns, target, which rows did what
    examples: str  # sha256 of examples.safetensors: all rows as numbers
    network: str = MLP  # "mlp", "resnet", or "module:function"
    width: int = 0
    depth: int = 0
    size: int = 0  # of images, height and width
    iterations: int = 0
    batch: int = 64
    learning_rate: float = 0.01  # falls to 0 along half a cosine
    weight_decay: float = 0.01
    kl_weight: float = 0.0  # of the divergence; 0: the best of a few for a table, else the library's default
    family: str = DEFAULT_FAMILY

    def __post_init__(self) -> None:
        choices = {"kind": (TABLE, IMAGES), "task": TASKS, "family": tuple(FAMILIES)}
        for name, words in choices.items():
            if getattr(self, name) not in words:
                raise refusal(name, getattr(self, name), f"be one of {', '.join(words)}", "correct the word")
        limits = {
            "width": (0, 10_000),
            "depth": (0, 20),
            "size": (0, 512),
            "iterations": (0, 10**9),
            "batch": (1, 10**6),
        }
        for name, (least, most) in limits.items():
            if not least <= getattr(self, name) <= most:
                raise refusal(name, getattr(self, name), f"lie between {least} and {most:,}", "change the value")
        check_rate("learning_rate", self.learning_rate, "change the value")
        check_decay("weight_decay", self.weight_decay, "change the value")
        check_weight(self.kl_weight)

    @property
    def bayesian(self) -> bool:
        """Always, unlike some of the catalogue."""
        return True

    def chosen(self, rows: int) -> OwnSetting:
        """With what was left to the data: more rows get a wider and deeper network and more steps.

        >>> setting = OwnSetting("wine", "table", "wine.csv", "classification", "", "")
        >>> small, large = setting.chosen(100), setting.chosen(20_000)
        >>> (small.width, small.depth, small.iterations, small.batch), (large.width, large.depth, large.iterations)
        ((50, 1, 2000, 64), (200, 2, 6250))
        """
        steps = max(_FEWEST_STEPS, min(_EPOCHS * rows // self.batch, _MOST_STEPS))
        width = 16 if self.network == RESNET else 50 if rows < 1_000 else 100 if rows < 10_000 else 200
        return replace(
            self,
            width=self.width or width,
            depth=self.depth or (1 if self.network == RESNET or rows < 1_000 else 2),
            iterations=self.iterations or steps,
            batch=min(self.batch, rows),
        )

    def changed(self, **changes: Any) -> OwnSetting:
        """The same with some fields changed."""
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for config.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> OwnSetting:
        """One that was stored; every value is checked."""
        kinds = get_type_hints(cls)
        if values.keys() != kinds.keys():
            differing = sorted(values.keys() ^ kinds.keys())
            raise refusal("setting", differing, f"have the fields {sorted(kinds)}", "it is of another version")
        for key, kind in kinds.items():
            if not is_of(kind, values[key]):
                raise refusal(f"setting.{key}", values[key], "be of its type", "the file was changed; restore it")
        return cls(**values)


def changeable() -> dict[str, Any]:
    """What `--set` may change, and its types."""
    return {name: kind for name, kind in get_type_hints(OwnSetting).items() if name in CHANGEABLE}


def is_own(config: Mapping[str, Any]) -> bool:
    """Whether a run's config is of a run on one's own data; those of the catalogue have no kind."""
    return config.get("kind") in (TABLE, IMAGES)
