"""Removal of a node's pods without a kubelet: the last act of ``pybernetes down`` and of ``reset``.

A facade for ``cli``: it needs only a container runtime that answers. Pods of other kubelets on the same runtime are left
alone: ours are those whose directory lies under our root.
"""

import asyncio
import contextlib
import os
from pathlib import Path

from cri.api import runtime_v1_pb2 as pb
from cri.channel import Channel
from cri.errors import NotFoundError
from cri.interface import RuntimeService
from cri.runtime import GrpcRuntime

_AT_ONCE = 8  # sandboxes taken down side by side


async def remove_pods(endpoint: str, root_dir: Path | None, grace: int) -> int:
    """Stop (SIGTERM, then SIGKILL after ``grace`` seconds) and remove pods; returns how many there were.

    ``root_dir`` limits it to pods that have a directory in that kubelet's root; None means all pods of the runtime.
    Raises ``cri.errors.RuntimeServiceError``.
    """
    channel = Channel(endpoint)
    try:
        runtime = GrpcRuntime(channel)
        mine = None if root_dir is None else await asyncio.to_thread(_pod_uids, root_dir)
        sandboxes = [box for box in await runtime.list_pod_sandboxes() if mine is None or box.metadata.uid in mine]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def remove(sandbox_id: str) -> None:
            async with gate:
                await _remove_pod(runtime, sandbox_id, grace)

        async with asyncio.TaskGroup() as group:
            for sandbox in sandboxes:
                group.create_task(remove(sandbox.id))
    finally:
        await channel.close()
    return len(sandboxes)


async def _remove_pod(runtime: RuntimeService, sandbox_id: str, grace: int) -> None:
    containers = await runtime.list_containers(pb.ContainerFilter(pod_sandbox_id=sandbox_id))
    running = [item.id for item in containers if item.state == pb.CONTAINER_RUNNING]
    # somebody else may remove the same things meanwhile; that they are gone is all that is wanted
    await asyncio.gather(*(_stop(runtime, container_id, grace) for container_id in running))
    with contextlib.suppress(NotFoundError):
        await runtime.stop_pod_sandbox(sandbox_id)
    with contextlib.suppress(NotFoundError):
        await runtime.remove_pod_sandbox(sandbox_id)


async def _stop(runtime: RuntimeService, container_id: str, grace: int) -> None:
    with contextlib.suppress(NotFoundError):
        await runtime.stop_container(container_id, grace)


def _pod_uids(root_dir: Path) -> set[str]:
    try:
        return set(os.listdir(root_dir / "pods"))
    except FileNotFoundError:
        return set()
