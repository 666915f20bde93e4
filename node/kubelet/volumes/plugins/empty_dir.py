"""emptyDir: a directory that lives as long as the pod, on the node's disk or in memory."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apimachinery import quantity
from node.kubelet.interface import Mount, VolumeError
from node.kubelet.volumes import ownership, wrapped
from node.kubelet.volumes.contract import PLUGINS, VolumeRequest


@dataclass(frozen=True, slots=True)
class EmptyDir:
    """``allocatable`` tells what the node can give: a memory volume is never larger than that."""

    allocatable: Callable[[], Mapping[str, str]]
    name: str = "kubernetes.io/empty-dir"
    refreshes: bool = False

    async def set_up(self, request: VolumeRequest) -> Mount:
        medium = request.source.get("medium") or ""
        if medium not in ("", "Memory"):
            raise VolumeError(f'storage medium "{medium}" is not supported by this kubelet: use "" or "Memory"')
        options = memory_options(request, self.allocatable()) if medium else ""
        await asyncio.to_thread(_make, request, medium, options)
        return Mount(request.directory)


def memory_options(request: VolumeRequest, allocatable: Mapping[str, str]) -> str:
    """``size=`` for the tmpfs: the least of sizeLimit, the pod's memory limit and the node's memory, as upstream."""
    bounds = [allocatable.get("memory"), request.source.get("sizeLimit")]
    containers = request.pod["spec"].get("containers") or ()
    limits = [((item.get("resources") or {}).get("limits") or {}).get("memory") for item in containers]
    sizes = [quantity.parse(bound).value() for bound in bounds if bound]
    if limits and None not in limits:
        sizes.append(sum(quantity.parse(limit or 0).value() for limit in limits))
    sizes = [size for size in sizes if size > 0]
    return f"size={min(sizes)}" if sizes else ""


def _make(request: VolumeRequest, medium: str, options: str) -> None:
    directory = request.directory
    if medium:
        fresh = wrapped.make_tmpfs(directory, 0o777, options)
    elif fresh := not directory.is_dir():
        wrapped.make_directory(directory, 0o777)
    # Upstream's place for this mark. Once containers have run, ownership inside is theirs and is left alone.
    mark = directory.parents[2] / PLUGINS / directory.parent.name / directory.name / "ready"
    if mark.exists() and not fresh:
        return
    if (group := request.fs_group) is not None:
        ownership.set_group(directory, group, read_only=False, on_root_mismatch=request.fs_group_on_root_mismatch)
    mark.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    mark.touch(mode=0o640)
