from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.objects import pods


def ready_pod(since: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}}


@pytest.mark.parametrize(("min_ready", "expected"), [(0, True), (9, True), (11, False)])
def test_available_after_min_ready_seconds(min_ready: int, expected: bool) -> None:
    now = datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert pods.is_available(ready_pod(), min_ready, now) is expected
    assert not pods.is_available({}, min_ready, now)


@pytest.mark.parametrize(
    ("target", "protocol", "expected"), [(80, "TCP", 80), ("http", "TCP", 8080), ("http", "UDP", None), ("dns", "UDP", 53)]
)
def test_find_port(target: int | str, protocol: str, expected: int | None) -> None:
    pod = {
        "spec": {
            "initContainers": [
                {"restartPolicy": "Always", "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
                {"ports": [{"name": "http", "containerPort": 1}]},
            ],
            "containers": [{"ports": [{"name": "http", "containerPort": 8080}]}],
        }
    }
    assert pods.find_port(pod, target, protocol) == expected


def test_host_ports_count_running_containers_only() -> None:
    pod = {
        "spec": {
            "initContainers": [{"ports": [{"containerPort": 1, "hostPort": 1}]}],
            "containers": [{"ports": [{"containerPort": 2, "hostPort": 2, "protocol": "UDP"}, {"containerPort": 3}]}],
        }
    }
    assert pods.host_ports(pod) == [("UDP", "0.0.0.0", 2)]


@pytest.mark.parametrize(("text", "expected"), [(None, 0), ("-7", -7), ("a lot", 0)])
def test_deletion_cost(text: str | None, expected: int) -> None:
    annotations = {} if text is None else {pods.DELETION_COST_ANNOTATION: text}
    assert pods.deletion_cost({"metadata": {"annotations": annotations}}) == expected
