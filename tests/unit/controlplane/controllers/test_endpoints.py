from typing import Any

from apimachinery.meta import Object
from controlplane.controllers import endpoints

SERVICE: Object = {
    "metadata": {"name": "web", "namespace": "ns"},
    "spec": {
        "clusterIP": "10.96.0.9",
        "selector": {"app": "web"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}],
    },
}


def pod(last: int, *, ready: bool = True, **more: Any) -> Object:
    return {
        "metadata": {"name": f"web-{last}", "namespace": "ns", "uid": f"u{last}", **more},
        "spec": {"nodeName": "n1"},
        "status": {"podIP": f"10.0.0.{last}", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def test_ready_and_waiting_addresses_in_numeric_order() -> None:
    made = endpoints.subsets(SERVICE, [pod(10), pod(9), pod(3, ready=False), pod(4, deletionTimestamp="2026-01-01T00:00:00Z")])
    assert [[each["ip"] for each in made[0][field]] for field in ("addresses", "notReadyAddresses")] == [
        ["10.0.0.9", "10.0.0.10"],
        ["10.0.0.3"],
    ]
    assert made[0]["ports"] == [{"protocol": "TCP", "port": 8080}]


def test_written_once() -> None:
    first = endpoints.desired(SERVICE, [pod(1)], None)
    assert first["metadata"]["labels"] == {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    assert endpoints.same(first, endpoints.desired(SERVICE, [pod(1)], first))
    assert not endpoints.same(first, endpoints.desired(SERVICE, [pod(1, ready=False)], first))


def test_truncated_at_a_thousand() -> None:
    many = [{"ip": f"10.0.{number // 250}.{number % 250}"} for number in range(999)]
    subsets: list[Object] = [{"addresses": many, "notReadyAddresses": [{"ip": "10.1.0.1"}, {"ip": "10.1.0.2"}]}]
    assert endpoints.truncate(subsets)
    assert len(subsets[0]["notReadyAddresses"]) == 1
