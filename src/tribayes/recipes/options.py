"""Words of the command line as a setting: `--set learning_rate=0.02` by the type of the field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, get_origin, get_type_hints

from tribayes._errors import refusal
from tribayes.posterior.guards import RULES
from tribayes.recipes.examples import SHAPES
from tribayes.recipes.experiments import FAMILIES
from tribayes.recipes.networks import NETWORKS
from tribayes.recipes.setting import Setting, is_of

_WORDS: dict[Any, tuple[str, str]] = {  # for each type of a field: what a value must be, and an example
    int: ("a whole number", "1"),
    float: ("a finite number", "0.5"),
    bool: ("true or false", "true"),
    UnionType: ("true or false", "true"),
    Mapping: ("a JSON object of pattern and finite number", '{"fc*": 0.05}'),
}


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
    takes = NETWORKS[setting.network].takes
    if takes != SHAPES[setting.data]:
        taken = "×".join(map(str, takes))
        fitting = [name for name, each in NETWORKS.items() if each.takes == SHAPES[setting.data]]
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
    """Text as JSON of a field's type; words are taken as they are."""
    if kind is str:
        return text
    wanted, example = _WORDS[get_origin(kind) or kind]
    try:
        value = json.loads(text, parse_constant=_refuse)
    except ValueError:
        value = None
    if value is None or not is_of(kind, value):
        raise refusal(f"--set {key}", text, f"be {wanted}", f"write e.g. --set '{key}={example}'")
    return float(value) if kind is float else value


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and infinity, which JSON does not have


def _check(name: str, value: object, legal: bool, requirement: str) -> None:
    if not legal:
        raise refusal(name, value, requirement, "change the value")


def _check_choice(name: str, value: str, choices: Sequence[str] | Mapping[str, Any]) -> None:
    if value not in choices:
        raise refusal(name, value, f"be one of {', '.join(choices)}", "correct the word")
