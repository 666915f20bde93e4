"""What schedulers and drivers may write about a claim."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.kinds.resource.resourceclaim import ResourceClaimStrategy
from controlplane.apiserver.registry.strategy import Context

CONTEXT = Context(UserInfo("u"), "default", "c", "update", datetime(2026, 1, 1, tzinfo=UTC), "status")
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
DEVICE = {"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}


def claim(results: list[dict[str, Any]], devices: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    status = {"allocation": {"devices": {"results": results}}, "devices": devices or []}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    return {"metadata": {"name": "c", "namespace": "default"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("results", "devices", "problem"),
    [
        ([RESULT], [DEVICE], ""),
        ([RESULT], [{**DEVICE, "shareID": "a"}, {**DEVICE, "shareID": "b"}], ""),
        ([{**RESULT, "request": "other"}], [], 'results[0].request: Invalid value: "other": must be the name of a request'),
        ([{**RESULT, "driver": ""}], [], "results[0].driver: Required value"),
        ([{**RESULT, "device": f"d{number}"} for number in range(33)], [], "results: Too many: 33: must have at most 32 items"),
        ([RESULT], [{**DEVICE, "device": "gpu-1"}], "status.devices[0]: Invalid value: "),
        ([RESULT], [DEVICE, DEVICE], "status.devices[1]: Duplicate value"),
        ([RESULT], [{**DEVICE, "conditions": [{}] * 9}], "status.devices[0].conditions: Too many: 9"),
        ([RESULT], [{**DEVICE, "data": {"x": "y" * 11_000}}], "status.devices[0].data: Too long"),
    ],
)
def test_status(results: list[dict[str, Any]], devices: list[dict[str, Any]], problem: str) -> None:
    found = [
        str(each) for each in ResourceClaimStrategy().validate_status_update(CONTEXT, claim(results, devices), claim([RESULT]))
    ]
    found = [each for each in found if "immutable" not in each]
    assert (problem in "\n".join(found)) if problem else not found
