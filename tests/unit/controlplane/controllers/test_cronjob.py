from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.meta import Object, name_of
from controlplane.controllers import cronjob

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)


def owner(schedule: str = "* * * * *", last: str = "", **spec: Any) -> Object:
    metadata = {"name": "tick", "namespace": "ns", "uid": "c", "creationTimestamp": "2026-01-01T11:58:10Z"}
    status = {"lastScheduleTime": last} if last else {}
    return {"metadata": metadata, "spec": {"schedule": schedule, "jobTemplate": {"spec": {}}, **spec}, "status": status}


@pytest.mark.parametrize(
    ("of", "run", "missed"),
    [
        pytest.param(owner(), "12:00", 2, id="since-creation"),
        pytest.param(owner(last="2026-01-01T11:59:00Z"), "12:00", 1, id="since-the-last-run"),
        pytest.param(owner(last="2026-01-01T12:00:00Z"), None, 0, id="not-due"),
        pytest.param(owner(last="2025-12-01T00:00:00Z"), "12:00", 101, id="far-behind"),
        pytest.param(owner("0 12 * * *", startingDeadlineSeconds=10), None, 0, id="too-late"),
        pytest.param(owner("0 12 * * *", startingDeadlineSeconds=60), "12:00", 1, id="just-in-time"),
    ],
)
def test_due(of: Object, run: str | None, missed: int) -> None:
    found = cronjob.due(of, NOW)
    assert (found.run.strftime("%H:%M") if found.run else None, found.missed) == (run, missed)
    assert found.next is not None
    assert found.next > NOW


def test_jobs_are_named_by_their_time() -> None:
    made = cronjob.new_job(owner(timeZone="Europe/Berlin"), datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert name_of(made) == "tick-29454480"
    assert made["metadata"]["annotations"] == {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T13:00:00+01:00"}


def job(name: str, kind: str, start: str) -> Object:
    return {"metadata": {"name": name}, "status": {"startTime": start, "conditions": [{"type": kind, "status": "True"}]}}


def test_history_limits() -> None:
    jobs = [job(f"ok-{day}", "Complete", f"2026-01-0{day}T00:00:00Z") for day in range(1, 6)]
    jobs += [job(f"bad-{day}", "Failed", f"2026-01-0{day}T00:00:00Z") for day in (2, 1)]
    assert [name_of(each) for each in cronjob.beyond_limits(owner(), jobs)] == ["ok-1", "ok-2", "bad-1"]
    assert len(cronjob.beyond_limits(owner(successfulJobsHistoryLimit=0, failedJobsHistoryLimit=0), jobs)) == 7
