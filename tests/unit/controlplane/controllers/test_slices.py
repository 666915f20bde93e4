from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.controllers.lib import slices

SERVICE: Object = {
    "metadata": {"name": "web", "namespace": "ns", "uid": "s", "labels": {"app": "web"}},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]},
}


def pod(number: int, *, ready: bool = True, port: int = 8080, **more: Any) -> Object:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": f"2026-01-01T00:00:{number % 60:02}Z"}
    return {
        "metadata": {"name": f"web-{number}", "namespace": "ns", "uid": f"u{number}", **more},
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "http", "containerPort": port}]}]},
        "status": {"phase": "Running", "podIP": f"10.0.{number // 250}.{number % 250}", "conditions": [condition]},
    }


def stored(changes: slices.Changes, held: list[Object]) -> list[Object]:
    """What the server holds after the changes."""
    gone = {each["metadata"]["name"] for each in [*changes.delete, *changes.update]}
    kept = [each for each in held if each["metadata"]["name"] not in gone]
    for each in changes.create:
        each["metadata"]["name"] = f"slice-{len(kept)}-{id(each)}"
        kept.append(each)
    return kept + changes.update


def conditions(pods: list[Object], service: Object = SERVICE) -> list[Object]:
    made = slices.plan(service, pods, [], {})
    return [endpoint["conditions"] for each in made.create for endpoint in each["endpoints"]]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pod(1), (True, True, False), id="ready"),
        pytest.param(pod(1, ready=False), (False, False, False), id="not-ready"),
        pytest.param(pod(1, deletionTimestamp="2026-01-01T00:00:00Z"), (False, True, True), id="terminating-but-serving"),
    ],
)
def test_conditions(pod: Object, expected: tuple[bool, bool, bool]) -> None:
    assert [tuple(each.values()) for each in conditions([pod])] == [expected]


def test_publish_not_ready_addresses() -> None:
    service = {**SERVICE, "spec": {**SERVICE["spec"], "publishNotReadyAddresses": True}}
    assert conditions([pod(1, ready=False)], service)[0]["ready"] is True


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_and_pods_without_address_are_left_out(phase: str) -> None:
    done, unassigned = pod(1), pod(2)
    done["status"]["phase"] = phase
    del unassigned["status"]["podIP"]
    assert conditions([done, unassigned]) == []


def test_first_slice_tells_whose_it_is_and_why() -> None:
    made = slices.plan(SERVICE, [pod(7)], [], {"n1": {"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}}}).create[0]
    assert made["metadata"]["labels"] == {
        "app": "web",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert made["metadata"]["annotations"] == {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:07Z"}
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Service"
    assert made["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
    assert made["endpoints"][0]["zone"] == "z"


def test_nothing_to_do_the_second_time() -> None:
    pods = [pod(number) for number in range(250)]
    held = stored(slices.plan(SERVICE, pods, [], {}), [])
    assert sorted(len(each["endpoints"]) for each in held) == [50, 100, 100]
    again = slices.plan(SERVICE, pods, held, {})
    assert (again.create, again.update, again.delete) == ([], [], [])


def test_a_new_pod_changes_one_slice() -> None:
    pods = [pod(number) for number in range(150)]
    held = stored(slices.plan(SERVICE, pods, [], {}), [])
    changes = slices.plan(SERVICE, [*pods, pod(200)], held, {})
    assert (len(changes.create), len(changes.update), len(changes.delete)) == (0, 1, 0)
    assert len(changes.update[0]["endpoints"]) == 51


def test_pods_that_name_their_port_differently_get_slices_of_their_own() -> None:
    made = slices.plan(SERVICE, [pod(1), pod(2, port=9090)], [], {}).create
    assert sorted(each["ports"][0]["port"] for each in made) == [8080, 9090]


def test_without_pods_one_empty_slice_remains() -> None:
    held = stored(slices.plan(SERVICE, [], [], {}), [])
    assert [each["endpoints"] for each in held] == [[]]
    filled = stored(slices.plan(SERVICE, [pod(1)], held, {}), held)
    assert [len(each["endpoints"]) for each in filled] == [1]
    emptied = stored(slices.plan(SERVICE, [], filled, {}), filled)
    assert [each["endpoints"] for each in emptied] == [[]]


def test_the_empty_slice_is_filled_not_replaced() -> None:
    held = stored(slices.plan(SERVICE, [], [], {}), [])
    changes = slices.plan(SERVICE, [pod(1)], held, {})
    assert (len(changes.create), len(changes.update), len(changes.delete)) == (0, 1, 0)
    assert changes.update[0]["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
