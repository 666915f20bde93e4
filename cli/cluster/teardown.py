"""What a cluster leaves in the kernel, and its removal: mounts, interfaces, packet rules, cgroups. Called by ``down``."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from component import mountinfo

CNI_CHAIN = re.compile(r"^CNI-|^CNI-HOSTPORT-")


def mounts_below(folder: Path) -> list[str]:
    """Mount points below ``folder``, deepest first. One that was mounted over twice stands twice and must be unmounted twice."""
    points = [mount.point for mount in mountinfo.read(str(folder)) if mount.point != str(folder)]
    return sorted(points, key=lambda point: point.count("/"), reverse=True)


def unmount_below(folder: Path) -> list[str]:
    """Unmount everything below ``folder``; returns what could not be."""
    for point in mounts_below(folder):
        if subprocess.run(["umount", "--", point], capture_output=True, check=False).returncode != 0:
            # busy: detach it now, the kernel frees it when its last user goes
            subprocess.run(["umount", "--lazy", "--", point], capture_output=True, check=False)
    return mounts_below(folder)


def delete_interface(name: str) -> bool:
    """Remove a network interface; False when there is none of that name."""
    return subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False).returncode == 0


def delete_cni_chains() -> int:
    """Remove the chains that the CNI plugins (bridge's masquerade, portmap) leave in the nat table; returns how many."""
    saved = subprocess.run(["iptables-save", "-t", "nat"], capture_output=True, text=True, check=False).stdout
    script, count = cni_cleanup(saved.splitlines())
    if count:
        subprocess.run(["iptables-restore", "--noflush", "--wait"], input=script, text=True, capture_output=True, check=False)
    return count


def cni_cleanup(saved: Iterable[str]) -> tuple[str, int]:
    """The iptables-restore input that removes CNI's chains, and how many, from the lines of ``iptables-save -t nat``."""
    chains, jumps = [], []
    for line in saved:
        if line.startswith(":") and CNI_CHAIN.match(line[1:]):
            chains.append(line[1:].split()[0])
        elif line.startswith("-A ") and not CNI_CHAIN.match(line.split()[1]) and re.search(r" -[jg] CNI-", line):
            jumps.append(f"-D {line[3:]}")
    flushes = [f":{chain} - [0:0]" for chain in chains]
    lines = ["*nat", *flushes, *jumps, *(f"-X {chain}" for chain in chains), "COMMIT", ""]
    return "\n".join(lines), len(chains)


def remove_tree(folder: Path) -> None:
    """Delete ``folder``. Raises RuntimeError when something is still mounted in it: a purge never crosses a mount."""
    if left := mounts_below(folder):
        raise RuntimeError(f"still mounted: {', '.join(left)}; unmount it and try again")
    shutil.rmtree(folder, ignore_errors=False)


def runtime_leftovers(marker: str) -> dict[int, str]:
    """Pids of containerd shims that serve ``marker`` (the socket of a private containerd), which outlive it by design, and
    the id of the pod that each serves."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            argv = Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if argv and os.path.basename(argv[0]).startswith("containerd-shim") and marker in argv:
            found[int(entry)] = argv[argv.index("-id") + 1] if "-id" in argv[:-1] else ""
    return found


def cgroup_folders(name: str) -> list[Path]:
    """Where the cgroup ``name`` (absolute, as in ``--cgroup-root``) is, in every hierarchy that has it, also as a slice."""
    points = [mount.point for mount in mountinfo.read() if mount.kind in ("cgroup", "cgroup2")]
    tops = [Path(point + each) for point in points for each in (name, f"/{_slice(name)}")]
    return [top for top in tops if top.is_dir()]


def _slice(name: str) -> str:
    """What systemd calls it, where that makes the cgroups."""
    return name.strip("/").replace("-", "_") + ".slice"


def kill_cgroup(name: str, seconds: float = 5.0) -> int:
    """Kill every process in the cgroup ``name`` and below; returns how many there were at first."""
    deadline = time.monotonic() + seconds
    first: set[int] | None = None
    while pids := {pid for top in cgroup_folders(name) for pid in _processes_in(top)} - {os.getpid()}:
        first = pids if first is None else first
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return len(first or ())


def _processes_in(top: Path) -> list[int]:
    found = []
    for folder, _, files in os.walk(top):
        if "cgroup.procs" in files:
            with contextlib.suppress(OSError):
                found += [int(line) for line in Path(folder, "cgroup.procs").read_text().split()]
    return [pid for pid in found if pid > 0]  # 0 stands for a process that this pid namespace does not show


def remove_cgroups(name: str) -> None:
    """Remove the cgroup ``name`` from every hierarchy; a busy one stays. Slices are systemd's to stop."""
    if any(top.name == _slice(name) for top in cgroup_folders(name)) and Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "stop", _slice(name)], check=False, capture_output=True)
    for top in cgroup_folders(name):
        # a cgroup's files cannot be removed, its directories only from the leaves up
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
