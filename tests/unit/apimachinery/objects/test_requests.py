from typing import Any

import pytest

from apimachinery.objects import requests


def container(cpu: str = "", memory: str = "", **more: Any) -> dict[str, Any]:
    wanted = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return {"resources": {"requests": wanted}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container("100m", "1Ki"), container("1")]}, {"cpu": 1100, "memory": 1024}, id="sum"),
        pytest.param(
            {"containers": [container("100m")], "initContainers": [container("1"), container("2", "5")]},
            {"cpu": 2000, "memory": 5},
            id="largest-init-container",
        ),
        pytest.param(
            {
                "containers": [container("100m")],
                "initContainers": [container("1", restartPolicy="Always"), container("2"), container("1")],
            },
            {"cpu": 3000},
            id="sidecar-runs-beside-later-init-containers",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("1", restartPolicy="Always")]},
            {"cpu": 2000},
            id="sidecar-adds-to-containers",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250}, id="overhead"),
        pytest.param(
            {"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "2"}}},
            {"cpu": 2000, "memory": 1024**3},
            id="pod-level",
        ),
    ],
)
def test_pod_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert requests.pod_requests({"spec": spec}) == expected


def test_scoring_counts_silent_containers() -> None:
    pod = {"spec": {"containers": [container(), container("500m", "1Mi")]}}
    assert requests.nonzero_requests(pod) == (600, 200 * 1024**2 + 1024**2)
