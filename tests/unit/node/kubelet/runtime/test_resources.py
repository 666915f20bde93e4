"""Requests and limits in the kernel's numbers."""

from dataclasses import replace

import pytest

from apimachinery.objects.requests import amount
from node.kubelet.cgroups import plan
from node.kubelet.runtime import resources
from node.kubelet.runtime.resources import Node, Pinning
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


def test_oom_scores_of_a_pod_that_requests_as_a_whole() -> None:
    asking, idle = container("a", resources={"requests": {"memory": "2Gi"}}), container("b")
    both = pod(containers=[asking, idle], resources={"requests": {"memory": "4Gi"}})
    assert [resources.oom_score(both, each, 8 * GI) for each in (asking, idle)] == [625, 875], "1Gi more for each"


def test_a_sidecar_does_not_go_before_those_whom_it_serves() -> None:
    sidecar = container("side", restartPolicy="Always", resources={"requests": {"memory": "1Gi"}})
    main = container(resources={"requests": {"memory": "4Gi"}})
    both = pod(containers=[main], initContainers=[sidecar])
    assert resources.oom_score(both, sidecar, 8 * GI) == resources.oom_score(both, main, 8 * GI) == 500


@pytest.mark.parametrize(("name", "score"), [("system-node-critical", -997), ("system-cluster-critical", 1000)])
def test_only_what_the_node_needs_is_spared(name: str, score: int) -> None:
    critical = pod(priority=2_000_000_000, priorityClassName=name)
    assert resources.oom_score(critical, critical["spec"]["containers"][0], 8 * GI) == score


def test_container_resources() -> None:
    one = container(resources={"requests": {"cpu": "250m"}, "limits": {"cpu": "500m", "memory": "64Mi"}})
    made = resources.container_resources(pod(containers=[one]), one, Node(8 * GI))
    assert (made.cpu_shares, made.cpu_quota, made.memory_limit_in_bytes) == (256, 50_000, 64 << 20)
    free = resources.container_resources(pod(), one, Node(8 * GI, quota=False))
    assert (free.cpu_quota, free.cpu_period) == (0, 0)
    assert resources.container_resources(pod(), one, Node(quota_period=10_000)).cpu_quota == 5_000


def test_a_container_out_of_memory_goes_whole_or_not() -> None:
    assert resources.container_resources(pod(), container(), Node(oom_group=True)).unified["memory.oom.group"] == "1"
    assert "memory.oom.group" not in resources.container_resources(pod(), container(), Node()).unified


def test_a_pods_own_limits_are_those_of_containers_without_one() -> None:
    bounded, free = container("a", resources={"limits": {"memory": "1Gi"}}), container("b")
    both = pod(containers=[bounded, free], resources={"limits": {"cpu": "2", "memory": "2Gi", "hugepages-2Mi": "4Mi"}})
    one, other = (resources.container_resources(both, each, Node(8 * GI, hugepages=(2 << 20,))) for each in (bounded, free))
    assert (one.cpu_quota, one.memory_limit_in_bytes) == (200_000, GI)
    assert (other.cpu_quota, other.memory_limit_in_bytes, other.hugepage_limits[0].limit) == (200_000, 2 * GI, 0)


def test_who_owns_cpus_is_not_rationed() -> None:
    one = container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})
    made = resources.container_resources(pod(containers=[one]), one, Node(8 * GI), Pinning("2-3", "0", unlimited=True))
    assert (made.cpuset_cpus, made.cpuset_mems, made.cpu_quota) == ("2-3", "0", -1)


