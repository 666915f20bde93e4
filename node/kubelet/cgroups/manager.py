"""Makes and removes pod cgroups on the real hierarchy, v1 or v2. Fulfils ``runtime.host.PodCgroups``.

With the systemd driver a cgroup is a slice, and systemd makes it (``systemd.py``). Limits are told to systemd, which would
otherwise undo them when it reloads, and are then written as well: systemd rounds the CPU quota.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from apimachinery.objects import qos
from apimachinery.objects.requests import CPU, MEMORY, amount
from component import logs
from component.errors import OperatorError
from node.kubelet.cgroups import plan, systemd
from node.kubelet.config import KubeletConfig
from node.kubelet.config_resources import COMPRESSIBLE, KUBE, SYSTEM
from node.kubelet.runtime.resources import Node

MOUNT = Path("/sys/fs/cgroup")
_log = logs.get(__name__)


class Cgroups:
    """One per kubelet."""

    def __init__(
        self,
        config: KubeletConfig,
        mount: Path = MOUNT,
        allocatable: Callable[[], Mapping[str, str]] = dict,
        pods_memory: int | None = None,
        pods_pids: int | None = None,
        node: Node | None = None,
        unlimited: Callable[[Mapping[str, Any]], bool] = lambda pod: False,
        slices: systemd.Slices | None = None,
    ) -> None:
        """``pods_memory``, ``pods_pids``: bytes, and processes, that all pods together may have; None does not bound them.
        ``unlimited``: whether a pod needs no quota because it owns CPUs. ``slices``: who makes them when the driver is
        systemd."""
        self._slices = slices if config.cgroup_driver == "systemd" else None
        self._config = config
        self._pods_memory = pods_memory
        self._pods_pids = pods_pids
        self._node = node or Node(quota=config.cpu_cfs_quota)
        self._unlimited = unlimited
        self._mount = mount
        self._allocatable = allocatable
        self._weights: Mapping[PurePosixPath, plan.Limits] = {}
        self.version = 2 if (mount / "cgroup.controllers").exists() else 1

    async def ensure(self, pod: Mapping[str, Any]) -> str:
        if not self._config.cgroups_per_qos:
            return self._config.cgroup_root
        path = plan.pod_path(self._config.cgroup_root, pod)
        limits = plan.pod_limits_of(pod, self._config.pod_pids_limit, self._node, unlimited=self._unlimited(pod))
        await self._have(path, limits)
        return str(self.real(path))

    def real(self, path: PurePosixPath) -> PurePosixPath:
        """Where a cgroup lies in the hierarchy, whose name is as with cgroupfs."""
        return path if self._slices is None else systemd.slice_path(path)

    async def _have(self, path: PurePosixPath, limits: plan.Limits) -> None:
        if self._slices is None:
            await asyncio.to_thread(self._make, path, limits)
            return
        await self._slices.make(systemd.slice_name(path), systemd.properties(limits, self.version))
        await asyncio.to_thread(self._limit, systemd.slice_path(path), limits)

    async def remove(self, uid: str) -> None:
        if not self._config.cgroups_per_qos:
            return
        if self._slices is not None:
            for path in plan.candidate_paths(self._config.cgroup_root, uid):
                if any(_below(root, self.real(path)).is_dir() for root in self._roots()):
                    await self._slices.stop(systemd.slice_name(path))
        await asyncio.to_thread(self._remove, uid)

    async def weigh(self, taken: Sequence[Mapping[str, Any]]) -> None:
        """Bring the weights of the classes in line with the pods that were taken; called now and then."""
        if not self._config.cgroups_per_qos:
            return
        wanted = plan.qos_limits(taken, self._whole())
        if wanted != self._weights:
            self._weights = wanted
            root = PurePosixPath("/", self._config.cgroup_root.strip("/"))
            for path, limits in wanted.items():
                await self._have(root.joinpath(*path.parts[1:]), limits)

    def _whole(self) -> plan.Whole:
        offered = self._allocatable()
        return plan.Whole(
            milli=amount(CPU, offered.get(CPU, "0")),
            memory=self._pods_memory,
            pids=self._pods_pids,
            reserve=int(self._config.qos_reserved.get(MEMORY, "0%").removesuffix("%")),
            allocatable=amount(MEMORY, offered.get(MEMORY, "0")),
        )

    async def enforce(self) -> Sequence[str]:
        """Bound all pods together, and what things are reserved for; what to tell as events. Called once, at start.

        Raises OperatorError for a reserved cgroup that is not there: whoever names one must make it.
        """
        notes = []
        if self._config.cgroups_per_qos:
            try:
                await self._have(plan.qos_path(self._config.cgroup_root, qos.GUARANTEED), plan.root_limits(self._whole()))
            except OSError as error:
                raise OperatorError(f"cannot make the cgroup of all pods: {error}") from None
            notes.append("Updated Node Allocatable limit across pods")
        system, kube = self._config.reservations()
        named = {SYSTEM: (self._config.system_reserved_cgroup, system), KUBE: (self._config.kube_reserved_cgroup, kube)}
        for key in self._config.enforce_node_allocatable:
            kind = key.removesuffix(COMPRESSIBLE)
            if kind in named:
                name, reserved = named[kind]
                await asyncio.to_thread(self._bound, kind, name, plan.reserved_limits(reserved, compressible=key != kind))
                notes.append(f"Updated limits on {kind.replace('-', ' ')} cgroup {name}")
        return notes

    def _bound(self, kind: str, name: str, limits: plan.Limits) -> None:
        path = PurePosixPath("/", name.strip("/"))
        if self._slices is not None and not name.endswith(".slice"):
            path = path.with_name(f"{path.name}.slice")
        controllers = ("cpu", "memory", "pids")
        roots = [self._mount / each for each in controllers] if self.version == 1 else [self._mount]
        missing = [str(_below(root, path)) for root in roots if root.is_dir() and not _below(root, path).is_dir()]
        if missing:
            what = " ".join(part.capitalize() for part in kind.split("-"))
            raise OperatorError(
                f'Failed to enforce {what} Cgroup Limits on "{name}": cgroup is not configured properly: no {missing[0]}; '
                f"make it, or take {kind} out of enforceNodeAllocatable"
            )
        self._limit(path, limits)

    def processes(self, pod: Mapping[str, Any]) -> int:
        """How many processes and threads the pod has; 0 where its cgroup does not say. Reads one small file."""
        root = self._mount if self.version == 2 else self._mount / "pids"
        try:
            return int((_below(root, self.real(plan.pod_path(self._config.cgroup_root, pod))) / "pids.current").read_text())
        except (OSError, ValueError):
            return 0

    def process_of(self, pod: Mapping[str, Any]) -> int | None:
        """One process of the pod, by its cgroup."""
        root = self._mount if self.version == 2 else self._mount / "pids"
        try:
            for folder in _below(root, self.real(plan.pod_path(self._config.cgroup_root, pod))).iterdir():
                if folder.is_dir() and (found := (folder / "cgroup.procs").read_text().split()):
                    return int(found[0])
        except OSError:
            return None  # ended meanwhile
        return None

    async def present(self) -> Sequence[str]:
        if not self._config.cgroups_per_qos:
            return ()
        return await asyncio.to_thread(self._present)

    def _present(self) -> Sequence[str]:
        found: set[str] = set()
        for root in self._roots():
            for path in plan.candidate_paths(self._config.cgroup_root, ""):
                parent = _below(root, self.real(path.parent))
                if parent.is_dir():
                    found |= {uid for entry in parent.iterdir() if entry.is_dir() and (uid := self._uid(entry.name))}
        return sorted(found)

    def _uid(self, folder: str) -> str | None:
        if self._slices is not None:
            return systemd.uid_of_slice(folder)
        return folder.removeprefix("pod") if folder.startswith("pod") else None

    def _make(self, path: PurePosixPath, limits: plan.Limits) -> None:
        if self.version == 2:
            self._make_v2(path, limits)
            return
        for controller in ("cpu", "memory", "pids"):
            if (self._mount / controller).is_dir():
                _below(self._mount / controller, path).mkdir(parents=True, exist_ok=True)
        if limits.hugepages and (self._mount / "hugetlb").is_dir():
            _below(self._mount / "hugetlb", path).mkdir(parents=True, exist_ok=True)
        self._limit(path, limits)

    def _make_v2(self, path: PurePosixPath, limits: plan.Limits) -> None:
        folder = self._mount
        for part in path.parts[1:]:
            available = set((folder / "cgroup.controllers").read_text().split())
            wanted = sorted({"cpu", "memory", "pids", "io", "cpuset", "hugetlb"} & available)
            for controller in wanted:
                _write(folder / "cgroup.subtree_control", f"+{controller}")
            folder = folder / part
            folder.mkdir(exist_ok=True)
        self._limit(path, limits)

    def _limit(self, path: PurePosixPath, limits: plan.Limits) -> None:
        if self.version == 1:
            for controller, file, value in plan.v1_writes(limits):
                if (self._mount / controller).is_dir():
                    _write(_below(self._mount / controller, path) / file, value)
            return
        for file, value in plan.v2_writes(limits):
            if (_below(self._mount, path) / file).exists():
                _write(_below(self._mount, path) / file, value)

    def _roots(self) -> list[Path]:
        """Every hierarchy a runtime may have put the pod's cgroup into: on v1 whatever is mounted here, a v2 beside it too."""
        if self.version == 2:
            return [self._mount]
        return [entry for entry in self._mount.iterdir() if entry.is_dir() and not entry.is_symlink()]

    def _remove(self, uid: str) -> None:
        for root in self._roots():
            for path in plan.candidate_paths(self._config.cgroup_root, uid):
                remove_tree(_below(root, self.real(path)))


def _below(root: Path, path: PurePosixPath) -> Path:
    return root / path.relative_to("/")


def _write(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except OSError as error:
        # A kernel or an outer container that withholds a control must not keep pods from running.
        _log.warning("Cannot write a cgroup control", file=str(file), value=value, err=error)


def remove_tree(folder: Path) -> None:
    """Remove a cgroup and those below it, from the leaves up; their files cannot be deleted and need not be."""
    if not folder.is_dir():
        return
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            remove_tree(Path(entry.path))
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EBUSY):
            raise
