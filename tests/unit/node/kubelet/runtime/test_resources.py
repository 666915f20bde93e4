"""Requests and limits in the kernel's numbers."""

import pytest

from node.kubelet.cgroups import plan
from node.kubelet.runtime import resources
from tests.support.pod_workers import container, pod

GI = 1 << 30


@pytest.mark.parametrize(("milli", "shares"), [(0, 2), (1, 2), (100, 102), (1000, 1024), (300_000, 262144)])
def test_cpu_shares(milli: int, shares: int) -> None:
    assert resources.cpu_shares(milli) == shares


@pytest.mark.parametrize(("milli", "quota"), [(0, 0), (1, 1000), (500, 50_000), (2000, 200_000)])
def test_cpu_quota(milli: int, quota: int) -> None:
    assert resources.cpu_quota(milli) == quota


@pytest.mark.parametrize(
    ("given", "score"),
    [
        pytest.param({}, 1000, id="BestEffort"),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, -997, id="Guaranteed"),
        pytest.param({"requests": {"memory": "2Gi"}}, 750, id="Burstable"),
        pytest.param({"requests": {"memory": "8Gi"}}, 3, id="Burstable with all of it"),
        pytest.param({"requests": {"cpu": "1"}}, 999, id="Burstable without memory"),
    ],
)
def test_oom_score(given: dict[str, dict[str, str]], score: int) -> None:
    one = container(resources=given)
    assert resources.oom_score(pod(containers=[one]), one, 8 * GI) == score


def test_container_resources() -> None:
    one = container(resources={"requests": {"cpu": "250m"}, "limits": {"cpu": "500m", "memory": "64Mi"}})
    made = resources.container_resources(pod(containers=[one]), one, 8 * GI)
    assert (made.cpu_shares, made.cpu_quota, made.memory_limit_in_bytes) == (256, 50_000, 64 << 20)
    assert resources.container_resources(pod(), one, 8 * GI, enforce_quota=False).cpu_quota == 0


def test_pod_cgroups() -> None:
    limited = container(resources={"requests": {"cpu": "250m", "memory": "1Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}})
    both = pod(containers=[limited, {**limited, "name": "other"}])
    assert str(plan.pod_path("/x", both)) == "/x/kubepods/burstable/poduid-web"
    assert plan.pod_limits_of(both, 100) == plan.Limits(512, 100_000, 128 << 20, 100)
    half = pod(containers=[limited, container("free")])
    assert plan.pod_limits_of(half, -1) == plan.Limits(256, None, None, None)
    assert str(plan.pod_path("", pod())) == "/kubepods/besteffort/poduid-web"
    assert plan.systemd_slice("", pod()) == "kubepods-besteffort-poduid_web.slice"


def test_cgroup_v2_values() -> None:
    writes = dict(plan.v2_writes(plan.Limits(1024, 50_000, 1 << 20, 10)))
    assert writes == {"cpu.weight": "39", "cpu.max": "50000 100000", "memory.max": "1048576", "pids.max": "10"}
