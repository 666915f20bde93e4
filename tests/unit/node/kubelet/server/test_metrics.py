from datetime import UTC, datetime

from node.kubelet.server.metrics import resource_metrics, summary
from node.kubelet.stats.usage import ContainerUsage, read_node

STAT = "cpu  100 0 50 1000 7 0 3 0 0 0\ncpu0 1 2 3\nbtime 1796037366\n"
MEMINFO = "MemTotal:  1000 kB\nMemFree:  400 kB\nMemAvailable: 700 kB\nInactive(file): 100 kB\n"
NODE = read_node("n", STAT, MEMINFO)
USAGE = [
    ContainerUsage("ns", "p", "u", name, 1_796_000_000_000_000_000, cpu, 5, memory, memory + 1, 1, 2, 3)
    for name, cpu, memory in (("a", 1_500_000_000, 1000), ("b", 500_000_000, 24))
]


def test_node_usage_is_read_from_proc() -> None:
    assert NODE.cpu_nanoseconds == 1_530_000_000  # 153 busy ticks of 10 ms
    assert NODE.memory_working_set == 500 * 1024
    assert NODE.memory_available == 700 * 1024
    assert NODE.boot == datetime.fromtimestamp(1796037366, UTC)


def test_resource_metrics_sum_up_pods() -> None:
    lines = resource_metrics(NODE, USAGE).decode().splitlines()
    assert 'container_cpu_usage_seconds_total{container="a",namespace="ns",pod="p"} 1.5 1796000000000' in lines
    assert 'pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 2 1796000000000' in lines
    assert 'pod_memory_working_set_bytes{namespace="ns",pod="p"} 1024 1796000000000' in lines
    assert "node_cpu_usage_seconds_total 1.53" in lines
    assert "# TYPE container_cpu_usage_seconds_total counter" in lines
    assert "resource_scrape_error 0" in lines


def test_summary_groups_containers_by_pod() -> None:
    found = summary(NODE, USAGE, datetime(2026, 11, 30, tzinfo=UTC))
    assert found["node"]["nodeName"] == "n"
    (pod,) = found["pods"]
    assert pod["podRef"] == {"name": "p", "namespace": "ns", "uid": "u"}
    assert [item["name"] for item in pod["containers"]] == ["a", "b"]
    assert pod["cpu"]["usageCoreNanoSeconds"] == 2_000_000_000
    assert pod["memory"]["workingSetBytes"] == 1024
