"""Gives running containers what has been allocated to their pod. Called by ``pod_sync`` once nothing else is to be done.

The pod's cgroup grows before its containers and shrinks after them, so that neither ever bounds the other wrongly.
"""

from apimachinery.meta import uid_of
from apimachinery.objects.requests import CPU, MEMORY
from cri import errors
from node.kubelet.resize import plan
from node.kubelet.resize.allocations import Allocations
from node.kubelet.resize.plan import Container, Pod, Resources
from node.kubelet.runtime import resources
from node.kubelet.runtime.host import Host
from node.kubelet.runtime.observed import ObservedPod, State


def restarting(pod: Pod, observed: ObservedPod, allocations: Allocations) -> list[str]:
    """Ids of running containers that must be restarted to get what is allocated. ``pod`` is the view of :meth:`settle`."""
    record = allocations.record(uid_of(pod))
    if record is None:
        return []
    found = []
    for container in plan.resizable(pod):
        name = str(container["name"])
        latest = observed.latest(name)
        given = record.allocated.get(name, {})
        runs = latest is not None and latest.state is State.RUNNING
        if latest is None or not runs or name not in record.lagging():
            continue
        if plan.restarts(container, record.actuated.get(name, given), given):
            found.append(latest.id)
    return found


async def actuate(pod: Pod, observed: ObservedPod, allocations: Allocations, host: Host) -> bool:
    """Bring what runs in line with what is allocated; whether it is. Failures are noted in the record and tried again."""
    record = allocations.record(uid_of(pod))
    lagging = record.lagging() if record is not None else []
    if record is None or not lagging:
        return True
    before = plan.view(pod, record.actuated)
    await host.cgroups.ensure(plan.envelope(before, pod))
    complete = True
    for container in plan.resizable(pod):
        name = str(container["name"])
        latest = observed.latest(name)
        if name not in lagging or latest is None or latest.state is not State.RUNNING:
            continue
        given, had = record.allocated[name], record.actuated.get(name, {})
        try:
            await _update(pod, container, latest.id, had, host)
        except errors.RuntimeServiceError as error:
            record.error, complete = f"failed to resize container {name!r}: {error}", False
            host.events.warning(pod, "ResizeError", record.error, name)
            continue
        allocations.actuated(uid_of(pod), {name: given})
    await host.cgroups.ensure(plan.view(pod, record.actuated))
    if complete:
        host.events.normal(pod, "ResizeCompleted", "Pod resize completed")
    return complete


async def _update(pod: Pod, container: Container, container_id: str, had: Resources, host: Host) -> None:
    wanted = resources.container_resources(pod, container, host.limits, host.pinning(pod, container))
    if not wanted.cpu_quota and (had.get("limits") or {}).get(CPU):
        wanted.cpu_quota = -1  # 0 would leave the old one
    if not wanted.memory_limit_in_bytes and (had.get("limits") or {}).get(MEMORY):
        wanted.memory_limit_in_bytes = -1
    await host.runtime.update_container_resources(container_id, wanted)
