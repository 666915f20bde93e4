"""The decision table of a pod worker."""

from typing import Any

import pytest

from node.kubelet.runtime import names
from node.kubelet.runtime.actions import Plan, Verdict, decide
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from tests.support.pod_workers import container, pod

SANDBOX = ObservedSandbox("s1", 0, True, 1, ("10.244.0.2",))
DEAD = ObservedSandbox("s1", 0, False, 1)


def instance(
    name: str = "main", state: State = State.RUNNING, code: int = 0, sandbox: str = "s1", **more: Any
) -> ObservedContainer:
    annotations = {names.CONTAINER_HASH: names.container_hash(container(name))}
    return ObservedContainer(f"c-{name}", name, sandbox, state, exit_code=code, annotations=annotations, **more)


def seen(*containers: ObservedContainer, sandbox: ObservedSandbox | None = SANDBOX) -> ObservedPod:
    return ObservedPod("u", sandboxes=(sandbox,) if sandbox else (), containers=containers)


SIDECAR = container("side", restartPolicy="Always")


def rules(action: str, *codes: int, policy: str = "Never", operator: str = "In", name: str = "main") -> dict[str, Any]:
    rule = {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}
    return container(name, restartPolicy=policy, restartPolicyRules=[rule])


RETRIED = pod(containers=[rules("Restart", 42)])
ALL_ANEW = pod(containers=[rules("RestartAllContainers", 42), container("other")], restartPolicy="Never")
TRIGGER = instance(state=State.EXITED, code=42)

TABLE = [
    pytest.param(RETRIED, seen(instance(state=State.EXITED, code=42)), Plan(start=("main",)), id="a rule restarts"),
    pytest.param(RETRIED, seen(instance(state=State.EXITED, code=1)), Plan(kill_pod=True), id="no rule, its own policy"),
    pytest.param(
        pod(containers=[rules("Restart", 42, operator="NotIn")]),
        seen(instance(state=State.EXITED, code=42)),
        Plan(kill_pod=True),
        id="NotIn",
    ),
    pytest.param(
        pod(containers=[container(restartPolicy="Never"), container("b")]),
        seen(instance(state=State.EXITED), instance("b", State.EXITED)),
        Plan(start=("b",)),
        id="each by its own policy",
    ),
    pytest.param(
        pod(containers=[rules("Restart", 42), container("b", restartPolicy="Never")], restartPolicy="Never"),
        seen(instance(state=State.EXITED, code=42), instance("b", State.EXITED, 1), sandbox=DEAD),
        Plan(True, True, 1, start=("main",)),
        id="in a new sandbox, those that may",
    ),
    pytest.param(
        pod(initContainers=[rules("Restart", 42, name="i")], restartPolicy="Never"),
        seen(instance("i", State.EXITED, 42)),
        Plan(start_init=("i",)),
        id="an init container by its rule",
    ),
    pytest.param(ALL_ANEW, seen(TRIGGER, instance("other")), Plan(reset=TRIGGER), id="all containers anew"),
    pytest.param(
        ALL_ANEW, seen(instance(state=State.EXITED, code=1), instance("other")), Plan(), id="another code: nothing anew"
    ),
    pytest.param(pod(), seen(sandbox=None), Plan(create_sandbox=True, start=("main",)), id="new"),
    pytest.param(pod(), seen(), Plan(start=("main",)), id="sandbox only"),
    pytest.param(pod(), seen(instance()), Plan(), id="running"),
    pytest.param(pod(), seen(instance(state=State.CREATED)), Plan(start=("main",)), id="created, not started"),
    pytest.param(pod(), seen(instance(state=State.EXITED)), Plan(start=("main",)), id="Always restarts success"),
    pytest.param(
        pod(restartPolicy="OnFailure"), seen(instance(state=State.EXITED, code=1)), Plan(start=("main",)), id="OnFailure"
    ),
    pytest.param(pod(restartPolicy="OnFailure"), seen(instance(state=State.EXITED)), Plan(kill_pod=True), id="OnFailure is done"),
    pytest.param(pod(restartPolicy="Never"), seen(instance(state=State.EXITED, code=1)), Plan(kill_pod=True), id="Never is done"),
    pytest.param(
        pod(containers=[container("a"), container("b")], restartPolicy="Never"),
        seen(instance("a"), instance("b", State.EXITED, 1)),
        Plan(),
        id="one still runs",
    ),
    pytest.param(
        pod(), seen(instance(state=State.EXITED), sandbox=DEAD), Plan(True, True, 1, start=("main",)), id="sandbox died"
    ),
    pytest.param(
        pod(restartPolicy="Never"), seen(instance(state=State.EXITED), sandbox=DEAD), Plan(kill_pod=True), id="died, Never"
    ),
    pytest.param(
        pod(hostNetwork=True), seen(instance()), Plan(True, True, 1, start=("main",)), id="network mode differs"
    ),
    pytest.param(
        pod(initContainers=[container("i")]), seen(sandbox=None), Plan(create_sandbox=True, start_init=("i",)), id="init first"
    ),
    pytest.param(pod(initContainers=[container("i")]), seen(instance("i")), Plan(), id="init runs"),
    pytest.param(
        pod(initContainers=[container("i")]), seen(instance("i", State.EXITED)), Plan(start=("main",)), id="init is done"
    ),
    pytest.param(
        pod(initContainers=[container("i")]), seen(instance("i", State.EXITED, 1)), Plan(start_init=("i",)), id="init failed"
    ),
    pytest.param(
        pod(initContainers=[container("i")], restartPolicy="Never"),
        seen(instance("i", State.EXITED, 1)),
        Plan(kill_pod=True),
        id="init failed for good",
    ),
    pytest.param(
        pod(initContainers=[container("i")]), seen(instance()), Plan(), id="init was collected, the pod runs"
    ),
    pytest.param(
        pod(initContainers=[container("i")]),
        seen(instance("i", State.EXITED, sandbox="s0")),
        Plan(start_init=("i",)),
        id="init of an older sandbox does not count",
    ),
    pytest.param(pod(initContainers=[SIDECAR]), seen(instance("side")), Plan(start=("main",)), id="sidecar runs"),
    pytest.param(
        pod(initContainers=[SIDECAR]),
        seen(instance("side", State.EXITED), instance()),
        Plan(start_init=("side",)),
        id="sidecar died",
    ),
    pytest.param(
        pod(initContainers=[SIDECAR, container("i")]), seen(instance("side")), Plan(start_init=("i",)), id="init after a sidecar"
    ),
    pytest.param(
        pod(ephemeralContainers=[container("debug")]), seen(instance()), Plan(start_ephemeral=("debug",)), id="ephemeral"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "observed", "plan"), TABLE)
