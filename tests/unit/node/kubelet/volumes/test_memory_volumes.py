"""How large a volume in memory may grow: the least of what it says itself, what its pod may use, and what the node has."""

from pathlib import Path
from typing import Any

import pytest

from node.kubelet.volumes.contract import VolumeRequest
from node.kubelet.volumes.plugins.empty_dir import memory_options
from tests.support.pod_workers import container, pod

MI = 1 << 20
NODE = {"memory": "1Gi"}


def _limited(*limits: str | None, **more: Any) -> dict[str, Any]:
    made = [container(f"c{n}", resources={"limits": {"memory": limit}} if limit else {}) for n, limit in enumerate(limits)]
    return pod(containers=made, **more)


@pytest.mark.parametrize(
    ("given", "source", "size"),
    [
        (_limited(None), {}, 1024 * MI),
        (_limited(None), {"sizeLimit": "2Mi"}, 2 * MI),
        (_limited("3Mi", "4Mi"), {}, 7 * MI),
        (_limited("3Mi", "4Mi"), {"sizeLimit": "5Mi"}, 5 * MI),
        (_limited("3Mi", None), {}, 1024 * MI),
        (_limited("3Mi", None, resources={"limits": {"memory": "6Mi"}}), {}, 6 * MI),
        (_limited("3Mi", "4Mi", resources={"limits": {"memory": "9Mi"}}), {}, 9 * MI),
    ],
)
def test_sizes(given: dict[str, Any], source: dict[str, Any], size: int) -> None:
    assert memory_options(VolumeRequest(given, "v", source, Path("/v")), NODE) == f"size={size}"
