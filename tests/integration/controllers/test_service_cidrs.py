"""A range of cluster IPs stays for as long as a Service needs it."""

from typing import Any

import pytest

from apimachinery.meta import Object, get_condition
from apimachinery.resources import SERVICE_CIDRS, SERVICES
from client.rest import Client
from controlplane.controllers import service_cidr
from tests.integration.controllers.test_volume_protection import gone
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually


async def ready(client: Client, name: str, status: str) -> Object | None:
    held = await client.get(SERVICE_CIDRS, name)
    found: Object | None = get_condition(held, "Ready")
    return found if found is not None and found["status"] == status else None


async def test_a_range_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_cidr, "_GRACE_SECONDS", 0.2)
    controllers = "service-cidr,serviceaccount"
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=controllers) as client:
        found: dict[str, Any] = await eventually(lambda: ready(client, "kubernetes", "True"))
        assert found["message"] == "Kubernetes Service CIDR is ready"
        await client.create(SERVICE_CIDRS, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        await eventually(lambda: ready(client, "more", "True"))
        held = await client.get(SERVICE_CIDRS, "more")
        assert held["metadata"]["finalizers"] == ["networking.k8s.io/service-cidr-finalizer"]
        spec = {"ports": [{"port": 80}], "clusterIP": "10.200.0.9"}
        await client.create(SERVICES, {"metadata": {"name": "s"}, "spec": spec}, "default")
        await client.delete(SERVICE_CIDRS, "more")
        found = await eventually(lambda: ready(client, "more", "False"))
        assert found["reason"] == "Terminating"
        assert found["message"].startswith("There are still IPAddresses referencing the ServiceCIDR")
        await client.delete(SERVICES, "s", "default")
        await eventually(lambda: gone(client, SERVICE_CIDRS, "more"))
