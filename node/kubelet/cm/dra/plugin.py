"""One plugin of a DRA driver: gRPC calls on its socket, and whether it can be reached. ``registry`` makes it.

A plugin that cannot be reached is not asked to deregister: it may have been killed. So the connection is watched.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from component.clock import Clock
from component.local_grpc import local_channel
from node.kubelet.cm.dra.api import dra_v1_pb2 as pb
from node.kubelet.cm.dra.metrics import DraMetrics
from node.kubelet.cm.interface import DraError

V1, V1BETA1 = "v1.DRAPlugin", "v1beta1.DRAPlugin"
SERVICES = (V1, V1BETA1)
"""As drivers name them when they register."""
CALL_SECONDS = 45.0
_PACKAGE = "k8s.io.kubelet.pkg.apis.dra"
_UP = grpc.ChannelConnectivity.READY


class Plugin:
    """Make it inside the event loop; close it when the plugin is gone."""

    def __init__(self, driver: str, endpoint: str, service: str, clock: Clock, metrics: DraMetrics) -> None:
        self.driver, self.endpoint = driver, endpoint
        self.connected = False
        self._clock, self._metrics = clock, metrics
        self._service = f"/{_PACKAGE}.{service}"
        self._channel = local_channel(f"unix:{endpoint}")

    async def watch(self, changed: Callable[[], None]) -> None:
        """Keep ``connected`` true to the facts, and say when it changes, until cancelled."""
        state = self._channel.get_state(try_to_connect=True)
        while True:
            if (up := state is _UP) != self.connected:
                self.connected = up
                changed()
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state(try_to_connect=True)

    async def close(self) -> None:
        await self._channel.close()

    async def prepare(self, claims: Sequence[pb.Claim]) -> pb.NodePrepareResourcesResponse:
        """Raises DraError."""
        request = pb.NodePrepareResourcesRequest(claims=claims)
        answer: pb.NodePrepareResourcesResponse = await self._call(
            "NodePrepareResources", request, pb.NodePrepareResourcesResponse
        )
        return answer

    async def unprepare(self, claims: Sequence[pb.Claim]) -> pb.NodeUnprepareResourcesResponse:
        """Raises DraError."""
        request = pb.NodeUnprepareResourcesRequest(claims=claims)
        found: pb.NodeUnprepareResourcesResponse
        found = await self._call("NodeUnprepareResources", request, pb.NodeUnprepareResourcesResponse)
        return found

    async def _call(self, method: str, request: Any, answer: Any) -> Any:
        path, began, code = f"{self._service}/{method}", self._clock.monotonic(), "OK"
        call = self._channel.unary_unary(
            path, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        try:
            return await call(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            code = error.code().name.title().replace("_", "")
            raise DraError(f"{method}: rpc error: code = {code} desc = {error.details()}") from None
        except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:  # closed meanwhile
            code = "Unavailable"
            raise DraError(f"{method}: {error}") from None
        finally:
            self._metrics.called(self.driver, path, code, self._clock.monotonic() - began)
