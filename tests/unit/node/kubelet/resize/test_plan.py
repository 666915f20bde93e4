"""What a resize is given, and how one set of resources becomes another."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.objects.requests import container_limits, container_requests
from node.kubelet.resize import plan
from node.kubelet.resize.plan import Refusal

OFFERED = {"cpu": "4", "memory": "4Gi"}


def container(name: str = "main", cpu: str = "", memory: str = "", limit: str = "", **more: Any) -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    resources: dict[str, Any] = {"requests": {**requests, "example.com/gpu": "1"}}
    if limit:
        resources["limits"] = {"memory": limit}
    return {"name": name, "resources": resources, **more}


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": list(containers), **spec}}


def test_amounts_are_compared_not_texts() -> None:
    assert plan.same({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}, "limits": {}})
    assert not plan.same({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})


def test_a_view_shows_what_was_given_and_leaves_the_rest() -> None:
    asked = pod(container(cpu="2", memory="1Gi", limit="2Gi"))
    shown = plan.view(asked, {"main": {"requests": {"cpu": "1"}, "limits": {}}})

    assert shown["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1", "example.com/gpu": "1"}}
    assert asked["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2", "informers' objects are never changed"
    assert plan.view(asked, plan.asked(asked)) is asked


@pytest.mark.parametrize(
    ("wanted", "others", "refusal"),
    [
        (pod(container(cpu="2")), [pod(container(cpu="2"))], None),
        (
            pod(container(cpu="5")),
            [],
            Refusal("Infeasible", "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"),
        ),
        (
            pod(container(memory="5Gi", cpu="9")),
            [],
            Refusal("Infeasible", f"Node didn't have enough capacity: memory, requested: {5 << 30}, capacity: {4 << 30}"),
        ),
        (
            pod(container(cpu="3")),
            [pod(container(cpu="2"))],
            Refusal("Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"),
        ),
        (pod(container(cpu="3")), [{**pod(container(cpu="2")), "status": {"phase": "Succeeded"}}], None),
    ],
)
def test_a_node_gives_what_it_has(wanted: dict[str, Any], others: list[dict[str, Any]], refusal: Refusal | None) -> None:
    assert plan.refuse(wanted, others, OFFERED, plan.asked(wanted), plan.Fixed()) == refusal


def test_static_pods_are_not_resized() -> None:
    static = pod(container(cpu="1"))
    static["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
    refusal = plan.refuse(static, [], OFFERED, plan.asked(static), plan.Fixed())
    assert refusal == Refusal("Infeasible", "In-place resize of static-pods is not supported")


def guaranteed(cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    listed = {"cpu": cpu, "memory": memory}
    return pod({"name": "main", "resources": {"requests": listed, "limits": listed}, **more})


@pytest.mark.parametrize(
    ("wanted", "fixed", "message"),
    [
        pytest.param(
            guaranteed("2", "1Gi"),
            plan.Fixed(cpus=True),
            'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
            id="CPUs that are owned",
        ),
        pytest.param(
            guaranteed("1", "2Gi"),
            plan.Fixed(memory=True),
            'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"',
            id="memory that is owned",
        ),
        pytest.param(guaranteed("1000m", "2Gi"), plan.Fixed(cpus=True), None, id="only the other is owned"),
        pytest.param(pod(container(cpu="2", memory="1Gi")), plan.Fixed(cpus=True, memory=True), None, id="a Burstable pod"),
        pytest.param(
            pod(container(cpu="1", memory="2Gi")),
            plan.Fixed(swaps=lambda pod, container: True),
            "In-place resize of containers with swap is not supported.",
            id="memory of a container that may swap",
        ),
        pytest.param(
            pod(container(cpu="1", memory="2Gi", resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}])),
            plan.Fixed(swaps=lambda pod, container: True),
            None,
            id="it is restarted anyway",
        ),
    ],
)
def test_what_a_node_cannot_change_while_a_container_runs(wanted: dict[str, Any], fixed: plan.Fixed, message: str | None) -> None:
    given = {"main": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}
    refusal = plan.refuse(wanted, [], OFFERED, given, fixed)
    assert refusal == (Refusal("Infeasible", message) if message else None)


@pytest.mark.parametrize(
    ("policy", "before", "after", "restarts"),
    [
        ("NotRequired", {"limits": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}}, False),
        ("RestartContainer", {"limits": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}}, True),
        ("RestartContainer", {"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}, False),
        ("RestartContainer", {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, False),
    ],
)
def test_a_container_is_restarted_only_for_what_it_says(
    policy: str, before: dict[str, Any], after: dict[str, Any], restarts: bool
) -> None:
    one = container(resizePolicy=[{"resourceName": "memory", "restartPolicy": policy}])
    assert plan.restarts(one, before, after) == restarts


_amount = st.sampled_from(["", "100m", "1", "2", "2500m"])


@given(_amount, _amount, st.sampled_from(["", "1Gi", "3Gi"]), st.sampled_from(["", "512Mi", "2Gi"]))
def test_the_envelope_holds_both_sides(cpu: str, other_cpu: str, limit: str, other_limit: str) -> None:
    before, after = pod(container(cpu=cpu, limit=limit)), pod(container(cpu=other_cpu, limit=other_limit))
    (around,) = plan.envelope(before, after)["spec"]["containers"]

    for side in (before, after):
        (one,) = side["spec"]["containers"]
        assert container_requests(around).get("cpu", 0) >= container_requests(one).get("cpu", 0)
        wanted = container_limits(one).get("memory")
        bound = container_limits(around).get("memory")
        assert bound is None or (wanted is not None and bound >= wanted), "a side without a limit is bounded by none"