def test_huge_pages_are_limited_in_every_size() -> None:
    one = container(resources={"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}})
    made = resources.container_resources(pod(containers=[one]), one, Node(8 * GI, hugepages=(1 << 30, 2 << 20, 64 << 10)))
    limits = {each.page_size: each.limit for each in made.hugepage_limits}
    assert limits == {"1GB": 0, "2MB": 4 << 20, "64KB": 0}


SWAPPING = Node(8 * GI, cgroup_version=2, swap=True, swap_bytes=4 * GI, swap_controller=True)
BURSTABLE = {"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}}


@pytest.mark.parametrize(
    ("given", "node", "spec", "swap"),
    [
        pytest.param(BURSTABLE, SWAPPING, {}, str(GI), id="its share: a quarter of the memory, a quarter of the swap"),
        pytest.param({"requests": {"memory": "1Gi"}}, SWAPPING, {}, str(GI // 2), id="no limit"),
        pytest.param(BURSTABLE, replace(SWAPPING, swap=False), {}, "0", id="NoSwap"),
        pytest.param({"limits": {"cpu": "1"}}, SWAPPING, {}, "0", id="no memory asked for"),
        pytest.param({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}, SWAPPING, {}, "0", id="all of it asked for"),
        pytest.param({}, SWAPPING, {}, "0", id="BestEffort"),
        pytest.param(BURSTABLE, SWAPPING, {"priority": 2_000_000_000}, "0", id="a critical pod"),
        pytest.param({"requests": {"memory": "9Gi"}}, SWAPPING, {}, "0", id="more than there is"),
        pytest.param(BURSTABLE, replace(SWAPPING, swap_controller=False), {}, None, id="a kernel that does not count swap"),
        pytest.param(BURSTABLE, replace(SWAPPING, cgroup_version=1), {}, None, id="cgroup v1"),
    ],
)
def test_swap(given: dict[str, dict[str, str]], node: Node, spec: dict[str, int], swap: str | None) -> None:
    one = container(resources=given)
    made = resources.container_resources(pod(containers=[one], **spec), one, node)
    assert made.unified.get("memory.swap.max") == swap
    both = given["limits"]["memory"] if node.cgroup_version == 1 else "0"
    assert made.memory_swap_limit_in_bytes == amount("memory", both), "memory and swap together: the limit of memory"


def test_pod_cgroups() -> None:
    limited = container(resources={"requests": {"cpu": "250m", "memory": "1Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}})
    both = pod(containers=[limited, {**limited, "name": "other"}])
    assert str(plan.pod_path("/x", both)) == "/x/kubepods/burstable/poduid-web"
    assert plan.pod_limits_of(both, 100, Node()) == plan.Limits(512, 100_000, 128 << 20, 100)
    half = pod(containers=[limited, container("free")])
    assert plan.pod_limits_of(half, -1, Node()) == plan.Limits(256, None, None, None)
    assert str(plan.pod_path("", pod())) == "/kubepods/besteffort/poduid-web"


def test_pod_cgroups_of_those_who_are_not_rationed() -> None:
    limited = pod(containers=[container(resources={"limits": {"cpu": "2", "memory": "1Gi"}})])
    assert plan.pod_limits_of(limited, -1, Node(quota=False)).quota is None
    assert plan.pod_limits_of(limited, -1, Node(), unlimited=True).quota == -1, "it may have had one before"
    assert plan.pod_limits_of(limited, -1, Node(quota_period=10_000)).quota == 20_000
    assert ("cpu.max", "max 100000") in plan.v2_writes(plan.Limits(quota=-1))
    assert ("cpu", "cpu.cfs_quota_us", "-1") in plan.v1_writes(plan.Limits(quota=-1))


def test_pod_cgroups_limit_huge_pages_of_every_size() -> None:
    asking = pod(containers=[container(resources={"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}})])
    limits = plan.pod_limits_of(asking, -1, Node(hugepages=(1 << 30, 2 << 20)))
    assert limits.hugepages == (("1GB", 0), ("2MB", 4 << 20))
    assert ("hugetlb", "hugetlb.2MB.limit_in_bytes", "4194304") in plan.v1_writes(limits)
    assert ("hugetlb.1GB.max", "0") in plan.v2_writes(limits)


def test_memory_that_is_kept_for_better_classes() -> None:
    memory = {"requests": {"cpu": "1", "memory": "1Gi"}}
    sure = pod("sure", containers=[container(resources={**memory, "limits": memory["requests"]})])
    some = pod("some", containers=[container(resources=memory)])
    whole = plan.Whole(milli=4000, memory=8 * GI, pids=1000, reserve=50, allocatable=7 * GI)
    root, burstable, best_effort = plan.qos_limits([sure, some], whole).values()
    assert root == plan.Limits(shares=4096, memory=8 * GI, pids=1000)
    assert burstable == plan.Limits(shares=1024, memory=7 * GI - GI // 2)
    assert best_effort == plan.Limits(shares=2, memory=7 * GI - GI)
    assert [each.memory for each in plan.qos_limits([sure], plan.Whole()).values()] == [None, None, None]


def test_cgroup_v2_values() -> None:
    writes = dict(plan.v2_writes(plan.Limits(1024, 50_000, 1 << 20, 10)))
    assert writes == {"cpu.weight": "39", "cpu.max": "50000 100000", "memory.max": "1048576", "pids.max": "10"}
