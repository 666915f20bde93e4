"""The socket ``pod-resources/kubelet.sock``. ``kubelet.py`` runs it; ``answers`` makes what it says.

It is for root alone, as its folder is, and tells nothing that the API does not: agents that measure devices learn from it whose
they are.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from component import logs
from component.clock import Clock
from node.kubelet.podresources import answers
from node.kubelet.podresources.api import podresources_v1_pb2 as pb
from node.kubelet.podresources.api import podresources_v1_pb2_grpc as services
from node.kubelet.podresources.interface import ClaimSource, DeviceSource, Pod, ResourceSource
from node.kubelet.podresources.metrics import PodResourcesMetrics
from node.kubelet.podresources.rate_limit import RateLimit
from node.kubelet.sockets import clear_sockets, is_socket

SOCKET = "kubelet.sock"
_LOOK_SECONDS = 10.0
_log = logs.get(__name__)


class PodResources(services.PodResourcesListerServicer):
    """``pods`` are those that run or may run here; ``pod`` finds one by namespace and name."""

    def __init__(
        self,
        pods: Callable[[], Iterable[Pod]],
        pod: Callable[[str, str], Pod | None],
        devices: DeviceSource,
        others: ResourceSource,
        metrics: PodResourcesMetrics,
        *,
        claims: ClaimSource | None = None,
        get: bool = True,
    ) -> None:
        """``claims`` is None where dynamic resources are not told; ``get``: whether the gate KubeletPodResourcesGet is on."""
        self._pods, self._pod = pods, pod
        self._devices, self._others, self._metrics = devices, others, metrics
        self._claims, self._get = claims, get

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's names
        self._metrics.requested("list")
        listed = [self._told(pod) for pod in self._pods()]
        return pb.ListPodResourcesResponse(pod_resources=listed)

    async def GetAllocatableResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._metrics.requested("get_allocatable")
        return answers.allocatable(self._devices, self._others)

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._metrics.requested("get")
        if not self._get:
            await self._fail(context, "PodResources API Get method disabled")
        found = self._pod(request.pod_namespace, request.pod_name)
        if found is None:
            await self._fail(context, f"pod {request.pod_name} in namespace {request.pod_namespace} not found")
        assert found is not None
        return pb.GetPodResourcesResponse(pod_resources=self._told(found))

    def _told(self, pod: Pod) -> pb.PodResources:
        return answers.pod_resources(pod, self._devices, self._others, self._claims)

    async def _fail(self, context: Any, text: str) -> None:
        self._metrics.failed("get")
        await context.abort(grpc.StatusCode.UNKNOWN, text)


class _Limiter(grpc.aio.ServerInterceptor):
    """Turns callers away before anything is worked out for them."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        return await continuation(details) if self._limit.allow() else _TOO_MANY


async def _too_many(request: Any, context: Any) -> Any:
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")


_TOO_MANY: Any = grpc.unary_unary_rpc_method_handler(_too_many)


async def serve(folder: Path, service: PodResources, clock: Clock) -> None:
    """Until cancelled, or until somebody removes the socket: then it must be called again. Raises OSError or RuntimeError."""
    await asyncio.to_thread(clear_sockets, folder)
    path = folder / SOCKET
    server = grpc.aio.server(interceptors=[_Limiter(RateLimit(clock))])
    services.add_PodResourcesListerServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{path}")
    try:
        await server.start()
        while await asyncio.to_thread(is_socket, path):
            await clock.sleep(_LOOK_SECONDS)
        raise FileNotFoundError(f"the socket {path} was removed, making it again")
    finally:
        await server.stop(None)
