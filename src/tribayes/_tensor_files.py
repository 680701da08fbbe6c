"""Tensors and facts about them in one safetensors file with a checksum: a torn or changed file is found out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes._files import MOST_JSON, store

_MOST_PARTS = 200_000  # of a file: its tensors, and what is said of them; each takes a kilobyte or two to be read
_METADATA = "tribayes"  # key of the file's metadata; one, for safetensors writes several in any order


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], *, contested: bool = False
) -> None:
    """Write tensors (on the CPU, no two of one memory) and facts (plain JSON values) as a unit, as `store` does."""
    from safetensors.torch import save  # `import tribayes` brings in torch alone

    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    content = {"sha256": digest(contiguous, facts), "facts": facts}
    store(path, save(contiguous, {_METADATA: json.dumps(content, allow_nan=False)}), contested=contested)


def read_tensors(path: Path, remedy: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts; an error, ending in `remedy`, where the file is not as it was written."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")  # of the header
    if MOST_JSON < length <= len(content):
        raise unusable(path, f"is damaged: it says {length / 1e6:,.0f} MB of itself", remedy)
    if (parts := content.count(b"{", 8, 8 + length)) > _MOST_PARTS:
        raise unusable(path, f"is damaged: it says that it has {parts:,} parts", remedy)
    try:
        tensors = load(content)
    # KeyError for kinds of numbers that torch does not have, RuntimeError for sizes beyond it
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise unusable(path, f"is torn or no safetensors file ({error})", remedy) from error
    written = (json.loads(content[8 : 8 + length]).get("__metadata__") or {}).get(_METADATA)
    if written is None:
        raise unusable(path, "is not of tribayes: it carries no checksum", remedy)
    try:
        checksum, facts = (json.loads(written)[key] for key in ("sha256", "facts"))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise unusable(path, "is damaged: its facts cannot be read", remedy) from error
    if not isinstance(facts, dict) or digest(tensors, facts) != checksum:
        raise unusable(path, "is damaged: its content does not match its sha256", remedy)
    return tensors, facts


def plain_values(argument: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as they will be read again: a tuple comes back as a list; what JSON does not have is refused."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(values), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise refusal(argument, values, f"be plain values ({error})", "use numbers, words and lists") from error
    return plain


def unusable(path: Path, problem: str, remedy: str) -> ValueError:
    """The error for a file that must not be used."""
    return ValueError(f"{path} {problem}; {remedy}.")


def digest(tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None = None) -> str:
    """sha256 of the facts, if any, and of the tensors' names, types, shapes and values."""
    found = hashlib.sha256(b"" if facts is None else json.dumps(facts, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
