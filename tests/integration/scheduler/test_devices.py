"""Pods whose claims get devices on the way to a node: scheduler and controllers against the real API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, has_finalizer
from apimachinery.objects import claims
from apimachinery.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from client.rest import Client, PatchKind
from component.features import from_flag
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import add_node, control_plane, eventually

CONTROLLERS = "resourceclaim-controller,serviceaccount"
DRIVER = "gpu.example.com"
SPEC: Object = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running_apiserver() as server, control_plane(server, controllers=CONTROLLERS) as client:
        yield client


def made(kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


async def add_class(client: Client, name: str = "gpu", **spec: Any) -> None:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    await client.create(DEVICE_CLASSES, made("DeviceClass", name, {"selectors": [selector], **spec}))


async def add_devices(client: Client, node: str, *names: str, **entry: Any) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": name, **entry} for name in names]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    await client.create(RESOURCE_SLICES, made("ResourceSlice", f"of-{node}", spec))


async def add_claim(client: Client, name: str, spec: Object = SPEC) -> None:
    await client.create(RESOURCE_CLAIMS, made("ResourceClaim", name, spec, namespace="default"))


async def add_pod(client: Client, name: str, *entries: Object, **resources: Any) -> Object:
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}], "resourceClaims": list(entries)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    return await client.create(PODS, pod)


def using(claim: str) -> Object:
    return {"name": "mine", "resourceClaimName": claim}


async def get(client: Client, name: str) -> Object:
    return await client.get(RESOURCE_CLAIMS, name, "default")


async def node_of(client: Client, name: str) -> str:
    return str((await client.get(PODS, name, "default"))["spec"].get("nodeName") or "")


async def placed(client: Client, name: str) -> str:
    """The node that the pod gets."""
    found: str = await eventually(lambda: node_of(client, name))
    return found


async def why_not(client: Client, name: str) -> str:
    conditions = (await client.get(PODS, name, "default")).get("status", {}).get("conditions") or []
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


async def test_a_pod_goes_where_the_devices_are(client: Client) -> None:
    await add_node(client, "without")
    await add_node(client, "with")
    await add_class(client)
    await add_devices(client, "with", "gpu-0", "gpu-1")
    await add_claim(client, "shared")
    first = await add_pod(client, "one", using("shared"))
    second = await add_pod(client, "two", using("shared"))
    for name in ("one", "two"):
        assert await placed(client, name) == "with"
    found = await get(client, "shared")
    assert has_finalizer(found, claims.FINALIZER)
    (result,) = claims.results_of(found)
    assert (result["driver"], result["pool"], result["device"], result["request"]) == (DRIVER, "with", "gpu-0", "gpu")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["with"]}]}
    assert (claims.allocation_of(found) or {})["nodeSelector"] == {"nodeSelectorTerms": [term]}
    assert {each["uid"] for each in claims.consumers_of(found)} == {each["metadata"]["uid"] for each in (first, second)}


async def test_devices_are_given_once_and_given_on_when_they_are_free(client: Client) -> None:
    await add_node(client, "n")
    await add_class(client)
    await add_devices(client, "n", "gpu-0", "gpu-1")
    template = made("ResourceClaimTemplate", "gpu", {"spec": SPEC}, namespace="default")
    await client.create(RESOURCE_CLAIM_TEMPLATES, template)
    names = [f"p{number}" for number in range(4)]
    for name in names:
        await add_pod(client, name, {"name": "mine", "resourceClaimTemplateName": "gpu"})

    async def running() -> list[str]:
        return [name for name in names if await node_of(client, name)]

    async def two() -> bool:
        return len(await running()) == 2

    await eventually(two)
    waiting = [name for name in names if name not in await running()]
    refusal = "0/1 nodes are available: 1 cannot allocate all claims."
    await eventually(lambda: _starts(client, waiting[0], refusal))
    held = [claims.results_of(each)[0]["device"] for each in await _allocated(client)]
    assert sorted(held) == ["gpu-0", "gpu-1"]
    done = (await running())[0]
    await client.patch(PODS, done, {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")

    async def three() -> bool:
        return len(await running()) == 3

    await eventually(three)


async def _starts(client: Client, name: str, text: str) -> bool:
    return (await why_not(client, name)).startswith(text)


async def _allocated(client: Client) -> list[Object]:
    return [each for each in (await client.list(RESOURCE_CLAIMS, "default"))["items"] if claims.results_of(each)]


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ("class", "0/1 nodes are available: request gpu: device class gpu does not exist."),
        ("devices", "0/1 nodes are available: 1 cannot allocate all claims."),
    ],
)
async def test_a_pod_waits_for_what_is_missing(client: Client, missing: str, text: str) -> None:
    await add_node(client, "n")
    steps: dict[str, Callable[[], Awaitable[None]]] = {
        "class": partial(add_class, client),
        "devices": partial(add_devices, client, "n", "gpu-0"),
    }
    for name, step in steps.items():
        if name != missing:
            await step()
    await add_claim(client, "c")
    await add_pod(client, "p", using("c"))
    await eventually(lambda: _starts(client, "p", text))
    await steps[missing]()
    assert await eventually(lambda: node_of(client, "p")) == "n"


async def test_a_claim_that_is_elsewhere_and_unused_is_allocated_anew(client: Client) -> None:
    await add_node(client, "full", pods="0")
    await add_node(client, "free")
    await add_class(client)
    await add_devices(client, "full", "gpu-0")
    await add_devices(client, "free", "gpu-1")
    await add_claim(client, "c")
    changed = clone(await get(client, "c"))
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["full"]}]}
    result = {"request": "gpu", "driver": DRIVER, "pool": "full", "device": "gpu-0"}
    changed["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}}
    await client.update_status(RESOURCE_CLAIMS, changed)
    await add_pod(client, "p", using("c"))
    assert await eventually(lambda: node_of(client, "p")) == "free"
    assert claims.results_of(await get(client, "c"))[0]["device"] == "gpu-1"


async def test_the_first_alternative_decides_among_nodes(client: Client) -> None:
    for name, model in (("a", "small"), ("b", "big"), ("c", "small")):
        await add_node(client, name)
        await add_devices(client, name, "gpu-0", attributes={"model": {"string": model}})
    await add_class(client)

    def choice(model: str) -> Object:
        expression = f'device.attributes["{DRIVER}"].model == "{model}"'
        return {"name": model, "deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}

    either = {"devices": {"requests": [{"name": "gpu", "firstAvailable": [choice("big"), choice("small")]}]}}
    await add_claim(client, "c", either)
    await add_pod(client, "p", using("c"))
    assert await eventually(lambda: node_of(client, "p")) == "b"
    assert claims.results_of(await get(client, "c"))[0]["request"] == "gpu/big"


async def test_a_pod_is_bound_when_its_device_has_been_attached(client: Client) -> None:
    await add_node(client, "n")
    await add_class(client)
    await add_devices(client, "n", "gpu-0", bindingConditions=["attached"], bindingFailureConditions=["broken"])
    await add_claim(client, "c")
    await add_pod(client, "p", using("c"))

    async def reserved() -> Object | None:
        found = await get(client, "c")
        return found if claims.consumers_of(found) else None

    found = clone(await eventually(reserved))
    assert (claims.allocation_of(found) or {}).get("allocationTimestamp")
    assert not await node_of(client, "p")
    now = "2026-01-01T00:00:00Z"
    ready = {"type": "attached", "status": "True", "reason": "Attached", "message": "", "lastTransitionTime": now}
    found["status"]["devices"] = [{"driver": DRIVER, "pool": "n", "device": "gpu-0", "conditions": [ready]}]
    await client.update_status(RESOURCE_CLAIMS, found)
    assert await eventually(lambda: node_of(client, "p")) == "n"
    events = (await client.list(EVENTS, "default"))["items"]
    assert any(each.get("reason") == "BindingConditionsPending" for each in events)


async def test_a_device_that_cannot_be_attached_is_given_up(client: Client) -> None:
    await add_node(client, "n")
    await add_class(client)
    await add_devices(client, "n", "gpu-0", bindingConditions=["attached"], bindingFailureConditions=["broken"])
    await add_claim(client, "c")
    await add_pod(client, "p", using("c"))

    async def reserved() -> Object | None:
        found = await get(client, "c")
        return found if claims.consumers_of(found) else None

    found = clone(await eventually(reserved))
    first = (claims.allocation_of(found) or {})["allocationTimestamp"]
    broken = {"type": "broken", "status": "True", "reason": "NoLink", "message": "", "lastTransitionTime": first}
    found["status"]["devices"] = [{"driver": DRIVER, "pool": "n", "device": "gpu-0", "conditions": [broken]}]
    await client.update_status(RESOURCE_CLAIMS, found)

    async def anew() -> bool:
        now = await get(client, "c")
        return claims.allocation_of(now) is not None and not now["status"].get("devices")

    await eventually(anew)


class TestExtendedResources:
    async def test_devices_stand_for_what_a_node_does_not_have_of_its_own(self, client: Client) -> None:
        await add_node(client, "n")
        await add_devices(client, "n", "gpu-0", "gpu-1")
        pod = await add_pod(client, "p", requests={"example.com/gpu": "2"}, limits={"example.com/gpu": "2"})
        await eventually(lambda: _starts(client, "p", "0/1 nodes are available: 1 Insufficient example.com/gpu."))
        await add_class(client, extendedResourceName="example.com/gpu")
        assert await eventually(lambda: node_of(client, "p")) == "n"
        told = (await client.get(PODS, "p", "default"))["status"]["extendedResourceClaimStatus"]
        assert told["requestMappings"] == [
            {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
        ]
        found = await get(client, told["resourceClaimName"])
        assert told["resourceClaimName"].startswith("p-extended-resources-")
        assert claims.owning_pod(found) == ("p", pod["metadata"]["uid"])
        assert [each["device"] for each in claims.results_of(found)] == ["gpu-0", "gpu-1"]
        assert claims.is_reserved_for(pod, found)

        async def gone() -> bool:
            try:
                await get(client, told["resourceClaimName"])
            except StatusError as error:
                return error.code == 404
            return False

        await client.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
        await eventually(gone)

    async def test_a_node_that_has_the_resource_needs_no_devices(self, client: Client) -> None:
        await add_node(client, "n")
        offered = {"status": {"allocatable": {"example.com/gpu": "1"}, "capacity": {"example.com/gpu": "1"}}}
        await client.patch(NODES, "n", offered, PatchKind.MERGE, subresource="status")
        await add_class(client, extendedResourceName="example.com/gpu")
        await add_pod(client, "p", requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "1"})
        assert await eventually(lambda: node_of(client, "p")) == "n"
        assert not (await client.list(RESOURCE_CLAIMS, "default"))["items"]


async def test_admin_access_needs_a_namespace_that_is_marked(client: Client) -> None:
    looking = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}]}}
    with pytest.raises(StatusError, match="admin access to devices requires the") as caught:
        await add_claim(client, "c", looking)
    assert caught.value.code == 422
    marked = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await client.patch(NAMESPACES, "default", marked)
    await add_claim(client, "c", looking)
    await add_node(client, "n")
    await add_class(client)
    await add_devices(client, "n", "gpu-0")
    await add_claim(client, "user")
    for name in ("user", "c"):
        await add_pod(client, name, using(name))
        assert await placed(client, name) == "n"
    assert claims.results_of(await get(client, "c"))[0]["adminAccess"] is True


async def test_a_rule_keeps_pods_away_from_a_device_until_it_goes() -> None:
    gates = from_flag({"DRADeviceTaintRules": "true"})
    async with (
        running_apiserver(features=gates, runtime_config={"resource.k8s.io/v1beta2": "true"}) as server,
        control_plane(server, controllers=CONTROLLERS, gates=gates) as client,
    ):
        await add_node(client, "with")
        await add_class(client)
        await add_devices(client, "with", "gpu-0")
        spec = {"deviceSelector": {"driver": DRIVER, "device": "gpu-0"}, "taint": {"key": "hot", "effect": "NoSchedule"}}
        rule = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}
        await client.create(DEVICE_TAINT_RULES, rule)
        await add_claim(client, "own")
        await add_pod(client, "p", using("own"))

        async def refused() -> bool:
            return "cannot allocate all claims" in await why_not(client, "p")

        await eventually(refused)
        await client.delete(DEVICE_TAINT_RULES, "r")
        assert await placed(client, "p") == "with"
