"""Words of the command line as a setting: `--set learning_rate=0.02` by the type of the field."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, get_origin, get_type_hints

from tribayes._errors import refusal
from tribayes.experiments.catalogue import FAMILIES
from tribayes.experiments.setting import Setting
from tribayes.experiments.trainer import NETWORKS
from tribayes.posterior.guards import RULES

SHAPES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar-10": (3, 32, 32), "digits": (1, 8, 8)}

_TAKES = {"lenet-100": (1, 28, 28), "lenet-250": (1, 28, 28), "cifar10-full": (3, 32, 32), "digits": (1, 8, 8)}


def parse_changes(words: Sequence[str]) -> dict[str, Any]:
    """["batch=32", "xavier=true"] → {"batch": 32, "xavier": True}."""
    types = {name: kind for name, kind in get_type_hints(Setting).items() if name != "name"}
    changes: dict[str, Any] = {}
    for word in words:
        key, separator, text = word.partition("=")
        if not separator:
            raise refusal("--set", word, "have the form key=value", "write e.g. --set learning_rate=0.02")
        if key not in types:
            raise refusal("--set", key, f"name a field of a setting: {', '.join(types)}", "correct the name")
        if key in changes:
            raise refusal("--set", word, f"give {key!r} only once", "remove one of the two")
        changes[key] = _value(key, text, types[key])
    return changes


def check_setting(setting: Setting) -> Setting:
    """The setting, if a training can be begun with it."""
    _check_choice("family", setting.family, FAMILIES)
    _check_choice("data", setting.data, SHAPES)
    _check_choice("network", setting.network, NETWORKS)
    _check_choice("guards", setting.guards, RULES)
    _check_choice("sampler", setting.sampler, ("auto", "torch", "fused"))
    if _TAKES[setting.network] != SHAPES[setting.data]:
        taken = "×".join(map(str, _TAKES[setting.network]))
        fitting = [name for name, shape in _TAKES.items() if shape == SHAPES[setting.data]]
        requirement = f"take the images of {setting.data!r}, but it takes {taken}"
        raise refusal("network", setting.network, requirement, f"choose {' or '.join(fitting)}")
    for name in ("batch", "learning_rate", "tau"):
        _check(name, getattr(setting, name), getattr(setting, name) > 0, "be positive")
    for name in ("kl_weight", "kl_warmup", "kappa", "policy_gamma", "bias_rate", "validation"):
        _check(name, getattr(setting, name), getattr(setting, name) >= 0, "be at least 0")
    for name in ("momentum", "dropout"):
        _check(name, getattr(setting, name), 0 <= getattr(setting, name) < 1, "lie in [0, 1)")
    return setting


def _value(key: str, text: str, kind: Any) -> Any:
    if kind is str:
        return text
    if kind in (bool, bool | None):
        return _bool(key, text)
    if get_origin(kind) is Mapping:
        return _mapping(key, text)
    try:
        value = kind(text)
    except ValueError as error:
        wanted = "a whole number" if kind is int else "a number"
        raise refusal(f"--set {key}", text, f"be {wanted}", f"write e.g. --set {key}=1") from error
    _check(f"--set {key}", text, math.isfinite(value), "be finite")
    return value


def _bool(key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise refusal(f"--set {key}", text, "be true or false", f"write --set {key}=true")
    return text == "true"


def _mapping(key: str, text: str) -> dict[str, float]:
    example = f"""write e.g. --set '{key}={{"fc*": 0.05}}'"""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise refusal(f"--set {key}", text, "be a JSON object", example) from error
    if not isinstance(value, dict) or not all(type(number) in (int, float) for number in value.values()):
        raise refusal(f"--set {key}", text, "be a JSON object of pattern and number", example)
    return {pattern: float(number) for pattern, number in value.items()}


def _check(name: str, value: object, legal: bool, requirement: str) -> None:
    if not legal:
        raise refusal(name, value, requirement, "change the value")


def _check_choice(name: str, value: str, choices: Sequence[str] | Mapping[str, Any]) -> None:
    if value not in choices:
        raise refusal(name, value, f"be one of {', '.join(choices)}", "correct the word")
