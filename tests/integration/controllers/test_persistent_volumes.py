"""Claims and volumes through the real API server: bound, released, reclaimed, provisioned, attached."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apimachinery.meta import Object
from apimachinery.objects import local_path, volumes
from apimachinery.resources import CORE_EVENTS, CSI_DRIVERS, NODES, PODS, STORAGE_CLASSES, VOLUME_ATTACHMENTS
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from apimachinery.resources import PERSISTENT_VOLUMES as VOLUMES
from client.rest import Client, is_not_found
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import add_node, control_plane, eventually
from tests.support.storage import claim_volume, make_claim, make_class, make_volume

CONTROLLERS = "persistentvolume-binder,attachdetach,ephemeral-volume,local-path,persistentvolume-expander,pvc-protection,pv-protection,serviceaccount"  # noqa: E501
ROOT = "/var/lib/x"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    flags = [f"--local-path-dir={ROOT}"]
    async with running_apiserver() as server, control_plane(server, flags, schedule=False, controllers=CONTROLLERS) as client:
        yield client


async def phase(client: Client, name: str, wanted: str) -> Object:
    """Wait until a claim (``c...``) or a volume (``v...``) is in a phase."""
    resource, namespace = (CLAIMS, "default") if name.startswith("c") else (VOLUMES, None)

    async def look() -> Object | None:
        found = await client.get(resource, name, namespace)
        return found if (found.get("status") or {}).get("phase") == wanted else None

    return await eventually(look)


async def told(client: Client, name: str, reason: str) -> str:
    """Wait for an event about an object; its text."""

    async def look() -> str:
        listed = (await client.list(CORE_EVENTS, "default"))["items"]
        return next(
            (each["message"] for each in listed if (each["involvedObject"]["name"], each["reason"]) == (name, reason)), ""
        )

    return await eventually(look)


async def gone(client: Client, resource: Any, name: str, namespace: str | None = None) -> bool:
    try:
        await client.get(resource, name, namespace)
    except Exception as error:
        return is_not_found(error)
    return False


def pod(name: str, *volumes_of_pod: Object, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default"}
    inside = {"containers": [{"name": "c", "image": "i"}], "volumes": list(volumes_of_pod), "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**inside, **spec}}


async def test_a_claim_is_bound_in_either_order_and_its_volume_released(client: Client) -> None:
    await client.create(CLAIMS, make_claim("c"))
    assert "no persistent volumes available" in await told(client, "c", "FailedBinding")
    await client.create(VOLUMES, make_volume("v", "3Gi"))
    claim, volume = await phase(client, "c", "Bound"), await phase(client, "v", "Bound")
    assert claim["spec"]["volumeName"] == "v"
    assert claim["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "3Gi"}}
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    await client.delete(CLAIMS, "c", "default")
    await phase(client, "v", "Released")  # Retain: somebody must see to it
    await client.create(CLAIMS, make_claim("c2"))
    await phase(client, "c2", "Pending")
    await client.patch(VOLUMES, "v", {"spec": {"claimRef": None}})
    await phase(client, "c2", "Bound")


async def test_many_claims_share_no_volume(client: Client) -> None:
    for number in range(8):
        await client.create(VOLUMES, make_volume(f"v{number}", f"{number + 1}Gi"))
    for number in range(9):
        await client.create(CLAIMS, make_claim(f"c{number}"))

    async def settled() -> set[str] | None:
        claims = (await client.list(CLAIMS, "default"))["items"]
        bound = [each["spec"]["volumeName"] for each in claims if each["status"]["phase"] == "Bound"]
        return set(bound) if len(bound) == 8 else None

    assert await eventually(settled) == {f"v{number}" for number in range(8)}


async def test_a_claim_that_lost_its_volume_says_so(client: Client) -> None:
    await client.create(VOLUMES, make_volume("v"))
    await client.create(CLAIMS, make_claim("c"))
    await phase(client, "c", "Bound")
    await client.delete(VOLUMES, "v")
    await client.patch(VOLUMES, "v", {"metadata": {"finalizers": None}})
    await phase(client, "c", "Lost")
    assert await told(client, "c", "ClaimLost") == "Bound claim has lost its PersistentVolume. Data on the volume is lost!"


async def test_volumes_below_tmp_are_deleted_and_others_cannot_be(client: Client, tmp_path: Path) -> None:
    inside = tmp_path / "data"
    inside.mkdir()
    (inside / "file").write_text("x")
    assert str(inside).startswith("/tmp/")
    await client.create(VOLUMES, make_volume("v", hostPath={"path": str(inside)}, persistentVolumeReclaimPolicy="Delete"))
    await client.create(VOLUMES, make_volume("v-nfs", nfs={"server": "s", "path": "/"}, persistentVolumeReclaimPolicy="Delete"))
    for number in range(2):
        await client.create(CLAIMS, make_claim(f"c{number}"))
    for number in range(2):
        await phase(client, f"c{number}", "Bound")
        await client.delete(CLAIMS, f"c{number}", "default")
    await eventually(lambda: gone(client, VOLUMES, "v"))
    assert not inside.exists()
    await phase(client, "v-nfs", "Failed")
    assert "no deletable volume plugin matched" in await told(client, "v-nfs", "VolumeFailedDelete")


async def test_a_recycled_volume_is_free_again_once_its_pod_has_scrubbed_it(client: Client) -> None:
    await client.create(VOLUMES, make_volume("v", persistentVolumeReclaimPolicy="Recycle"))
    await client.create(CLAIMS, make_claim("c"))
    await phase(client, "c", "Bound")
    await client.delete(CLAIMS, "c", "default")
    await eventually(lambda: _there(client, PODS, "recycler-for-v", "default"))
    await client.patch(PODS, "recycler-for-v", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
    volume = await phase(client, "v", "Available")
    assert "claimRef" not in volume["spec"]
    assert await told(client, "v", "VolumeRecycled") == "Volume recycled"


async def _there(client: Client, resource: Any, name: str, namespace: str | None = None) -> bool:
    return not await gone(client, resource, name, namespace)


async def test_a_class_that_waits_and_a_default_that_comes_late(client: Client) -> None:
    await client.create(STORAGE_CLASSES, make_class("late", volumeBindingMode="WaitForFirstConsumer"))
    await client.create(VOLUMES, make_volume("v", storage_class="late"))
    await client.create(CLAIMS, make_claim("c", storage_class="late"))
    text = "waiting for first consumer to be created before binding"
    assert await told(client, "c", "WaitForFirstConsumer") == text
    await phase(client, "v", "Available")
    await client.patch(STORAGE_CLASSES, "local-path", {"metadata": {"annotations": None}})
    await client.create(CLAIMS, make_claim("c2", storage_class=None))
    assert await told(client, "c2", "FailedBinding")
    await client.create(STORAGE_CLASSES, make_class("fast", "example.com/fast", default=True))
    assert "'example.com/fast'" in await told(client, "c2", "ExternalProvisioning")
    assert (await client.get(CLAIMS, "c2", "default"))["spec"]["storageClassName"] == "fast"


async def test_an_ephemeral_volume_gets_a_claim_of_its_pods_own(client: Client) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": make_claim()["spec"]}
    made = await client.create(PODS, pod("p", {"name": "e", "ephemeral": {"volumeClaimTemplate": template}}))
    await eventually(lambda: _there(client, CLAIMS, "p-e", "default"))
    claim = await client.get(CLAIMS, "p-e", "default")
    assert claim["metadata"]["labels"] == {"a": "b"}
    assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
    await client.create(CLAIMS, make_claim("q-e"))
    await client.create(PODS, pod("q", {"name": "e", "ephemeral": {"volumeClaimTemplate": template}}))
    text = "ephemeral volume e: PVC default/q-e was not created for pod default/q (pod is not owner)"
    assert await told(client, "q", "FailedBinding") == text


async def test_a_local_path_volume_from_claim_to_deletion(client: Client) -> None:
    await add_node(client, "node-1")
    kind = await client.get(STORAGE_CLASSES, "local-path")
    assert kind["volumeBindingMode"] == "WaitForFirstConsumer"
    claim = await client.create(CLAIMS, make_claim("c", storage_class=None))
    assert claim["spec"]["storageClassName"] == "local-path"
    await client.patch(CLAIMS, "c", {"metadata": {"annotations": {volumes.SELECTED_NODE: "node-1"}}}, namespace="default")
    bound = await phase(client, "c", "Bound")
    name = bound["spec"]["volumeName"]
    assert name == f"pvc-{claim['metadata']['uid']}"
    volume = await client.get(VOLUMES, name)
    assert volume["spec"]["local"] == {"path": f"{ROOT}/{name}_default_c"}
    await client.delete(CLAIMS, "c", "default")

    async def asked() -> bool:
        held = await client.get(NODES, "node-1")
        return local_path.listed(held, local_path.DELETE) == {f"{name}_default_c"}

    await eventually(asked)
    assert not await gone(client, VOLUMES, name)  # before the node has deleted the directory
    await client.patch(NODES, "node-1", {"metadata": {"annotations": {local_path.DELETED: f"{name}_default_c"}}})
    await eventually(lambda: gone(client, VOLUMES, name))

    async def forgotten() -> bool:
        return not local_path.listed(await client.get(NODES, "node-1"), local_path.DELETE)

    await eventually(forgotten)


async def test_csi_volumes_are_attached_while_pods_use_them(client: Client) -> None:
    await add_node(client, "node-1")
    await client.create(CSI_DRIVERS, {"metadata": {"name": "plain.example.com"}, "spec": {"attachRequired": False}})
    for name, driver in (("v1", "disk.example.com"), ("v2", "plain.example.com")):
        await client.create(VOLUMES, make_volume(name, csi={"driver": driver, "volumeHandle": "h"}))
    for name in ("c1", "c2"):
        await client.create(CLAIMS, make_claim(name))
        await phase(client, name, "Bound")
    using = pod("p", claim_volume("a", "c1"), claim_volume("b", "c2"), nodeName="node-1")
    await client.create(PODS, using)

    async def attached() -> Object | None:
        found = (await client.list(VOLUME_ATTACHMENTS))["items"]
        return found[0] if found else None

    made = await eventually(attached)
    assert made["spec"] == {"attacher": "disk.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": "v1"}}
    assert len((await client.list(VOLUME_ATTACHMENTS))["items"]) == 1
    name = made["metadata"]["name"]
    await client.patch(VOLUME_ATTACHMENTS, name, {"status": {"attached": True}}, subresource="status")
    called = "kubernetes.io/csi/disk.example.com^h"

    async def reported() -> bool:
        status = (await client.get(NODES, "node-1"))["status"]
        return status.get("volumesAttached") == [{"name": called, "devicePath": ""}]

    await eventually(reported)
    assert await told(client, "p", "SuccessfulAttachVolume") == 'AttachVolume.Attach succeeded for volume "v1" '
    await client.patch(NODES, "node-1", {"status": {"volumesInUse": [called]}}, subresource="status")
    await client.delete(PODS, "p", "default", grace=0)
    await eventually(lambda: gone(client, PODS, "p", "default"))
    assert not await gone(client, VOLUME_ATTACHMENTS, name)
    await client.patch(NODES, "node-1", {"status": {"volumesInUse": None}}, subresource="status")
    await eventually(lambda: gone(client, VOLUME_ATTACHMENTS, name))