def test_decide(wanted: dict[str, Any], observed: ObservedPod, plan: Plan) -> None:
    assert decide(wanted, observed, {}) == plan


def test_a_failed_liveness_probe_kills_and_restarts() -> None:
    plan = decide(pod(), seen(instance()), {"c-main": Verdict.LIVENESS_FAILED})
    assert [(kill.container.id, kill.message) for kill in plan.kill] == [
        ("c-main", "Container main failed liveness probe, will be restarted")
    ]
    assert plan.start == ("main",)


def test_a_failed_probe_ends_a_pod_that_is_never_restarted() -> None:
    plan = decide(pod(restartPolicy="Never"), seen(instance()), {"c-main": Verdict.LIVENESS_FAILED})
    assert plan.kill_pod


def test_a_changed_image_replaces_the_container_whatever_the_policy() -> None:
    changed = pod(restartPolicy="Never", containers=[container(image="other:2")])
    plan = decide(changed, seen(instance()), {})
    assert plan.start == ("main",)
    assert plan.kill[0].message == "Container main definition changed, will be restarted"


def test_what_follows_a_sidecar_waits_for_its_startup_probe() -> None:
    plan = decide(pod(initContainers=[SIDECAR]), seen(instance("side")), {"c-side": Verdict.STARTING})
    assert plan == Plan()


def test_a_pod_that_ends_is_not_restarted() -> None:
    ending = pod()
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert decide(ending, seen(instance(state=State.EXITED)), {}) == Plan(kill_pod=True)


def test_the_hash_is_upstreams() -> None:
    assert names.container_hash({"name": "a", "image": "b"}) == names.container_hash({"image": "b", "name": "a", "env": [1]})
    assert names.container_hash({"name": "a", "image": "b"}) != names.container_hash({"name": "a", "image": "c"})
