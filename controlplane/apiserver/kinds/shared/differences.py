"""What differs between two specs, as lines for the message that refuses a change."""

import json
from collections.abc import Iterator
from typing import Any


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """``- field: was`` and ``+ field: is``, deepest differing fields only."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            if old.get(key) != new.get(key):
                yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (left, right) in enumerate(zip(old, new, strict=True)):
            if left != right:
                yield from differences(left, right, f"{path}[{position}]")
    else:
        yield f"- {path}: {json.dumps(old)}"
        yield f"+ {path}: {json.dumps(new)}"


def change_text(old: Any, new: Any) -> str:
    """The lines, each after a line break, to follow a sentence."""
    return "".join(f"\n  {line}" for line in differences(old, new))
