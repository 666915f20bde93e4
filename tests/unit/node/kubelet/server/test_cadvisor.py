"""The cAdvisor page is Prometheus' text and has upstream's names."""

from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from node.kubelet.machine import Machine
from node.kubelet.server import cadvisor
from node.kubelet.server.cadvisor import PodTraffic, Traffic
from node.kubelet.stats.usage import ContainerUsage

NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0
  eth0:    1000      10    0    0    0     0          0         0     2000      20    0    0    0     0       0          0
"""
USED = ContainerUsage(
    "ns", "web", "u", "main", 1_700_000_000_000_000_000, 1_500_000_000, 0, 2048, 4096, 1024, 512, 3,
    datetime(2026, 1, 1, tzinfo=UTC), "c1", "busybox:1",
)  # fmt: skip


def test_devices_are_read_without_loopback() -> None:
    assert cadvisor.parse_net_dev(NET_DEV) == {"eth0": Traffic(1000, 10, 2000, 20)}


def test_the_page_has_upstreams_series() -> None:
    text = cadvisor.page(Machine(4, 8 << 30, 0), [USED], [PodTraffic("ns", "web", {"eth0": Traffic(1, 2, 3, 4)})]).decode()
    found = {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples}

    assert found["machine_cpu_cores"].value == 4
    cpu = found["container_cpu_usage_seconds_total"]
    assert cpu.value == 1.5
    assert cpu.labels == {
        "container": "main", "image": "busybox:1", "name": "c1", "namespace": "ns", "pod": "web", "cpu": "total"
    }  # fmt: skip
    assert found["container_memory_working_set_bytes"].value == 2048
    assert found["container_start_time_seconds"].value == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert found["container_network_transmit_bytes_total"].value == 3
    assert found["container_network_transmit_bytes_total"].labels == {"interface": "eth0", "namespace": "ns", "pod": "web"}
