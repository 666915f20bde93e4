"""State files of the resource managers, in upstream's format: a restarted kubelet, ours or upstream's, adopts what was given.

The checksum is upstream's: FNV-1a over the way in which Go shows the value. The managers render that text; its grammar is
that of ``%#v`` in the spew library.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


class CheckpointError(ValueError):
    """The file cannot be used; the text says why, and what to do."""


def checksum(shown: str) -> int:
    value = _FNV_OFFSET
    for byte in shown.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def go_map(entries: Mapping[Any, str]) -> str:
    """Keys in order; their values are rendered already."""
    return "map[" + " ".join(f"{key}:{entries[key]}" for key in sorted(entries)) + "]"


def go_slice(items: Sequence[Any]) -> str:
    return "[" + " ".join(str(item) for item in items) + "]"


def read(path: Path) -> dict[str, Any] | None:
    """The document; None if there is none yet. Raises CheckpointError, OSError."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"not text: {error}") from None
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise CheckpointError("not a JSON object")
    return document


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Whole or not at all, also when the machine loses power. Raises OSError."""
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        file.write(json.dumps(document, separators=(",", ":")))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def restore(path: Path, manager: str, understood: Callable[[dict[str, Any]], _T], new: Callable[[], _T]) -> _T:
    """What a manager has kept in the file; a new state if there is none. Raises CheckpointError, OSError."""
    try:
        document = read(path)
        return new() if document is None else understood(document)
    except CheckpointError as error:
        raise CheckpointError(
            f"could not restore state from checkpoint: {error}, please drain this node and delete the {manager} manager "
            f'checkpoint file "{path}" before restarting Kubelet'
        ) from None


def verify(document: Mapping[str, Any], *shown: str) -> None:
    """Raise CheckpointError unless the checksum is that of one of those texts. 0 is none, from very old kubelets."""
    found = document.get("checksum")
    if found and found not in {checksum(text) for text in shown}:
        raise CheckpointError("checkpoint is corrupted")
