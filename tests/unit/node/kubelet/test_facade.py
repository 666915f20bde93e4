"""Which log is shown, and what is said when there is none."""

from typing import Any

import pytest

from apimachinery.errors import StatusError
from node.kubelet.facade import logged_instance
from tests.support.pod_workers import pod

RUNNING = {"running": {}}
WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}


def _ended(name: str) -> dict[str, Any]:
    return {"terminated": {"containerID": f"containerd://{name}"}}


def _pod(**status: Any) -> dict[str, Any]:
    listed = [{"name": "main", "containerID": "containerd://now", **status}] if status else []
    return {**pod(), "status": {"containerStatuses": listed}}


@pytest.mark.parametrize(
    ("status", "previous", "instance"),
    [
        pytest.param({"state": RUNNING}, False, "now", id="running"),
        pytest.param({"state": RUNNING, "lastState": _ended("old")}, True, "old", id="previous"),
        pytest.param({"state": _ended("done")}, False, "done", id="ended"),
        pytest.param({"state": WAITING, "lastState": _ended("old")}, False, "old", id="backing off"),
        pytest.param({"state": WAITING, "lastState": _ended("old")}, True, "old", id="backing off, previous"),
    ],
)
def test_the_instance(status: dict[str, Any], previous: bool, instance: str) -> None:
    assert logged_instance(_pod(**status), "main", previous=previous) == instance


@pytest.mark.parametrize(
    ("status", "previous", "text"),
    [
        pytest.param({}, False, 'container "main" in pod "web" is not available', id="no status"),
        pytest.param({"state": RUNNING}, True, 'previous terminated container "main" in pod "web" not found', id="no previous"),
        pytest.param({"state": {"waiting": {"reason": "ContainerCreating"}}}, False,
                     'container "main" in pod "web" is waiting to start: ContainerCreating', id="creating"),
        pytest.param({"state": {"waiting": {"reason": "ErrImagePull"}}}, False,
                     'container "main" in pod "web" is waiting to start: image can\'t be pulled', id="pull"),
        pytest.param({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, False,
                     'container "main" in pod "web" is waiting to start: trying and failing to pull image', id="back-off"),
        pytest.param({"state": {}}, False, 'container "main" in pod "web" is waiting to start - no logs yet', id="nothing"),
    ],
)  # fmt: skip
def test_what_is_said(status: dict[str, Any], previous: bool, text: str) -> None:
    with pytest.raises(StatusError) as raised:
        logged_instance(_pod(**status), "main", previous=previous)
    assert raised.value.code == 400
    assert raised.value.message == text
