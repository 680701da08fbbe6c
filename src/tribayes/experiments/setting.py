"""An experiment as data: everything that determines a run but its seed and its device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from tribayes._errors import refusal

FREQUENTIST = "frequentist"


@dataclass(frozen=True)
class Setting:
    """One row of the catalogue. Fields with a star in the comment are not stated in the paper."""

    name: str
    data: str  # "mnist", "fashion-mnist", "cifar-10" or "digits"
    network: str  # a key of trainer.NETWORKS
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
    estimator: str = "plain"  # one draw a step; "antithetic": a draw and its mirror image
    sampler: str = "auto"  # "torch", "fused"
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
    def defaults(cls) -> dict[str, Any]:
        """What fields have that are not given."""
        return {key: value for key, value in cls("", "", "").as_dict().items() if value != ""}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Setting:
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise refusal("setting", unknown, f"have only the fields {sorted(known)}", "it is of another version")
        return cls(**values)

    def changed(self, **changes: Any) -> Setting:
        """The same with some fields changed."""
        unknown = sorted(set(changes) - {item.name for item in fields(self)})
        if unknown:
            known = sorted(item.name for item in fields(self))
            raise refusal("--set", unknown, f"name fields of a setting: {known}", "correct the name")
        return replace(self, **changes)
