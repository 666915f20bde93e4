"""emptyDir: a directory that lives as long as the pod, on the node's disk or in memory."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apimachinery import quantity
from node.kubelet.interface import Mount, Pod, VolumeError
from node.kubelet.volumes import ownership, wrapped
from node.kubelet.volumes.contract import PLUGINS, VolumeRequest

_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class EmptyDir:
    """``allocatable`` tells what the node can give: a memory volume is never larger than that."""

    allocatable: Callable[[], Mapping[str, str]]
    name: str = "kubernetes.io/empty-dir"
    refreshes: bool = False

    async def set_up(self, request: VolumeRequest) -> Mount:
        medium = request.source.get("medium") or ""
        options = memory_options(request, self.allocatable()) if medium == "Memory" else ""
        if medium.startswith("HugePages"):
            options = f"pagesize={page_size(request.pod, medium)}"
        elif medium not in ("", "Memory"):
            raise VolumeError(f'unknown storage medium "{medium}"')
        await asyncio.to_thread(_make, request, medium, options)
        return Mount(request.directory)


def memory_options(request: VolumeRequest, allocatable: Mapping[str, str]) -> str:
    """``size=`` for the tmpfs: the least of sizeLimit, the pod's memory limit and the node's memory, as upstream."""
    bounds = [allocatable.get("memory"), request.source.get("sizeLimit")]
    containers = request.pod["spec"].get("containers") or ()
    limits = [((item.get("resources") or {}).get("limits") or {}).get("memory") for item in containers]
    sizes = [quantity.parse(bound).value() for bound in bounds if bound]
    of_pod = ((request.pod["spec"].get("resources") or {}).get("limits") or {}).get("memory")
    if of_pod:
        sizes.append(quantity.parse(of_pod).value())
    elif limits and None not in limits:
        sizes.append(sum(quantity.parse(limit or 0).value() for limit in limits))
    sizes = [size for size in sizes if size > 0]
    return f"size={min(sizes)}" if sizes else ""


def page_size(pod: Pod, medium: str) -> str:
    """The size of huge page that the volume gets: the one in its medium, which must be one that the pod asks for, or the only
    one that the pod asks for. Raises VolumeError. Pure."""
    asked = set()
    for container in (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())):
        requests = (container.get("resources") or {}).get("requests") or {}
        asked |= {name.removeprefix(_HUGE_PAGES) for name in requests if name.startswith(_HUGE_PAGES)}
    if medium == "HugePages":
        if not asked:
            raise VolumeError("hugePages storage requested, but there is no resource request for huge pages")
        if len(asked) > 1:
            raise VolumeError(f"medium HugePages can't be used if container requests multiple huge page sizes: {sorted(asked)}")
        return str(asked.pop())
    size = medium.removeprefix("HugePages-")
    if size not in asked:
        raise VolumeError(f"no huge pages of size {size} requested by the containers of the pod")
    return size


def _make(request: VolumeRequest, medium: str, options: str) -> None:
    directory = request.directory
    if medium.startswith("HugePages"):
        fresh = wrapped.make_tmpfs(directory, 0o777, options, kind="hugetlbfs")
    elif medium:
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
