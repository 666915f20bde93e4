"""Kernel settings under /proc/sys/net; real and fake."""

from pathlib import Path
from typing import Protocol


class Sysctl(Protocol):
    """Reads and writes settings named as in ``net/ipv4/ip_forward``."""

    def get(self, name: str) -> str | None:
        """The value, None where the kernel has no such setting."""
        ...

    def set(self, name: str, value: str) -> None:
        """:raises OSError: when it cannot be written."""
        ...


class RealSysctl:
    """The settings of the network namespace of the calling thread."""

    def __init__(self, root: Path = Path("/proc/sys")) -> None:
        self._root = root

    def get(self, name: str) -> str | None:
        try:
            return (self._root / name).read_text().strip()
        except OSError:
            return None

    def set(self, name: str, value: str) -> None:
        (self._root / name).write_text(value)


class FakeSysctl:
    def __init__(self, values: dict[str, str] | None = None) -> None:
        self.values = values or {}

    def get(self, name: str) -> str | None:
        return self.values.get(name)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value
