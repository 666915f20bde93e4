"""The status of a pod: phases, container states and conditions from what is observed."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from node.kubelet.pod_status import Failure, Inputs, pod_status
from node.kubelet.pod_sync import not_yet_over
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from tests.support.pod_workers import container, pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SANDBOX = ObservedSandbox("s", 0, True, 1, ("10.244.0.2",))
SIDECAR = container("side", restartPolicy="Always")


def one(name: str = "main", state: State = State.RUNNING, code: int = 0, **more: Any) -> ObservedContainer:
    return ObservedContainer(f"id-{name}", name, "s", state, exit_code=code, started_at=10**18, finished_at=10**18, **more)


def seen(*containers: ObservedContainer) -> ObservedPod:
    return ObservedPod("u", sandboxes=(SANDBOX,), containers=containers)


def made(wanted: dict[str, Any], observed: ObservedPod, **given: Any) -> dict[str, Any]:
    return pod_status(wanted, observed, Inputs(NOW, node_ips=("192.0.2.1",), **given))


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(each for each in status["conditions"] if each["type"] == kind)


def ruled(action: str, policy: str = "Never") -> dict[str, Any]:
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
    return container(restartPolicy=policy, restartPolicyRules=[rule])


ALL_ANEW = pod(containers=[ruled("RestartAllContainers"), container("b")], restartPolicy="Never")
BACK_OFF = {"main": ("CrashLoopBackOff", "back-off 10s restarting")}

PHASES = [
    pytest.param(pod(), ObservedPod("u"), {}, "Pending", id="nothing yet"),
    pytest.param(pod(), seen(one(state=State.CREATED)), {}, "Pending", id="created"),
    pytest.param(pod(), seen(one()), {}, "Running", id="running"),
    pytest.param(pod(), seen(one(state=State.EXITED, code=1)), {"waiting": BACK_OFF}, "Running", id="backing off"),
    pytest.param(pod(restartPolicy="OnFailure"), seen(one(state=State.EXITED, code=1)), {}, "Running", id="OnFailure failed"),
    pytest.param(pod(restartPolicy="OnFailure"), seen(one(state=State.EXITED)), {}, "Succeeded", id="OnFailure succeeded"),
    pytest.param(pod(restartPolicy="Never"), seen(one(state=State.EXITED, code=1)), {}, "Failed", id="Never failed"),
    pytest.param(pod(), seen(one(state=State.EXITED, code=143)), {"stopped": True}, "Failed", id="ended by a signal"),
    pytest.param(pod(), seen(one(state=State.EXITED)), {"stopped": True}, "Succeeded", id="ended politely"),
    pytest.param(pod(), ObservedPod("u"), {"stopped": True}, "Failed", id="ended before it began"),
    pytest.param(pod(), seen(one()), {"failure": Failure("Evicted", "m")}, "Failed", id="evicted"),
    pytest.param(pod(initContainers=[container("i")]), seen(one("i")), {}, "Pending", id="initialising"),
    pytest.param(pod(initContainers=[container("i")]), seen(one("i", State.EXITED, 1)), {}, "Pending", id="init failed, retried"),
    pytest.param(
        pod(initContainers=[container("i")], restartPolicy="Never"), seen(one("i", State.EXITED, 1)), {}, "Failed", id="no retry"
    ),
    pytest.param(pod(initContainers=[SIDECAR]), seen(one("side"), one()), {}, "Running", id="with a sidecar"),
    pytest.param(pod(), seen(one()), {"previous": {"phase": "Failed"}}, "Failed", id="an end is final"),
    pytest.param(pod(containers=[ruled("Restart")]), seen(one(state=State.EXITED, code=42)), {}, "Running", id="a rule restarts"),
    pytest.param(pod(containers=[ruled("Restart")]), seen(one(state=State.EXITED, code=1)), {}, "Failed", id="no rule matches"),
    pytest.param(
        pod(containers=[container(restartPolicy="Always")], restartPolicy="Never"),
        seen(one(state=State.EXITED, code=1)), {}, "Running", id="a policy of its own",
    ),
    pytest.param(
        pod(initContainers=[container("i", restartPolicy="Never")]), seen(one("i", State.EXITED, 1)), {}, "Failed",
        id="an init container that is never restarted",
    ),
    pytest.param(ALL_ANEW, seen(one(state=State.EXITED, code=42), one("b", State.EXITED, 1)), {}, "Running", id="all anew"),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "observed", "given", "phase"), PHASES)
def test_phase(wanted: dict[str, Any], observed: ObservedPod, given: dict[str, Any], phase: str) -> None:
    assert made(wanted, observed, **given)["phase"] == phase


def test_a_new_pod() -> None:
    status = made(pod(), ObservedPod("u"))
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert status["startTime"] == "2026-01-01T12:00:00Z"
    assert "podIP" not in status
    assert status["hostIP"] == "192.0.2.1"
    assert condition(status, "Ready")["message"] == "containers with unready status: [main]"
    assert condition(status, "PodReadyToStartContainers")["status"] == "False"
    assert status["observedGeneration"] == 1


def test_a_pod_that_failed_before_it_was_initialized_says_at_which_container() -> None:
    inits = [container("i"), container("j")]
    status = made(pod(initContainers=inits, restartPolicy="Never"), seen(one("i", State.EXITED), one("j", State.EXITED, 1)))
    assert status["phase"] == "Failed"
    found = condition(status, "Initialized")
    assert (found["status"], found["reason"]) == ("False", "ContainersNotInitialized")
    assert found["message"] == "containers with incomplete status: [j]"
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_a_ready_pod() -> None:
    status = made(pod(), seen(one()))
    assert {each["type"]: each["status"] for each in status["conditions"]} == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True"
    )
    assert status["podIPs"] == [{"ip": "10.244.0.2"}]


def test_transition_times_move_only_with_the_status() -> None:
    first = made(pod(), seen(one()))
    later = pod_status(pod(), seen(one()), Inputs(NOW.replace(hour=13), previous=first))
    assert later["conditions"] == first["conditions"]
    unready = pod_status(pod(), seen(one()), Inputs(NOW.replace(hour=13), previous=first, ready=lambda cid: False))
    assert condition(unready, "Ready")["lastTransitionTime"] == "2026-01-01T13:00:00Z"
    assert condition(unready, "Initialized")["lastTransitionTime"] == "2026-01-01T12:00:00Z"


def test_back_off_shows_the_last_end() -> None:
    status = made(pod(), seen(one(state=State.EXITED, code=3)), waiting=BACK_OFF)["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 3


def test_the_previous_instance_is_the_last_state() -> None:
    old = replace(one(state=State.EXITED, code=9), id="old")
    again = replace(one(), annotations={"io.kubernetes.container.restartCount": "1"})
    status = made(pod(), seen(again, old))["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 9


def test_a_container_that_vanished_is_told() -> None:
    before = {"containerStatuses": [{"name": "main", "state": {"running": {}}, "restartCount": 2}]}
    status = made(pod(), ObservedPod("u"), previous=before)["containerStatuses"][0]
    assert status["restartCount"] == 3
    assert status["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_a_finished_container_is_remembered_after_the_runtime_forgot_it() -> None:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    before = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": ended, "restartCount": 0}]}
    status = made(pod(restartPolicy="Never"), ObservedPod("u"), previous=before)
    assert status["containerStatuses"][0]["state"] == ended
    assert status["phase"] == "Succeeded"


def test_readiness_gates() -> None:
    gated = pod(readinessGates=[{"conditionType": "example.org/ok"}])
    status = made(gated, seen(one()))
    assert condition(status, "ContainersReady")["status"] == "True"
    assert condition(status, "Ready")["reason"] == "ReadinessGatesNotReady"
    open_gate = {"conditions": [{"type": "example.org/ok", "status": "True"}]}
    assert condition(made(gated, seen(one()), previous=open_gate), "Ready")["status"] == "True"


def test_no_address_is_lost_when_the_sandbox_stops() -> None:
    stopped = ObservedPod("u", sandboxes=(replace(SANDBOX, ready=False, ips=()),), containers=(one(state=State.EXITED),))
    status = made(pod(restartPolicy="Never"), stopped, previous={"podIP": "10.244.0.2", "podIPs": [{"ip": "10.244.0.2"}]})
    assert status["podIP"] == "10.244.0.2"


def test_the_end_is_not_told_before_everything_has_ended() -> None:
    computed = {"phase": "Failed", "reason": "Evicted", "message": "m", "conditions": []}
    assert not_yet_over(computed, {"phase": "Running"}) == {"phase": "Running", "conditions": []}
    assert not_yet_over(computed, {"phase": "Failed"}) == computed
    assert not_yet_over({"phase": "Running"}, {}) == {"phase": "Running"}


def test_the_health_of_devices() -> None:
    health = [{"name": "example.com/gpu", "resources": [{"resourceID": "a", "health": "Unhealthy"}]}]
    wanted = pod(containers=[container("main"), container("other")], initContainers=[container("init")])
    observed = seen(one("main"), one("other"), one("init", State.EXITED))
    status = made(wanted, observed, resource_health=lambda name: health if name in ("main", "init") else [])
    assert [each.get("allocatedResourcesStatus") for each in status["containerStatuses"]] == [health, None]
    assert "allocatedResourcesStatus" not in status["initContainerStatuses"][0]  # as upstream: of ordinary containers alone


def test_an_eviction_says_that_the_pod_was_disrupted() -> None:
    evicted = made(pod(), seen(one()), failure=Failure("Evicted", "low", disrupted=True))
    refused = made(pod(), ObservedPod("u"), failure=Failure("OutOfcpu", "no"))

    assert (evicted["reason"], evicted["message"]) == ("Evicted", "low")
    disrupted = condition(evicted, "DisruptionTarget")
    assert (disrupted["status"], disrupted["reason"], disrupted["message"]) == ("True", "TerminationByKubelet", "low")
    assert "DisruptionTarget" not in [each["type"] for each in refused["conditions"]]


def test_all_containers_anew() -> None:
    observed = seen(one(state=State.EXITED, code=42), one("b"))
    status = made(ALL_ANEW, observed)
    restarting = condition(status, "AllContainersRestarting")
    assert (restarting["status"], restarting["reason"]) == ("True", "RestartAllContainersStarted")
    assert restarting["message"] == "container exited with restart policy rule"
    removed = made(ALL_ANEW, seen(), previous=status)
    assert condition(removed, "AllContainersRestarting")["status"] == "False"
    assert removed["phase"] == "Running"
    main = removed["containerStatuses"][0]
    assert main["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert main["lastState"]["terminated"]["exitCode"] == 42
    again = made(ALL_ANEW, seen(one("b", State.EXITED, 0)), previous=removed)
    assert again["phase"] == "Running", "main has not been started yet"


@pytest.mark.parametrize(
    ("wish", "able", "shown"),
    [(None, True, "Disabled"), ("IfPossible", True, "Enabled"), ("IfPossible", False, "Disabled"), ("Enabled", True, "Enabled")],
)
def test_how_far_down_a_mount_is_read_only(wish: str | None, able: bool, shown: str) -> None:
    mount = {"name": "v", "mountPath": "/v", "readOnly": True, **({"recursiveReadOnly": wish} if wish else {})}
    status = made(pod(containers=[container(volumeMounts=[mount])]), seen(one()), recursive=able)
    assert status["containerStatuses"][0]["volumeMounts"][0]["recursiveReadOnly"] == shown


def test_the_stop_signal_is_the_one_that_the_runtime_uses() -> None:
    status = made(pod(), seen(one(stop_signal="SIGRTMIN+1")))
    assert status["containerStatuses"][0]["stopSignal"] == "SIGRTMIN+1"
    assert "stopSignal" not in made(pod(), seen(one()))["containerStatuses"][0]
