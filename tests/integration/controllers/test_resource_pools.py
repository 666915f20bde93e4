"""A request for the state of pools is answered when all slices are there."""

from typing import Any

from apimachinery.meta import Object
from apimachinery.resources import RESOURCE_SLICES
from component.features import from_flag
from controlplane.controllers.resourcepoolstatusrequest import REQUESTS
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

_FLAGS = ("--feature-gates=DRAResourcePoolStatus=true",)
_ON: dict[str, Any] = {
    "features": from_flag({"DRAResourcePoolStatus": "true"}),
    "runtime_config": {"resource.k8s.io/v1alpha3": "true"},
}


async def test_pools_are_counted_once_they_are_complete() -> None:
    controllers = "resourcepoolstatusrequest,serviceaccount"
    async with (
        running_apiserver(**_ON) as server,
        control_plane(server, _FLAGS, schedule=False, controllers=controllers) as client,
    ):

        async def publish(name: str) -> None:
            pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
            spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": f"{name}-0"}]}
            made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
            await client.create(RESOURCE_SLICES, made)

        await publish("one")
        await client.create(REQUESTS, {"metadata": {"name": "r"}, "spec": {"driver": "gpu.example.com"}})

        async def answered() -> Object | None:
            return (await client.get(REQUESTS, "r")).get("status") or None

        assert await answered() is None
        await publish("two")
        status = await eventually(answered)
        assert status["poolCount"] == 1
        (pool,) = status["pools"]
        assert (pool["nodeName"], pool["resourceSliceCount"], pool["totalDevices"], pool["availableDevices"]) == ("n", 2, 2, 2)
