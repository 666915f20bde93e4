"""StorageVersions forget servers that are gone."""

from typing import Any

from apimachinery.resources import LEASES
from client.rest import Client
from component.features import from_flag
from controlplane.controllers.storageversion_gc import STORAGE_VERSIONS, servers_of
from tests.integration.controllers.test_volume_protection import gone
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

_FLAGS = ("--feature-gates=StorageVersionAPI=true",)
_ON: dict[str, Any] = {
    "features": from_flag({"StorageVersionAPI": "true"}),
    "runtime_config": {"internal.apiserver.k8s.io/v1alpha1": "true"},
}


async def report(client: Client, name: str, *servers: str) -> None:
    made = await client.create(STORAGE_VERSIONS, {"metadata": {"name": name}, "spec": {}})
    reported = [{"apiServerID": each, "encodingVersion": "v1", "decodableVersions": ["v1"]} for each in servers]
    await client.update_status(STORAGE_VERSIONS, {**made, "status": {"storageVersions": reported, "commonEncodingVersion": "v1"}})


async def test_servers_that_are_gone_are_forgotten() -> None:
    controllers = "storage-version-gc,serviceaccount"
    async with (
        running_apiserver(**_ON) as server,
        control_plane(server, _FLAGS, schedule=False, controllers=controllers) as client,
    ):
        labels = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
        for name in ("here", "there"):
            await client.create(LEASES, {"metadata": {"name": name, "namespace": "kube-system", "labels": labels}, "spec": {}})
        await report(client, "apps.deployments", "here", "there")
        await report(client, "apps.daemonsets", "never-was")
        await eventually(lambda: gone(client, STORAGE_VERSIONS, "apps.daemonsets"))
        assert servers_of(await client.get(STORAGE_VERSIONS, "apps.deployments")) == ["here", "there"]
        await client.delete(LEASES, "there", "kube-system")

        async def forgotten() -> bool:
            return servers_of(await client.get(STORAGE_VERSIONS, "apps.deployments")) == ["here"]

        await eventually(forgotten)
