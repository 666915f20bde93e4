from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.controllers.resourcepoolstatusrequest import expiry, pools_of, status_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def request(**spec: Any) -> Object:
    return {"metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"driver": "d", **spec}}


def piece(pool: str, devices: int, *, driver: str = "d", node: str = "n", generation: int = 1, of: int = 1) -> Object:
    described = {"name": pool, "generation": generation, "resourceSliceCount": of}
    return {
        "spec": {"driver": driver, "nodeName": node, "pool": described, "devices": [{"name": str(n)} for n in range(devices)]}
    }


def claim(pool: str, *devices: str) -> Object:
    results = [{"driver": "d", "pool": pool, "device": each} for each in devices]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def test_newest_slices_less_what_is_allocated() -> None:
    slices = [
        piece("b", 9, generation=1),
        piece("b", 2, generation=2, of=2),
        piece("b", 1, generation=2, of=2, node="m"),
        piece("a", 1),
        piece("a", 5, driver="other"),
    ]
    a, b = pools_of(request(), slices, [claim("b", "0"), claim("a", "0", "x")])
    assert a == {
        "driver": "d",
        "poolName": "a",
        "generation": 1,
        "nodeName": "n",
        "resourceSliceCount": 1,
        "totalDevices": 1,
        "allocatedDevices": 2,
        "availableDevices": 0,
        "unavailableDevices": 0,
    }
    assert "nodeName" not in b
    assert (b["generation"], b["resourceSliceCount"], b["totalDevices"], b["availableDevices"]) == (2, 2, 3, 2)
    assert pools_of(request(poolName="a"), slices, ()) == [{**a, "allocatedDevices": 0, "availableDevices": 1}]


def test_a_pool_with_slices_missing() -> None:
    (found,) = pools_of(request(), [piece("a", 1, of=3)], ())
    assert found["validationError"] == "pool d/a is incomplete: observed 1/3 slices at generation 1"
    assert "totalDevices" not in found


def test_answers_are_cut_to_the_limit() -> None:
    pools = pools_of(request(), [piece(name, 1) for name in "abc"], ())
    found = status_of(request(limit=2), pools, NOW)
    assert (found["poolCount"], [pool["poolName"] for pool in found["pools"]]) == (3, ["a", "b"])
    assert found["conditions"][0]["message"] == "Calculated status for 2 pools"
    assert "pools" not in status_of(request(), [], NOW)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (None, "2026-01-02T00:00:00+00:00"),
        ({"conditions": [{"type": "Complete", "lastTransitionTime": "2026-01-01T12:00:00Z"}]}, "2026-01-01T13:00:00+00:00"),
        ({"poolCount": 0}, "2026-01-01T01:00:00+00:00"),
    ],
)
def test_expiry(status: Object | None, wanted: str) -> None:
    found = expiry({**request(), "status": status})
    assert found is not None
    assert found.isoformat() == wanted
