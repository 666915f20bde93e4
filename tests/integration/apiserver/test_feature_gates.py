"""A real server with feature gates one way and the other: what it serves, takes, drops and counts."""

import subprocess
import sys
from typing import Any

import pytest

from component.features import from_flag
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.cluster import environment

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
ALPHA = {"scheduling.k8s.io/v1alpha2": "true"}
ON = from_flag({"GenericWorkload": "true", "ContainerStopSignals": "true"})


def pod(name: str) -> Object:
    container = {"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGUSR1"}}
    spec = {"os": {"name": "linux"}, "schedulingGroup": {"podGroupName": "g"}, "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


async def create_pod(server: TestServer, name: str = "p") -> Object:
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    made = await server.request("POST", f"{PODS}?fieldValidation=Strict", pod(name))
    assert made.status == 201, made.body
    spec: Object = made.json["spec"]
    return spec


async def metric(server: TestServer, name: str) -> set[str]:
    lines = (await server.request("GET", "/metrics")).body.decode().splitlines()
    return {line for line in lines if line.startswith(f'kubernetes_feature_enabled{{name="{name}"')}


async def test_by_default_alpha_is_off(server: TestServer) -> None:
    spec = await create_pod(server)
    assert "schedulingGroup" not in spec
    assert "stopSignal" not in spec["containers"][0].get("lifecycle", {})
    assert (await server.request("GET", GROUPS)).status == 404
    assert await metric(server, "GenericWorkload") == {'kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 0.0'}
    assert await metric(server, "VolumeAttributesClass") == {
        'kubernetes_feature_enabled{name="VolumeAttributesClass",stage=""} 1.0'
    }


async def test_the_version_alone_does_not_bring_what_a_gate_guards() -> None:
    async with running_apiserver(runtime_config=ALPHA) as server:
        assert (await server.request("GET", GROUPS)).status == 404


async def test_gate_and_version_bring_the_kind_and_the_field() -> None:
    async with running_apiserver(runtime_config=ALPHA, features=ON) as server:
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 3}}
        made = await server.request("POST", GROUPS, group)
        assert made.status == 201, made.body
        assert made.json["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}  # the priority has a gate of its own
        spec = await create_pod(server)
        assert spec["schedulingGroup"] == {"podGroupName": "g"}
        assert spec["containers"][0]["lifecycle"] == {"stopSignal": "SIGUSR1"}
        listed = (await server.request("GET", "/apis/scheduling.k8s.io/v1alpha2")).json["resources"]
        assert {"podgroups", "podgroups/status", "workloads"} <= {one["name"] for one in listed}
        protobuf = await server.request("GET", f"{GROUPS}/g", headers={"Accept": "application/vnd.kubernetes.protobuf"})
        assert protobuf.body.startswith(b"k8s\0")
        assert await metric(server, "GenericWorkload") == {'kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 1.0'}


async def test_what_was_stored_with_a_gate_stays_when_it_is_switched_off(tmp_path: Any) -> None:
    """As upstream: an object that uses a feature keeps it through updates; only new uses are dropped."""
    async with running_apiserver("sqlite", tmp_path, features=ON) as server:
        await create_pod(server)
    async with running_apiserver("sqlite", tmp_path) as server:
        merge = "application/merge-patch+json"
        patched = await server.request("PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, content_type=merge)
        assert patched.json["spec"]["schedulingGroup"] == {"podGroupName": "g"}
        assert "schedulingGroup" not in await create_pod(server, "q")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("Nothing=true", "unrecognized feature gate: Nothing"),
        ("VolumeAttributesClass=false", "cannot set feature gate VolumeAttributesClass to false, feature is locked to true"),
        ("DRAWorkloadResourceClaims=true", "depends on features that are disabled: [GenericWorkload]"),
        ("AllAlpha", "'AllAlpha' must have the form key=value"),
    ],
)
@pytest.mark.parametrize("daemon", ["apiserver", "scheduler"])
def test_daemons_refuse_gates_in_upstreams_words(daemon: str, flag: str, message: str) -> None:
    argv = [sys.executable, "-m", "cli", daemon, f"--feature-gates={flag}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, env=environment(), check=False)
    assert done.returncode == 2
    assert "--feature-gates" in done.stderr
    assert message in done.stderr


async def test_without_watch_list_a_watch_cannot_begin_with_what_there_is() -> None:
    """client-go then lists and watches, as it did before."""
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    async with running_apiserver(features=from_flag({"WatchList": "false"})) as server:
        refused = await server.request("GET", f"{PODS}?{query}")
        assert (refused.status, refused.json["reason"]) == (422, "Invalid")
        assert refused.json["details"]["causes"][0]["message"] == (
            "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        )
        assert (await server.request("GET", f"{PODS}?watch=1&timeoutSeconds=1")).status == 200


@pytest.mark.parametrize("wish", ["true", "false"])
async def test_large_answers_are_compressed_unless_switched_off(wish: str) -> None:
    async with running_apiserver(features=from_flag({"APIResponseCompression": wish})) as server:
        body = {"metadata": {"name": "big"}, "data": {"a": "x" * 200_000}}
        await server.request("POST", "/api/v1/namespaces/default/configmaps", body)
        path = "/api/v1/namespaces/default/configmaps/big"
        answer = await server.request("GET", path, headers={"Accept-Encoding": "gzip"})
        assert ("Content-Encoding" in answer.headers) == (wish == "true")
        assert len(answer.json["data"]["a"]) == 200_000  # the client has unpacked it


DEVICE_GATES = ("DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaints", "DRAPartitionableDevices")
DRAWERS = {
    "allowMultipleAllocations": True,
    "bindingConditions": ["attached"],
    "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}],
    "taints": [{"key": "broken", "effect": "NoSchedule"}],
}


@pytest.mark.parametrize("on", [True, False])
async def test_what_devices_can_do_belongs_to_gates(on: bool) -> None:
    features = from_flag(dict.fromkeys(DEVICE_GATES, str(on).lower()))
    async with running_apiserver(features=features) as server:
        device = {"name": "gpu-0", "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}}, **DRAWERS}
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [device]}
        made = await server.request("POST", "/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "s"}, "spec": spec})
        assert made.status == 201, made.body
        (kept,) = made.json["spec"]["devices"]
        assert (set(DRAWERS) <= set(kept), "requestPolicy" in kept["capacity"]["memory"]) == (on, on)
        assert not on or set(DRAWERS) & set(kept) == set(DRAWERS)
        assert on or not set(DRAWERS) & set(kept)
