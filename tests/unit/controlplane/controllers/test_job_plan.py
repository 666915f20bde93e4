from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apimachinery.meta import Object
from apimachinery.times import format_time
from controlplane.controllers.job import indexes, plan
from controlplane.controllers.job.status import next_status

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def job(status: Object | None = None, **spec: Any) -> Object:
    wanted = {"completions": 3, "parallelism": 2, "template": {"spec": {}}, **spec}
    return {"metadata": {"name": "work", "namespace": "ns", "uid": "j"}, "spec": wanted, "status": status or {}}


def pod(name: str, phase: str = "Running", *, tracked: bool = True, ended: float = 0, index: int = -1, **meta: Any) -> Object:
    metadata: Object = {"name": name, "uid": name, **meta}
    if tracked:
        metadata["finalizers"] = [plan.FINALIZER]
    if index >= 0:
        metadata["annotations"] = {indexes.ANNOTATION: str(index)}
    finished = {"finishedAt": format_time(NOW - timedelta(seconds=ended))}
    statuses = [{"state": {"terminated": finished}}] if phase in ("Failed", "Succeeded") else []
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, "containerStatuses": statuses}}


@pytest.mark.parametrize(
    ("text", "numbers"), [("", set()), ("0", {0}), ("0,2-4", {0, 2, 3, 4}), ("1,2", {1, 2}), ("0-2,7,9", {0, 1, 2, 7, 9})]
)
def test_indexes_go_both_ways(text: str, numbers: set[int]) -> None:
    assert indexes.parse(text) == numbers
    assert indexes.show(numbers) == text


def test_a_finished_pod_is_listed_then_released_then_counted() -> None:
    of = job()
    found = plan.tally(of, [pod("a", "Succeeded")])
    assert (found.succeeded, found.settled_succeeded, found.uncounted_succeeded) == (1, 0, ["a"])
    of["status"] = next_status(of, found, None, NOW)
    assert of["status"]["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    again = plan.tally(of, [pod("a", "Succeeded")])
    assert (again.succeeded, len(again.to_release)) == (1, 1)
    released = plan.tally(of, [pod("a", "Succeeded", tracked=False)])
    assert (released.succeeded, released.settled_succeeded, released.uncounted_succeeded) == (1, 1, [])
    of["status"] = next_status(of, released, None, NOW)
    assert (of["status"]["succeeded"], of["status"]["uncountedTerminatedPods"]) == (1, {})
    assert plan.tally(of, []).succeeded == 1


@pytest.mark.parametrize(
    ("of", "pods", "expected"),
    [
        pytest.param(job(), [], ([-1, -1], []), id="as-many-as-may-run"),
        pytest.param(job({"succeeded": 2}), [], ([-1], []), id="only-what-is-missing"),
        pytest.param(job(), [pod("a"), pod("b")], ([], []), id="enough"),
        pytest.param(job(parallelism=1), [pod("a"), pod("b")], ([], ["a"]), id="too-many"),
        pytest.param(job(suspend=True), [pod("a")], ([], ["a"]), id="suspended"),
        pytest.param(job(completionMode="Indexed"), [pod("a", index=0)], ([1], []), id="next-index"),
        pytest.param(job({"completedIndexes": "0,1"}, completionMode="Indexed"), [], ([2], []), id="last-index"),
        pytest.param(job(completions=None), [pod("a", "Succeeded"), pod("b")], ([], []), id="queue-runs-dry"),
    ],
)
def test_steps(of: Object, pods: list[Object], expected: tuple[list[int], list[str]]) -> None:
    step = plan.next_step(of, plan.tally(of, pods), pods, NOW)
    assert (step.start, [each["metadata"]["name"] for each in step.stop]) == expected


@pytest.mark.parametrize(
    ("of", "pods", "expected"),
    [
        pytest.param(job(), [pod("a")], None, id="goes-on"),
        pytest.param(job({"succeeded": 3}), [], "CompletionsReached", id="complete"),
        pytest.param(job(completions=None), [pod("a", "Succeeded")], "CompletionsReached", id="queue-empty"),
        pytest.param(job(completions=None), [pod("a", "Succeeded"), pod("b")], None, id="queue-still-worked-on"),
        pytest.param(job({"failed": 7}), [], "BackoffLimitExceeded", id="too-many-failures"),
        pytest.param(job({"failed": 6}), [], None, id="just-not-too-many"),
        pytest.param(
            job({"startTime": "2026-01-01T11:00:00Z"}, activeDeadlineSeconds=60), [pod("a")], "DeadlineExceeded", id="too-late"
        ),
        pytest.param(
            job({"conditions": [{"type": "FailureTarget", "status": "True", "reason": "X"}], "succeeded": 3}),
            [],
            "X",
            id="decided",
        ),
    ],
)
def test_verdicts(of: Object, pods: list[Object], expected: str | None) -> None:
    over = plan.verdict(of, plan.tally(of, pods), NOW)
    assert (over.reason if over else None) == expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], 0, id="no-failure"),
        pytest.param([pod("a", "Failed", ended=4)], 6, id="first"),
        pytest.param([pod("a", "Failed", ended=50), pod("b", "Failed", ended=5)], 15, id="second"),
        pytest.param([pod("a", "Failed", ended=4), pod("b", "Succeeded", ended=1)], 0, id="a-success-resets"),
    ],
)
def test_backoff(pods: list[Object], expected: float) -> None:
    of = job()
    assert plan.backoff_left(plan.tally(of, pods), pods, NOW) == expected


def test_the_last_condition_waits_for_the_pods() -> None:
    of = job({"succeeded": 3})
    found = plan.tally(of, [pod("a", deletionTimestamp="2026-01-01T00:00:00Z", tracked=False)])
    over = plan.verdict(of, found, NOW)
    first = next_status(of, found, over, NOW)
    assert [each["type"] for each in first["conditions"]] == ["SuccessCriteriaMet"]
    last = next_status({**of, "status": first}, plan.tally(of, []), over, NOW)
    assert [each["type"] for each in last["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert last["completionTime"] == "2026-01-01T12:00:00Z"


def test_pods_know_their_index() -> None:
    of = job(template={"spec": {"containers": [{"name": "c"}]}})
    made = plan.new_pod(of, 2)
    assert made["metadata"]["generateName"] == "work-2-"
    assert made["spec"]["hostname"] == "work-2"
    assert [each["name"] for each in made["spec"]["containers"][0]["env"]] == ["JOB_COMPLETION_INDEX"]
    assert plan.new_pod(of, -1)["metadata"]["finalizers"] == [plan.FINALIZER]
