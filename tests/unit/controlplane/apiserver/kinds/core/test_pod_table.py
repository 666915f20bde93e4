"""``kubectl get pods`` as upstream's printPod prints it (pkg/printers/internalversion)."""

from typing import Any

import pytest

from tests.support.kinds import NOW, strategy

Object = dict[str, Any]

ENDED = "2026-11-30T11:55:00Z"


def running(ready: bool = True, restarts: int = 0, **more: Any) -> Object:
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": {"running": {}}, **more}


def waiting(reason: str, **more: Any) -> Object:
    return {"name": "c", "state": {"waiting": {"reason": reason}}, **more}


def terminated(code: int = 0, reason: str = "", **more: Any) -> Object:
    return {"name": "c", "state": {"terminated": {"exitCode": code, "reason": reason}}, **more}


LAST = {"lastState": {"terminated": {"finishedAt": ENDED}}}
READY = [{"type": "Ready", "status": "True"}]


def case(
    name: str, ready: str, status: str, restarts: str, *, meta: Object | None = None, spec: Object | None = None, **more: Any
) -> Any:
    return pytest.param(meta or {}, spec or {}, more, ready, status, restarts, id=name)


CASES = [
    case("pending", "0/1", "Pending", "0", phase="Pending"),
    case("creating", "0/1", "ContainerCreating", "0", phase="Pending", containerStatuses=[waiting("ContainerCreating")]),
    case("running", "1/1", "Running", "0", phase="Running", containerStatuses=[running()]),
    case("not ready", "0/1", "Running", "0", phase="Running", containerStatuses=[running(ready=False)]),
    case("restarted", "1/1", "Running", "3 (5m ago)", phase="Running", containerStatuses=[running(restarts=3, **LAST)]),
    case("restarts of unknown age", "1/1", "Running", "3", phase="Running", containerStatuses=[running(restarts=3)]),
    case(
        "crash loop",
        "0/1",
        "CrashLoopBackOff",
        "2 (5m ago)",
        phase="Running",
        containerStatuses=[waiting("CrashLoopBackOff", restartCount=2, **LAST)],
    ),
    case("pull failed", "0/1", "ErrImagePull", "0", phase="Pending", containerStatuses=[waiting("ErrImagePull")]),
    case("completed", "0/1", "Completed", "0", phase="Succeeded", containerStatuses=[terminated(0, "Completed")]),
    case("failed", "0/1", "Error", "0", phase="Failed", containerStatuses=[terminated(1, "Error")]),
    case("exit code alone", "0/1", "ExitCode:7", "0", phase="Failed", containerStatuses=[terminated(7)]),
    case(
        "signal alone",
        "0/1",
        "Signal:9",
        "0",
        phase="Failed",
        containerStatuses=[{"name": "c", "state": {"terminated": {"exitCode": 137, "signal": 9}}}],
    ),
    case("evicted", "0/1", "Evicted", "0", phase="Failed", reason="Evicted"),
    case(
        "terminating",
        "1/1",
        "Terminating",
        "0",
        meta={"deletionTimestamp": ENDED},
        phase="Running",
        containerStatuses=[running()],
    ),
    case(
        "node lost",
        "1/1",
        "Unknown",
        "0",
        meta={"deletionTimestamp": ENDED},
        phase="Running",
        reason="NodeLost",
        containerStatuses=[running()],
    ),
    case(
        "finished while going",
        "0/1",
        "Completed",
        "0",
        meta={"deletionTimestamp": ENDED},
        phase="Succeeded",
        containerStatuses=[terminated(0, "Completed")],
    ),
    case(
        "one of two done, ready",
        "1/1",
        "Running",
        "0",
        phase="Running",
        conditions=READY,
        containerStatuses=[terminated(0, "Completed"), running()],
    ),
    case(
        "one of two done, not ready",
        "1/1",
        "NotReady",
        "0",
        phase="Running",
        containerStatuses=[terminated(0, "Completed"), running()],
    ),
    case(
        "initialising",
        "0/1",
        "Init:0/2",
        "0",
        spec={"initContainers": [{"name": "a"}, {"name": "b"}]},
        phase="Pending",
        initContainerStatuses=[
            {"name": "a", "state": {"running": {}}},
            {"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}},
        ],
        containerStatuses=[waiting("PodInitializing")],
    ),
    case(
        "second init container",
        "0/1",
        "Init:1/2",
        "0",
        spec={"initContainers": [{"name": "a"}, {"name": "b"}]},
        phase="Pending",
        initContainerStatuses=[{"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"running": {}}}],
    ),
    case(
        "init container fails",
        "0/1",
        "Init:CrashLoopBackOff",
        "4 (5m ago)",
        spec={"initContainers": [{"name": "a"}]},
        phase="Pending",
        initContainerStatuses=[{"name": "a", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, **LAST}],
    ),
    case(
        "init container ended badly",
        "0/1",
        "Init:Error",
        "0",
        spec={"initContainers": [{"name": "a"}]},
        phase="Pending",
        initContainerStatuses=[{"name": "a", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
    ),
    case(
        "sidecar counts",
        "2/2",
        "Running",
        "1 (5m ago)",
        spec={"initContainers": [{"name": "a", "restartPolicy": "Always"}]},
        phase="Running",
        initContainerStatuses=[
            {"name": "a", "ready": True, "started": True, "restartCount": 1, "state": {"running": {}}, **LAST}
        ],
        containerStatuses=[running()],
    ),
    case(
        "restarts of finished init containers are forgotten",
        "1/1",
        "Running",
        "0",
        spec={"initContainers": [{"name": "a"}]},
        phase="Running",
        initContainerStatuses=[{"name": "a", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}}],
        containerStatuses=[running()],
    ),
]


@pytest.mark.parametrize(("meta", "spec", "status", "ready", "word", "restarts"), CASES)
def test_row(meta: Object, spec: Object, status: Object, ready: str, word: str, restarts: str) -> None:
    obj = {
        "metadata": {"name": "p", "creationTimestamp": "2026-11-30T11:50:00Z", **meta},
        "spec": {"containers": [{"name": "c"}], **spec},
        "status": status,
    }
    assert strategy("pods").row(obj, NOW)[:5] == ["p", ready, word, restarts, "10m"]


def test_wide_columns() -> None:
    obj = {
        "metadata": {"name": "p", "creationTimestamp": "2026-11-30T11:50:00Z"},
        "spec": {
            "containers": [{"name": "c"}],
            "nodeName": "n1",
            "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}],
        },
        "status": {"podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "a", "status": "True"}]},
    }
    assert strategy("pods").row(obj, NOW)[5:] == ["10.0.0.1", "n1", "<none>", "1/2"]
