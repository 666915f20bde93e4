from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apimachinery.meta import Object
from apimachinery.times import format_time
from controlplane.controllers.horizontalpodautoscaler.pods import Patience, Sample, grouped, requests

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PATIENCE = Patience(initialization=2 * MINUTE, readiness=timedelta(seconds=10))


def pod(
    *, phase: str = "Running", ready: str | None = "True", started: int | None = 600, changed: int = 600, deleted: bool = False
) -> Object:
    """``started`` and ``changed`` are seconds ago."""
    status: dict[str, Any] = {"phase": phase}
    if started is not None:
        status["startTime"] = format_time(NOW - timedelta(seconds=started))
    if ready is not None:
        when = format_time(NOW - timedelta(seconds=changed))
        status["conditions"] = [{"type": "Ready", "status": ready, "lastTransitionTime": when}]
    metadata = {"name": "p", **({"deletionTimestamp": format_time(NOW)} if deleted else {})}
    return {"metadata": metadata, "status": status}


@pytest.mark.parametrize(
    ("of", "sampled", "cpu", "memory"),
    [
        pytest.param(pod(), 0, "ready", "ready", id="ready-for-long"),
        pytest.param(pod(), None, "missing", "missing", id="no-figure"),
        pytest.param(pod(deleted=True), 0, "ignored", "ignored", id="deleted"),
        pytest.param(pod(phase="Failed"), 0, "ignored", "ignored", id="failed"),
        pytest.param(pod(phase="Pending"), None, "unready", "unready", id="pending"),
        pytest.param(pod(ready=None), 0, "unready", "ready", id="no-condition"),
        pytest.param(pod(started=None), 0, "unready", "ready", id="not-started"),
        pytest.param(pod(started=60, changed=60), 0, "ready", "ready", id="young-with-a-whole-window"),
        pytest.param(pod(started=60, changed=59), 0, "unready", "ready", id="young-with-a-part-of-a-window"),
        pytest.param(pod(started=119, ready="False", changed=110), 0, "unready", "ready", id="young-and-unready"),
        pytest.param(pod(started=600, ready="False", changed=591), 0, "unready", "ready", id="never-was-ready"),
        pytest.param(pod(started=600, ready="False", changed=590), 0, "ready", "ready", id="was-ready-once"),
        pytest.param(pod(started=600, ready="Unknown", changed=595), 0, "ready", "ready", id="nobody-knows"),
    ],
)
def test_groups(of: Object, sampled: int | None, cpu: str, memory: str) -> None:
    """``sampled`` is how many seconds ago the window of a minute ended."""
    samples = {} if sampled is None else {"p": Sample(1, NOW - timedelta(seconds=sampled), MINUTE)}
    for resource, wanted in (("cpu", cpu), ("memory", memory), ("", memory)):
        found = grouped([of], samples, resource, PATIENCE, NOW)
        names = {"unready": found.unready, "missing": found.missing, "ignored": found.ignored}
        assert [kind for kind, held in names.items() if held] == ([] if wanted == "ready" else [wanted])
        assert found.ready == (wanted == "ready")


def asking(*containers: Object, sidecars: tuple[Object, ...] = (), pod_level: Object | None = None) -> Object:
    spec: Object = {"containers": list(containers), "initContainers": list(sidecars)}
    if pod_level is not None:
        spec["resources"] = {"requests": pod_level}
    return {"metadata": {"name": "p"}, "spec": spec}


def container(name: str = "c", **asked: str) -> Object:
    return {"name": name, "resources": {"requests": asked}}


SIDECAR = {**container("s", cpu="100m"), "restartPolicy": "Always"}
SETUP = container("setup", cpu="9")


@pytest.mark.parametrize(
    ("of", "resource", "only", "wanted"),
    [
        pytest.param(asking(container(cpu="250m"), container("d", cpu="1")), "cpu", "", 1250, id="sum"),
        pytest.param(asking(container(memory="1Ki")), "memory", "", 1024_000, id="in-thousandths"),
        pytest.param(asking(container(cpu="250m"), sidecars=(SETUP, SIDECAR)), "cpu", "", 350, id="sidecars-count"),
        pytest.param(asking(container(cpu="250m"), container("d", memory="1")), "cpu", "c", 250, id="one-container"),
        pytest.param(asking(container(cpu="250m"), sidecars=(SIDECAR,)), "cpu", "s", 100, id="one-sidecar"),
        pytest.param(asking(container(), pod_level={"cpu": "2"}), "cpu", "", 2000, id="of-the-pod"),
        pytest.param(asking(container(cpu="1"), pod_level={"cpu": "2"}), "cpu", "c", 1000, id="of-one-container-all-the-same"),
    ],
)
def test_requests(of: Object, resource: str, only: str, wanted: int) -> None:
    assert requests([of], resource, only) == {"p": wanted}


@pytest.mark.parametrize(
    ("of", "only", "text"),
    [
        (asking(container(cpu="1"), container("d")), "", "missing request for cpu in container d of Pod p"),
        (asking(container()), "c", "missing request for cpu in container c of Pod p"),
        (asking(container(cpu="1")), "x", "container x not found in Pod p"),
        (asking(container(), pod_level={"memory": "1Gi"}), "", "missing pod-level request for cpu in Pod p"),
    ],
)
def test_requests_that_are_missing(of: Object, only: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        requests([of], "cpu", only)


def test_requests_of_pods_do_not_count_without_their_gate() -> None:
    assert requests([asking(container(cpu="1"), pod_level={"cpu": "2"})], "cpu", pod_level=False) == {"p": 1000}
