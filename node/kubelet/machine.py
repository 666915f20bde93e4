"""What this machine is: read once from /proc, /sys and /etc. Called in a thread by ``kubelet.py``."""

import os
import platform
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apimachinery import quantity

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts for the Node object and for resource arithmetic."""

    cpus: int
    memory_bytes: int
    storage_bytes: int
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel: str = ""
    os_image: str = ""
    architecture: str = "amd64"
    swap_bytes: int = 0
    hugepages: Mapping[str, int] = field(default_factory=dict)
    cgroup_version: int = 1
    swap_controller: bool = False
    max_pids: int = 0

    @property
    def hugepage_sizes(self) -> tuple[int, ...]:
        """In bytes, the largest first."""
        return tuple(sorted((quantity.parse(name.removeprefix("hugepages-")).value() for name in self.hugepages), reverse=True))


def read_machine(root_dir: Path) -> Machine:
    """Raises OSError only when /proc is missing."""
    memory = _meminfo(Path("/proc/meminfo").read_text())
    machine = platform.machine()
    existing = next(path for path in (root_dir, *root_dir.parents) if path.exists())
    machine_id = _first_line("/etc/machine-id") or _first_line("/var/lib/dbus/machine-id")
    version = 2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1
    return Machine(
        cpus=os.cpu_count() or 1,
        memory_bytes=memory.get("MemTotal", 0),
        storage_bytes=shutil.disk_usage(existing).total,
        machine_id=machine_id,
        system_uuid=_first_line("/sys/class/dmi/id/product_uuid") or machine_id,
        boot_id=_first_line("/proc/sys/kernel/random/boot_id"),
        kernel=os.uname().release,
        os_image=os_release(_text("/etc/os-release")),
        architecture=_ARCHITECTURES.get(machine, machine),
        swap_bytes=memory.get("SwapTotal", 0),
        hugepages=_hugepages(),
        cgroup_version=version,
        swap_controller=_swap_controller(version),
        max_pids=_max_pids(),
    )


def os_release(text: str) -> str:
    """PRETTY_NAME of os-release(5)."""
    for line in text.splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip().strip('"')
    return "Linux"


def default_address(toward: str) -> str:
    """The address of this machine from which ``toward`` (host or host:port) is reached; loopback if there is no route."""
    host = toward.rsplit(":", 1)[0].strip("[]") or toward
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _meminfo(text: str) -> dict[str, int]:
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * 1024
    return found


def _hugepages() -> dict[str, int]:
    """Bytes per page size, under the resource's name."""
    found = {}
    for folder in sorted(Path("/sys/kernel/mm/hugepages").glob("hugepages-*kB")):
        size = int(folder.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        shown = f"{size >> 30}Gi" if size >= 1 << 30 else f"{size >> 20}Mi" if size >= 1 << 20 else f"{size >> 10}Ki"
        pages = _first_line(str(folder / "nr_hugepages"))
        found[f"hugepages-{shown}"] = size * int(pages or 0)
    return found


def _swap_controller(cgroup_version: int) -> bool:
    """Whether the kernel counts swap by cgroup. The file is not in the root of cgroup v2, so ours is asked."""
    if cgroup_version == 1:
        return Path("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists()
    own = _first_line("/proc/self/cgroup").removeprefix("0::").lstrip("/")
    return (Path("/sys/fs/cgroup") / own / "memory.swap.max").exists()


def _max_pids() -> int:
    """How many processes and threads there can be; 0 where the kernel does not say."""
    texts = [_first_line(f"/proc/sys/kernel/{name}") for name in ("pid_max", "threads-max")]
    return min((int(text) for text in texts if text.isdigit()), default=0)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _first_line(path: str) -> str:
    return _text(path).partition("\n")[0].strip()
