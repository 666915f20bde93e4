"""``/checkpoint/NAMESPACE/POD/CONTAINER``: has the runtime write a container's state into an archive. Called by ``routes``.

The archive holds the container's memory: its folder is for root alone. Runtimes without the call, or without CRIU, refuse.
"""

import os
from pathlib import Path
from typing import Protocol

import orjson
from aiohttp import web

from apimachinery import errors
from component.clock import Clock
from cri.errors import RuntimeServiceError, UnimplementedError
from node.kubelet.interface import KubeletFacade


class Checkpointing(Protocol):
    """Part of ``cri.interface.RuntimeService``."""

    async def checkpoint_container(self, container_id: str, location: str, timeout: float) -> None: ...


class Checkpoints:
    """The handler; archives go below ``folder``."""

    def __init__(self, kubelet: KubeletFacade, runtime: Checkpointing, folder: Path, clock: Clock) -> None:
        self._kubelet = kubelet
        self._runtime = runtime
        self._folder = folder
        self._clock = clock

    async def handle(self, request: web.Request) -> web.Response:
        where = request.match_info
        namespace, pod, container = where["namespace"], where["pod"], where["container"]
        timeout = _seconds(request.query.get("timeout", "0"))
        self._kubelet.pod(namespace, pod)
        container_id = await self._kubelet.container_id(namespace, pod, container)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        target = self._folder / f"checkpoint-{pod}_{namespace}-{container}-{stamp}.tar"
        shown = f"{namespace}/{pod}/{container}"
        try:
            await self._runtime.checkpoint_container(container_id, str(target), timeout)
        except UnimplementedError as error:
            raise errors.StatusError(errors.make_status(404, "NotFound", f"checkpointing of {shown} failed ({error})")) from None
        except RuntimeServiceError as error:
            raise errors.internal(f"checkpointing of {shown} failed ({error})") from None
        return web.Response(body=orjson.dumps({"items": [str(target)]}), content_type="application/json")


def _seconds(text: str) -> float:
    try:
        found = int(text)
    except ValueError:
        found = -1
    if found < 0:
        raise errors.bad_request(f"invalid timeout: {text!r} is no number of seconds")
    return float(found)
