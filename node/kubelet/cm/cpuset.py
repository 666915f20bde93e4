"""Sets of CPUs or of NUMA nodes in the kernel's list format: ``0-3,8``. Pure."""

from collections.abc import Iterable

CpuSet = frozenset[int]


def parse(text: str) -> CpuSet:
    """Raises ValueError for anything else. An empty text is the empty set."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        start, end = int(first), int(last if dash else first)
        if not 0 <= start <= end:
            raise ValueError(f"{part!r} is no range of CPUs")
        found.update(range(start, end + 1))
    return frozenset(found)


def show(cpus: Iterable[int]) -> str:
    """The shortest list, ascending."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
