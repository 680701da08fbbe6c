"""The experiments by name. What the paper states in its Section IV is stated here, once."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from tribayes._errors import refusal
from tribayes.recipes.setting import FAMILIES, FREQUENTIST, Setting


def _with_each_family(
    label: str, data: str, network: str, given: dict[str, Any], plain: dict[str, Any]
) -> list[Setting]:
    """The experiments on one data set with one network; `plain` is what the frequentist network has otherwise.

    They are called "label-diagonal" and so on; the paper's own family goes without saying.
    """
    names = {family: f"{label}-{family.replace('_', '')}" for family in FAMILIES} | {"tridiagonal": label}
    values = {FREQUENTIST: given | plain}
    return [Setting(names[family], data, network, family, **values.get(family, given)) for family in FAMILIES]


_LENET = {"iterations": 100_000, "batch": 64, "learning_rate": 0.01, "policy": "inverse", "kl_weight": 0.01}
_LENET_PLAIN = {"weight_decay": {"*": 0.0005}, "dropout": 0.5, "bias_rate": 2.0}
_CIFAR: dict[str, Any] = {
    "iterations": 40_000,
    "batch": 100,
    "learning_rate": 0.001,
    "policy": "fixed",
    "kl_weight": 0.1,
    "prior_scale": {"fc.*": 0.05},
}
_CIFAR_PLAIN = {
    "iterations": 100_000,
    "weight_decay": {"fc.weight": 1.0, "fc.bias": 0.0, "*": 0.004},  # Caffe's definition spares this bias
    "bias_rate": 2.0,
    "prior_scale": {},
}
_DIGITS = _LENET | {"iterations": 2_000, "learning_rate": 0.02, "policy_gamma": 0.001}
# "ours": chosen on held-out training images (reproduction/); as many iterations as the frequentist network
_OURS: dict[str, Any] = {"policy": "cosine", "learning_rate": 0.008, "prior_scale": {"*": 0.016}, "iterations": 100_000}

_ALL = [
    *_with_each_family("digits", "digits", "digits", _DIGITS, {"weight_decay": {"*": 0.0005}}),
    *_with_each_family("mnist-lenet100", "mnist", "lenet-100", _LENET, _LENET_PLAIN),
    *_with_each_family("mnist-lenet250", "mnist", "lenet-250", _LENET, _LENET_PLAIN),
    *_with_each_family("fashion-lenet100", "fashion-mnist", "lenet-100", _LENET, _LENET_PLAIN),
    *_with_each_family("cifar10", "cifar-10", "cifar10-full", _CIFAR, _CIFAR_PLAIN),
    Setting("cifar10-ours", "cifar-10", "cifar10-full", **_CIFAR | _OURS),
]

EXPERIMENTS: dict[str, Setting] = {setting.name: setting for setting in _ALL}


def experiment(name: str) -> Setting:
    """The experiment of that name."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = get_close_matches(name, EXPERIMENTS, 1)
    hint = f"did you mean {near[0]!r}?" if near else "`tribayes experiments` lists them"
    requirement = "name an experiment, or be a table (.csv, .parquet) or a folder of images that is there"
    raise refusal("NAME", name, requirement, hint)
