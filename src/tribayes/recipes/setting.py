"""An experiment as data: everything that determines a run but its seed and its device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, get_origin, get_type_hints

from tribayes._errors import is_number, refusal

FREQUENTIST = "frequentist"

_FORMER = {"sampler": ("auto", "torch", "fused")}  # fields of before: the library chooses by itself what they said


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
    compiled: bool | None = None  # the network by torch.compile; None: where that is faster (compiling.py)
    validation: int = 0  # training images held out, and tested on instead of the test set

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise refusal("iterations", self.iterations, "be at least 1", "choose how long to train")
        if self.policy not in ("inverse", "fixed", "cosine"):
            raise refusal("policy", self.policy, 'be "inverse", "fixed" or "cosine"', "correct the word")
        if self.estimator not in ("plain", "antithetic"):
            raise refusal("estimator", self.estimator, 'be "plain" or "antithetic"', "correct the word")

    @property
    def bayesian(self) -> bool:
        return self.family != FREQUENTIST

    def as_dict(self) -> dict[str, Any]:
        return {key: dict(value) if isinstance(value, Mapping) else value for key, value in asdict(self).items()}

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
        unknown = sorted(set(changes) - {item.name for item in fields(self)})
        if unknown:
            known = sorted(item.name for item in fields(self))
            raise refusal("--set", unknown, f"name fields of a setting: {known}", "correct the name")
        return replace(self, **changes)


def is_of(kind: Any, value: Any) -> bool:
    """Whether a value that came from JSON is of the type of a field."""
    if get_origin(kind) is Mapping:
        return isinstance(value, dict) and all(is_of(float, each) for each in value.values())
    if kind is float:
        return is_number(value) and math.isfinite(value)
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))
