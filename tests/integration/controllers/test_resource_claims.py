"""Claims are made for pods that want them, and taken back from pods that are done."""

from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, get_condition, has_finalizer, is_deleting
from apimachinery.objects import claims
from apimachinery.resources import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from client.rest import Client
from component.features import from_flag
from controlplane.controllers import device_taint_eviction
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

CONTROLLERS = "resourceclaim-controller,device-taint-eviction-controller,serviceaccount"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE: Object = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"metadata": {"labels": {"team": "a"}, "annotations": {"why": "because"}}, "spec": SPEC},
}


def claim(name: str) -> Object:
    metadata = {"name": name, "namespace": "default", "finalizers": [claims.FINALIZER]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": SPEC}


def pod(name: str, *entries: Object, **more: Any) -> Object:
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": list(entries),
        "terminationGracePeriodSeconds": 0,
        **more,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


FROM_TEMPLATE = {"name": "mine", "resourceClaimTemplateName": "gpu"}
SHARED = {"name": "mine", "resourceClaimName": "shared"}


async def listed(client: Client) -> list[Object]:
    found: list[Object] = (await client.list(RESOURCE_CLAIMS, "default"))["items"]
    return found


async def get(client: Client, name: str) -> Object:
    return await client.get(RESOURCE_CLAIMS, name, "default")


async def gone(client: Client, name: str) -> bool:
    try:
        await get(client, name)
    except StatusError as error:
        return error.code == 404
    return False


async def noted(client: Client, name: str) -> list[Object]:
    found: list[Object] = (await client.get(PODS, name, "default")).get("status", {}).get("resourceClaimStatuses") or []
    return found


async def allocate(client: Client, name: str, *users: Object, tolerations: list[Object] | None = None) -> Object:
    """What the scheduler would write."""
    changed = clone(await get(client, name))
    result: Object = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    if tolerations:
        result["tolerations"] = tolerations
    reserved = [claims.consumer(each) for each in users]
    changed["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    return await client.update_status(RESOURCE_CLAIMS, changed)


async def test_a_claim_is_made_noted_and_goes_with_its_pod() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        made = await client.create(PODS, pod("p", FROM_TEMPLATE))
        await client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE)  # the pod has waited for it
        await eventually(lambda: noted(client, "p"))
        (found,) = await listed(client)
        metadata = found["metadata"]
        assert metadata["name"].startswith("p-mine-")
        assert len(metadata["name"]) == len("p-mine-") + 5
        assert metadata["labels"] == {"team": "a"}
        assert metadata["annotations"] == {"why": "because", claims.POD_CLAIM_ANNOTATION: "mine"}
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", made["metadata"]["uid"], True)
        assert found["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
        assert await noted(client, "p") == [{"name": "mine", "resourceClaimName": metadata["name"]}]
        await client.delete(RESOURCE_CLAIMS, metadata["name"], "default")  # by mistake: it is made anew

        async def renamed() -> bool:
            return bool((await noted(client, "p"))[0]["resourceClaimName"] != metadata["name"])

        await eventually(renamed)
        name = (await noted(client, "p"))[0]["resourceClaimName"]
        await allocate(client, name, made)
        await client.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
        await eventually(lambda: gone(client, name))


@pytest.mark.parametrize("ending", ["finishes", "is deleted"])
async def test_devices_are_free_when_the_last_pod_is_done(ending: str) -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        await client.create(RESOURCE_CLAIMS, claim("shared"))
        users = [await client.create(PODS, pod(name, SHARED, nodeName="node-1")) for name in ("p", "q")]
        await allocate(client, "shared", *users)
        await end(client, "p", ending)

        async def reserved_for(*names: str) -> bool:
            return [each["name"] for each in claims.consumers_of(await get(client, "shared"))] == list(names)

        await eventually(lambda: reserved_for("q"))
        assert claims.results_of(await get(client, "shared"))
        await end(client, "q", ending)
        await eventually(lambda: reserved_for())

        async def freed() -> bool:
            found = await get(client, "shared")
            return claims.allocation_of(found) is None and not has_finalizer(found, claims.FINALIZER)

        await eventually(freed)


async def end(client: Client, name: str, ending: str) -> None:
    if ending == "finishes":
        await client.patch(PODS, name, {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
    else:
        await client.delete(PODS, name, "default", grace=0)


async def test_a_claim_is_not_deleted_under_its_pod() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        await client.create(RESOURCE_CLAIMS, claim("shared"))
        user = await client.create(PODS, pod("p", SHARED, nodeName="node-1"))
        await allocate(client, "shared", user)
        await client.delete(RESOURCE_CLAIMS, "shared", "default")
        assert is_deleting(await get(client, "shared"))
        await end(client, "p", "is deleted")
        await eventually(lambda: gone(client, "shared"))


async def test_a_pod_that_did_not_come_by_the_scheduler_may_use_what_is_allocated() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        await client.create(RESOURCE_CLAIMS, claim("shared"))
        first = await client.create(PODS, pod("p", SHARED, nodeName="node-1"))
        await allocate(client, "shared", first)
        await client.create(PODS, pod("q", SHARED, nodeName="node-1"))

        async def both() -> bool:
            return [each["name"] for each in claims.consumers_of(await get(client, "shared"))] == ["p", "q"]

        await eventually(both)


async def test_a_taint_of_a_device_evicts_who_does_not_tolerate_it() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        for name, tolerations in (("bold", [{"operator": "Exists"}]), ("shy", None)):
            await client.create(RESOURCE_CLAIMS, claim(name))
            entry = {"name": "mine", "resourceClaimName": name}
            user = await client.create(PODS, pod(name, entry, nodeName="node-1", terminationGracePeriodSeconds=30))
            await allocate(client, name, user, tolerations=tolerations)
        taint = {"key": "broken", "effect": "NoExecute"}
        spec = {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": [taint]}],
        }
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
        await client.create(RESOURCE_SLICES, made)

        async def leaving() -> bool:
            found = await client.get(PODS, "shy", "default")
            conditions = found["status"].get("conditions") or []
            told = any(each.get("reason") == "DeletionByDeviceTaintManager" for each in conditions)
            return is_deleting(found) and told

        await eventually(leaving)
        assert not is_deleting(await client.get(PODS, "bold", "default"))


async def test_a_rule_evicts_and_tells_of_it() -> None:
    flags = ("--feature-gates=DRADeviceTaintRules=true",)
    served = {"resource.k8s.io/v1beta2": "true"}
    async with (
        running_apiserver(features=from_flag({"DRADeviceTaintRules": "true"}), runtime_config=served) as server,
        control_plane(server, flags, schedule=False, controllers=CONTROLLERS) as client,
    ):
        await client.create(RESOURCE_CLAIMS, claim("held"))
        entry = {"name": "mine", "resourceClaimName": "held"}
        user = await client.create(PODS, pod("p", entry, nodeName="node-1", terminationGracePeriodSeconds=30))
        await allocate(client, "held", user)

        async def make(name: str, effect: str) -> None:
            spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "hot", "effect": effect}}
            rule = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}
            await client.create(DEVICE_TAINT_RULES, rule)

        async def told(name: str) -> Object | None:
            return get_condition(await client.get(DEVICE_TAINT_RULES, name), "EvictionInProgress")

        await make("what-if", "None")
        found = await eventually(lambda: told("what-if"))
        assert found["reason"] == "NoEffect"
        assert found["message"].startswith(
            "0 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if "
        )
        assert not is_deleting(await client.get(PODS, "p", "default"))
        await make("out", "NoExecute")

        async def leaving() -> bool:
            return is_deleting(await client.get(PODS, "p", "default"))

        await eventually(leaving)
        assert (await eventually(lambda: told("out")))["reason"] in ("PodsPendingEviction", "Completed", "NotStarted")


async def test_a_rule_hears_of_pods_that_went_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_taint_eviction, "PERIOD_SECONDS", 0.0)
    flags = ("--feature-gates=DRADeviceTaintRules=true",)
    served = {"resource.k8s.io/v1beta2": "true"}
    async with (
        running_apiserver(features=from_flag({"DRADeviceTaintRules": "true"}), runtime_config=served) as server,
        control_plane(server, flags, schedule=False, controllers=CONTROLLERS) as client,
    ):
        await client.create(RESOURCE_CLAIMS, claim("held"))
        user = await client.create(PODS, pod("p", {"name": "mine", "resourceClaimName": "held"}, nodeName="node-1"))
        await allocate(client, "held", user, tolerations=[{"operator": "Exists", "tolerationSeconds": 3600}])
        spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "hot", "effect": "NoExecute"}}
        rule = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}
        await client.create(DEVICE_TAINT_RULES, rule)

        async def tells(reason: str) -> bool:
            found = get_condition(await client.get(DEVICE_TAINT_RULES, "r"), "EvictionInProgress")
            return found is not None and found["reason"] == reason

        await eventually(lambda: tells("PodsPendingEviction"))
        await client.delete(PODS, "p", "default")
        await eventually(lambda: tells("NotStarted"))
