"""What plugins remember between the extension points of one pod's cycle. Each plugin keeps its own entry, by name."""

from typing import Any


class CycleState:
    """Lives for one pod. The framework's own bookkeeping does not go in here."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, Any] = {}

    def write(self, key: str, value: Any) -> None:
        self._entries[key] = value

    def read(self, key: str) -> Any:
        """What was written, or None."""
        return self._entries.get(key)

    def clone(self) -> "CycleState":
        """For trying out what would happen. Values that have a ``clone`` are cloned, others are shared."""
        copied = CycleState()
        for key, value in self._entries.items():
            copied._entries[key] = value.clone() if hasattr(value, "clone") else value
        return copied
