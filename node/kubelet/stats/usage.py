"""Usage of the node and of its containers as values, and the contract of who tells it. Read by ``server/metrics.py``."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """One running container. ``cpu_nanoseconds`` is cumulative; 0 where the runtime says nothing."""

    namespace: str
    pod: str
    pod_uid: str
    name: str
    timestamp_ns: int
    cpu_nanoseconds: int = 0
    cpu_nanocores: int = 0
    memory_working_set: int = 0
    memory_usage: int = 0
    memory_rss: int = 0
    rootfs_used: int = 0
    rootfs_inodes: int = 0
    started_at: datetime | None = None
    id: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    name: str
    cpu_nanoseconds: int
    memory_working_set: int
    memory_available: int
    boot: datetime


class StatsSource(Protocol):
    """Where usage comes from."""

    @property
    def node_name(self) -> str: ...

    async def containers(self) -> Sequence[ContainerUsage]: ...


def read_node(name: str, stat: str, meminfo: str) -> NodeUsage:
    """From the texts of ``/proc/stat`` and ``/proc/meminfo``. Pure."""
    lines = {line.split()[0]: line.split()[1:] for line in stat.splitlines() if line}
    ticks = [int(value) for value in lines["cpu"][:8]]
    busy = sum(ticks) - ticks[3] - ticks[4]  # all but idle and iowait
    memory = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in meminfo.splitlines() if line}
    inactive = memory.get("Inactive(file)", 0)
    used = memory["MemTotal"] - memory["MemFree"]
    boot = datetime.fromtimestamp(int(lines["btime"][0]), UTC)
    hertz = os.sysconf("SC_CLK_TCK")
    return NodeUsage(name, busy * 10**9 // hertz, max(0, used - inactive), memory.get("MemAvailable", 0), boot)


def read_proc() -> tuple[str, str]:
    """The two texts for :func:`read_node`."""
    with open("/proc/stat") as stat, open("/proc/meminfo") as meminfo:
        return stat.read(), meminfo.read()
