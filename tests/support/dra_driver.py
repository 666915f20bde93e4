"""A DRA driver for tests, on real sockets. Its devices are ``/dev/null`` under other names, described by CDI specs.

Runs in the test's process (``running_dra_driver``) or, for a whole cluster, as a program of its own:
``python -m tests.support.dra_driver ROOT KUBELET_ROOT CDI KUBECONFIG NODE COUNT``. The program publishes a ResourceSlice, anew
when it is deleted, reads each claim to see which devices it got, and notes its calls in ``ROOT/calls``, one a line.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from apimachinery.errors import StatusError
from apimachinery.objects import claims
from apimachinery.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from client.kubeconfig import load
from client.rest import Client
from node.kubelet.cm.dra.api import dra_v1_pb2 as pb
from node.kubelet.pluginregistration.api import registration_v1_pb2 as registration
from node.kubelet.pluginregistration.api import registration_v1_pb2_grpc as registration_services

NAME, KIND = "null.dra.example.com", "example.com/null"
V1, V1BETA1 = "v1.DRAPlugin", "v1beta1.DRAPlugin"
Lookup = Callable[[pb.Claim], Awaitable[Sequence[Mapping[str, Any]]]]
"""The results of a claim's allocation."""


@dataclass
class NullDriver(registration_services.RegistrationServicer):
    """``calls`` are (method, uid of the claim) in order; ``failing`` maps methods to errors, said of each claim;
    ``skipping`` methods answer nothing about any."""

    root: Path
    lookup: Lookup
    name: str = NAME
    cdi: Path | None = None  # where the runtime looks for specs
    socket_name: str = "dra.sock"
    services: Sequence[str] = (V1, V1BETA1)
    calls: list[tuple[str, str]] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    skipping: set[str] = field(default_factory=set)
    told: list[tuple[bool, str]] = field(default_factory=list)
    served: list[str] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        return self.root / self.socket_name

    def spec(self, uid: str) -> Path:
        """The CDI spec of a claim's devices, while they are prepared."""
        return (self.cdi or self.root / "cdi") / f"{self.name}-{uid}.json"

    def _note(self, method: str, uid: str) -> None:
        self.calls.append((method, uid))
        with (self.root / "calls").open("a") as file:
            file.write(f"{method} {uid}\n")

    async def prepare(self, request: pb.NodePrepareResourcesRequest, context: Any) -> pb.NodePrepareResourcesResponse:
        answer = pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            self._note("prepare", claim.uid)
            if "prepare" in self.failing:
                answer.claims[claim.uid].error = self.failing["prepare"]
            elif "prepare" not in self.skipping:
                answer.claims[claim.uid].devices.extend(await self._make(claim))
        return answer

    async def _make(self, claim: pb.Claim) -> list[pb.Device]:
        results = [each for each in await self.lookup(claim) if each["driver"] == self.name]
        nodes = {each["device"]: f"/dev/dra-{each['device']}" for each in results}
        described = [
            {
                "name": f"{claim.uid}-{name}",
                "containerEdits": {
                    "env": [f"DRA_{name.upper().replace('-', '_')}={claim.name}"],
                    "deviceNodes": [{"path": path, "hostPath": "/dev/null"}],
                },
            }
            for name, path in nodes.items()
        ]
        path = self.spec(claim.uid)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": KIND, "devices": described}))
        return [
            pb.Device(
                request_names=[each["request"]],
                pool_name=each["pool"],
                device_name=each["device"],
                cdi_device_ids=[f"{KIND}={claim.uid}-{each['device']}"],
                share_id=each.get("shareID"),
            )
            for each in results
        ]

    async def unprepare(self, request: pb.NodeUnprepareResourcesRequest, context: Any) -> pb.NodeUnprepareResourcesResponse:
        answer = pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            self._note("unprepare", claim.uid)
            if "unprepare" in self.failing:
                answer.claims[claim.uid].error = self.failing["unprepare"]
            elif "unprepare" not in self.skipping:
                self.spec(claim.uid).unlink(missing_ok=True)
                answer.claims[claim.uid].CopyFrom(pb.NodeUnprepareResourceResponse())
        return answer

    def GetInfo(self, request: Any, context: Any) -> registration.PluginInfo:
        return registration.PluginInfo(
            type="DRAPlugin", name=self.name, endpoint=str(self.socket), supported_versions=self.services
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> registration.RegistrationStatusResponse:
        self.told.append((request.plugin_registered, request.error))
        return registration.RegistrationStatusResponse()

    def add_to(self, server: grpc.aio.Server) -> None:
        """The same under each service's name."""
        for service in self.services:
            full = f"k8s.io.kubelet.pkg.apis.dra.{service}"
            server.add_generic_rpc_handlers(
                [grpc.method_handlers_generic_handler(full, {
                    "NodePrepareResources": self._handler(service, self.prepare, pb.NodePrepareResourcesRequest),
                    "NodeUnprepareResources": self._handler(service, self.unprepare, pb.NodeUnprepareResourcesRequest),
                })]
            )  # fmt: skip

    def _handler(self, service: str, method: Any, request: Any) -> Any:
        async def serve(given: Any, context: Any) -> Any:
            self.served.append(service)
            return await method(given, context)

        return grpc.unary_unary_rpc_method_handler(
            serve, request_deserializer=request.FromString, response_serializer=lambda answer: answer.SerializeToString()
        )


@asynccontextmanager
async def running_dra_driver(driver: NullDriver, watched: Path | None = None) -> AsyncIterator[NullDriver]:
    """Serve; the test registers, or gives the ``watched`` folder where a kubelet looks for plugins."""
    server = grpc.aio.server()
    driver.add_to(server)
    registration_services.add_RegistrationServicer_to_server(driver, server)  # type: ignore[no-untyped-call]
    driver.root.mkdir(parents=True, exist_ok=True)
    server.add_insecure_port(f"unix:{driver.socket}")
    if watched is not None:
        watched.mkdir(parents=True, exist_ok=True)
        server.add_insecure_port(f"unix:{watched / f'{driver.name}-reg.sock'}")
    await server.start()
    try:
        yield driver
    finally:
        await server.stop(None)


def slice_of(node: str, count: int, name: str = NAME) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"null-{number}", "attributes": {"index": {"int": number}}} for number in range(count)]
    spec = {"driver": name, "nodeName": node, "pool": pool, "devices": devices}
    metadata = {"name": f"{node}-{name}"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


async def _serve(root: Path, kubelet: Path, cdi: Path, kubeconfig: str, node: str, count: int) -> None:
    async with Client(load(kubeconfig), component="dra-driver") as client:

        async def lookup(claim: pb.Claim) -> Sequence[Mapping[str, Any]]:
            return claims.results_of(await client.get(RESOURCE_CLAIMS, claim.name, claim.namespace))

        driver = NullDriver(root, lookup, cdi=cdi)
        async with running_dra_driver(driver, kubelet / "plugins_registry"):
            print("serving", flush=True)  # noqa: T201
            while True:
                with suppress(StatusError, ConnectionError):  # it is there already
                    await client.create(RESOURCE_SLICES, slice_of(node, count))
                await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5], int(sys.argv[6])))
