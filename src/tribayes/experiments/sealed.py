"""Tensors and facts about them in one safetensors file with a seal, so that a torn or changed file is found out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tribayes._files import store

_KEY = "tribayes"  # of the file's metadata; one, for safetensors writes several in any order


def write_sealed(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors (on the CPU) and facts (plain JSON values) as a unit."""
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    sealed = {"sha256": _seal(contiguous, facts), "facts": facts}
    store(path, save(contiguous, {_KEY: json.dumps(sealed, allow_nan=False)}))


def read_sealed(path: Path, remedy: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts; an error, ending in `remedy`, where the file is not as it was written."""
    content = path.read_bytes()
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise unusable(path, f"is torn or no safetensors file ({error})", remedy) from error
    sealed = _metadata(content).get(_KEY)
    if sealed is None:
        raise unusable(path, "is not of tribayes: it carries no seal", remedy)
    try:
        seal, facts = (json.loads(sealed)[key] for key in ("sha256", "facts"))
    except (ValueError, LookupError, TypeError) as error:
        raise unusable(path, "is damaged: its facts cannot be read", remedy) from error
    if _seal(tensors, facts) != seal:
        raise unusable(path, "is damaged: its content does not match its sha256", remedy)
    return tensors, facts


def unusable(path: Path, problem: str, remedy: str) -> ValueError:
    """The error for a file that must not be used.

    >>> raise unusable(Path("run/checkpoint.safetensors"), "is torn", "start anew in another folder")
    Traceback (most recent call last):
    ValueError: run/checkpoint.safetensors is torn; start anew in another folder.
    """
    return ValueError(f"{path} {problem}; {remedy}.")


def _metadata(content: bytes) -> dict[str, str]:
    """safetensors gives it only for files; `load` has checked the header already."""
    length = int.from_bytes(content[:8], "little")
    found = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    assert isinstance(found, dict)
    return found


def _seal(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    """sha256 of everything that counts: facts, names, types, shapes, values."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
