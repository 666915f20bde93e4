"""Short, stable names for pod templates: ``pod-template-hash``. Used by deployment and daemonset."""

from collections.abc import Mapping
from typing import Any

import orjson

# No vowels, and none of 0 1 3: a hash can neither spell a word nor be misread.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF


def fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def safe_encode(text: str) -> str:
    return "".join(ALPHABET[ord(letter) % len(ALPHABET)] for letter in text)


def template_hash(template: Mapping[str, Any], collision_count: int | None) -> str:
    """Upstream's recipe over canonical JSON (its own input, a dump of Go structures, has no meaning elsewhere)."""
    data = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    if collision_count is not None:
        data += collision_count.to_bytes(8, "little")
    return safe_encode(str(fnv1a(data)))
