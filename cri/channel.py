"""One connection to a runtime's socket, shared by ``runtime.py`` and ``images.py``.

gRPC reconnects by itself (``component.local_grpc``): a restarted containerd is found again within a second, and calls made
meanwhile fail at once with :class:`UnavailableError`, so that pod workers back off instead of hanging.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio

from component.local_grpc import local_channel
from cri import errors

_MAX_MESSAGE = 16 << 20  # gRPC's default of 4 MiB is too small for ListContainers on a full node
_SIZES = (("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.max_send_message_length", _MAX_MESSAGE))
_MAX_IN_FLIGHT = 256  # grpc.aio cancels calls at random near 2,000; stops that wait for grace periods hold their place


_CLASSES: dict[str, type[errors.RuntimeServiceError]] = {
    "NOT_FOUND": errors.NotFoundError,
    "UNAVAILABLE": errors.UnavailableError,
    "DEADLINE_EXCEEDED": errors.DeadlineError,
    "UNIMPLEMENTED": errors.UnimplementedError,
    "INVALID_ARGUMENT": errors.InvalidArgumentError,
}

Response = TypeVar("Response")


class Channel:
    """A lazily opened gRPC channel. Make it inside the event loop that will use it; close it at the end."""

    def __init__(self, endpoint: str) -> None:
        """``endpoint`` is ``unix:///path`` or a bare path, as in ``--container-runtime-endpoint``."""
        self.target = endpoint_target(endpoint)
        self.raw = local_channel(self.target, *_SIZES)
        self._slots = asyncio.Semaphore(_MAX_IN_FLIGHT)

    async def call(self, method: Callable[..., Awaitable[Response]], request: Any, timeout: float | None) -> Response:
        """One unary call; raises from ``cri.errors`` only."""
        async with self._slots:
            try:
                return await method(request, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                raise translate(error) from None

    async def stream(self, method: Callable[..., AsyncIterator[Response]], request: Any) -> AsyncIterator[Response]:
        """A server stream without a deadline; ends or raises from ``cri.errors``."""
        try:
            async for item in method(request):
                yield item
        except grpc.aio.AioRpcError as error:
            raise translate(error) from None

    async def close(self) -> None:
        await self.raw.close()


def endpoint_target(endpoint: str) -> str:
    """gRPC's form of a runtime endpoint. Raises ValueError for anything but a unix socket."""
    if endpoint.startswith("unix://"):
        path = endpoint.removeprefix("unix://")
    elif endpoint.startswith("/"):
        path = endpoint
    else:
        raise ValueError(f"container runtime endpoint {endpoint!r} is not a unix socket (unix:///run/containerd/containerd.sock)")
    if not path.startswith("/"):
        raise ValueError(f"container runtime endpoint {endpoint!r} needs an absolute path: unix:///run/...")
    return f"unix:{path}"


def translate(error: grpc.aio.AioRpcError) -> errors.RuntimeServiceError:
    """A gRPC failure as one of ours."""
    name = error.code().name
    spelled = "".join(part.capitalize() for part in name.split("_"))
    return _CLASSES.get(name, errors.RuntimeServiceError)(error.details() or "", spelled)
