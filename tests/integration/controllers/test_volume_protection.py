"""A claim in use is not deleted under its pod, nor a bound volume under its claim."""

from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from apimachinery.resources import PERSISTENT_VOLUMES as VOLUMES
from apimachinery.resources import PODS
from apimachinery.resources import VOLUME_ATTRIBUTES_CLASSES as CLASSES
from client.rest import Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

CONTROLLERS = "pvc-protection,pv-protection,volumeattributesclass-protection,serviceaccount"


def claim(name: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def pod(name: str, claimed: str, **more: Any) -> Object:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claimed}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, "terminationGracePeriodSeconds": 0, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def gone(client: Client, gvr: Any, name: str, namespace: str | None = None) -> bool:
    try:
        await client.get(gvr, name, namespace)
    except StatusError as error:
        return error.code == 404
    return False


async def test_a_claim_stays_while_a_pod_uses_it() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        for name in ("used", "waiting"):
            made = await client.create(CLAIMS, claim(name))
            assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        await client.create(PODS, pod("p", "used", nodeName="node-1"))
        await client.create(PODS, pod("q", "waiting"))
        for name in ("used", "waiting"):
            await client.delete(CLAIMS, name, "default")
        await eventually(lambda: gone(client, CLAIMS, "waiting", "default"))  # its pod has no node yet
        assert not await gone(client, CLAIMS, "used", "default")
        await client.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
        await eventually(lambda: gone(client, CLAIMS, "used", "default"))


async def test_a_volume_stays_while_it_is_bound() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/x"}}
        await client.create(VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec})
        await client.patch(VOLUMES, "v", {"status": {"phase": "Bound"}}, subresource="status")
        await client.delete(VOLUMES, "v")
        assert not await gone(client, VOLUMES, "v")
        await client.patch(VOLUMES, "v", {"status": {"phase": "Released"}}, subresource="status")
        await eventually(lambda: gone(client, VOLUMES, "v"))


async def test_a_class_of_attributes_stays_while_a_claim_names_it() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        for name in ("gold", "silver"):
            made = await client.create(CLASSES, {"metadata": {"name": name}, "driverName": "d", "parameters": {"iops": "1"}})
            assert made["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
        named = claim("c")
        named["spec"]["volumeAttributesClassName"] = "gold"
        await client.create(CLAIMS, named)
        for name in ("gold", "silver"):
            await client.delete(CLASSES, name)
        await eventually(lambda: gone(client, CLASSES, "silver"))
        assert not await gone(client, CLASSES, "gold")
        await client.delete(CLAIMS, "c", "default")
        await eventually(lambda: gone(client, CLASSES, "gold"))
