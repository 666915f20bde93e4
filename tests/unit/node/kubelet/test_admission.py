"""What the kubelet checks of extended resources when a pod comes, and what it leaves to the device manager."""

from typing import Any

import pytest

from node.kubelet.admission import refuse

GPU = "example.com/gpu"


def asking(count: int) -> dict[str, Any]:
    amounts = {GPU: str(count)}
    container = {"name": "c", "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": {"name": "p", "uid": f"u{count}"}, "spec": {"containers": [container]}}


def node(count: int | None) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "status": {"allocatable": {GPU: str(count)} if count is not None else {}}}


@pytest.mark.parametrize(
    ("offered", "managed", "reason"),
    [
        pytest.param(3, (), None, id="enough"),
        pytest.param(2, (), "OutOfexample.com/gpu", id="too-few"),
        pytest.param(0, {GPU}, None, id="the-device-manager-will-say"),
        pytest.param(None, (), None, id="not-a-resource-of-this-node"),
    ],
)
def test_extended_resources(offered: int | None, managed: Any, reason: str | None) -> None:
    refused = refuse(asking(2), [asking(1)], {"pods": "110"}, node(offered), managed=managed)
    assert (refused[0] if refused else None) == reason
    if refused:
        what = f"Node didn't have enough resource: {GPU}, requested: 2, used: 1, capacity: 2"
        assert refused[1] == f"Pod was rejected: {what}"
