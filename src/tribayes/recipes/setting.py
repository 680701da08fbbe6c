"""An experiment as data: everything that determines a run but its seed and its device; and `--set key=value`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import UnionType
from typing import Any, get_origin, get_type_hints

from tribayes._errors import refusal
from tribayes.posterior.parametrisation import RULES
from tribayes.recipes.networks import NETWORKS
from tribayes.runs.records import is_of

FREQUENTIST = "frequentist"
FAMILIES = (FREQUENTIST, "tridiagonal", "diagonal", "mean_field")
SHAPES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar-10": (3, 32, 32), "digits": (1, 8, 8)}

_FORMER = {"sampler": ("auto", "torch", "fused")}  # fields of before: the library chooses by itself what they said

_WORDS: dict[Any, tuple[str, str]] = {  # for each type of a field: what a value must be, and an example
    int: ("a whole number", "1"),
    float: ("a finite number", "0.5"),
    bool: ("true or false", "true"),
    UnionType: ("true or false", "true"),
    Mapping: ("a JSON object of pattern and finite number", '{"fc*": 0.05}'),
}
_CHOICES: dict[str, Any] = {
    "family": FAMILIES,
    "data": SHAPES,
    "network": NETWORKS,
    "guards": RULES,
    "policy": ("inverse", "fixed", "cosine"),
    "estimator": ("plain", "antithetic"),
}
_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {  # requirement → how to check it, and for which fields
    "be at least 1": (lambda value: value >= 1, "iterations"),
    "be positive": (lambda value: value > 0, "batch learning_rate tau"),
    "be at least 0": (lambda value: value >= 0, "kl_weight kl_warmup kappa policy_gamma bias_rate validation"),
    "lie in [0, 1)": (lambda value: 0 <= value < 1, "momentum dropout"),
}


@dataclass(frozen=True)
class Setting:
    """One experiment. Fields with a star in the comment are not stated in the paper."""

    name: str
    data: str  # "mnist", "fashion-mnist", "cifar-10" or "digits"
    network: str  # a key of networks.NETWORKS
    family: str = "tridiagonal"  # or "diagonal", "mean_field", "frequentist"
    iterations: int = 100_000
    batch: int = 64
    learning_rate: float = 0.01
    policy: str = "inverse"  # lr (1 + policy_gamma · i)^−0.75; "fixed"; "cosine" to zero
    policy_gamma: float = 0.0001
    momentum: float = 0.9
    kl_weight: float = 0.01  # ν = kl_weight / training images
    kl_warmup: int = 0  # iterations over which the KL comes in linearly
    kappa: float = 50.0
    prior_scale: Mapping[str, float] = field(default_factory=dict)  # by name pattern; 1 where none matches
    tau: float = 0.05  # * initial
    gamma: float = 0.0400053301  # * initial |γ|, with a random sign: just outside the paper's guard
    scale_rate: float = 1.0  # * learning rate multiplier of δ
    bias_rate: float = 1.0  # * learning rate multiplier of biases
    xavier: bool = False  # * CIFAR-10: start from Caffe's Xavier rule instead of small Gaussians
    weight_decay: Mapping[str, float] = field(default_factory=dict)  # L2 penalty, by name pattern
    dropout: float = 0.0  # frequentist only
    guards: str = "paper"
    estimator: str = "plain"  # one draw per step; "antithetic": a draw and its mirror image
    compiled: bool | None = None  # the network by torch.compile; None: where that is faster (recipe_trainer.py)
    validation: int = 0  # training images held out, and tested on instead of the test set

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise refusal(name, getattr(self, name), f"be one of {', '.join(choices)}", "correct the word")
        shape, takes = SHAPES[self.data], NETWORKS[self.network].takes
        if takes != shape:
            fitting = [name for name, each in NETWORKS.items() if each.takes == shape]
            requirement = f"take the images of {self.data!r}, but it takes {'×'.join(map(str, takes))}"
            raise refusal("network", self.network, requirement, f"choose {' or '.join(fitting)}")
        for requirement, (is_legal, names) in _RANGES.items():
            for name in names.split():
                if not is_legal(getattr(self, name)):
                    raise refusal(name, getattr(self, name), requirement, "change the value")

    @property
    def bayesian(self) -> bool:
        return self.family != FREQUENTIST

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Setting:
        """A setting that was stored; a field that came later had its default's meaning before."""
        kept = {key: value for key, value in values.items() if value not in _FORMER.get(key, ())}
        kinds = get_type_hints(cls)
        unknown = sorted(set(kept) - set(kinds))
        if unknown:
            raise refusal("setting", unknown, f"have only the fields {sorted(kinds)}", "it is of another version")
        for key in ("name", "data", "network", *kept):
            if key not in kept or not is_of(kinds[key], kept[key]):
                raise refusal(f"setting.{key}", kept.get(key), "be of its type", "the file was changed; restore it")
        return cls(**kept)

    def changed(self, **changes: Any) -> Setting:
        """The same with some fields changed."""
        return replace(self, **changes)


def parse_changes(words: Sequence[str], types: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """["batch=32", "xavier=true"] → {"batch": 32, "xavier": True}, by the types of a setting's fields, or of others."""
    types = types or {name: kind for name, kind in get_type_hints(Setting).items() if name != "name"}
    changes: dict[str, Any] = {}
    for word in words:
        key, separator, text = word.partition("=")
        if not separator:
            raise refusal("--set", word, "have the form key=value", "write e.g. --set learning_rate=0.02")
        if key not in types:
            raise refusal("--set", key, f"name a field of a setting: {', '.join(types)}", "correct the name")
        if key in changes:
            raise refusal("--set", word, f"give {key!r} only once", "remove one of the two")
        changes[key] = text if types[key] is str else _value(key, text, types[key])
    return changes


def _value(key: str, text: str, kind: Any) -> Any:
    """Text as JSON of a field's type."""
    wanted, example = _WORDS[get_origin(kind) or kind]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or brackets nested thousands deep
        value = None
    if value is None or not is_of(kind, value):
        raise refusal(f"--set {key}", text, f"be {wanted}", f"write e.g. --set '{key}={example}'")
    return float(value) if kind is float else value
