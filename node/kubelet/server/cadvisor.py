"""``/metrics/cadvisor``: the series that dashboards know from cAdvisor, out of CRI's statistics and pods' network devices.

Pure. Upstream's names and labels; series that CRI does not tell are left out rather than guessed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from node.kubelet.machine import Machine
from node.kubelet.stats.usage import ContainerUsage


@dataclass(frozen=True, slots=True)
class Traffic:
    """One network device of a pod, since it was made."""

    received_bytes: int = 0
    received_packets: int = 0
    sent_bytes: int = 0
    sent_packets: int = 0


@dataclass(frozen=True, slots=True)
class PodTraffic:
    namespace: str
    pod: str
    devices: Mapping[str, Traffic] = field(default_factory=dict)


_CONTAINER_SERIES: tuple[tuple[str, str, Callable[[ContainerUsage], object]], ...] = (
    ("container_cpu_usage_seconds_total", "counter", lambda one: f"{one.cpu_nanoseconds / 1e9:.9g}"),
    ("container_memory_usage_bytes", "gauge", lambda one: one.memory_usage),
    ("container_memory_working_set_bytes", "gauge", lambda one: one.memory_working_set),
    ("container_memory_rss", "gauge", lambda one: one.memory_rss),
    ("container_fs_usage_bytes", "gauge", lambda one: one.rootfs_used),
    ("container_fs_inodes_total", "gauge", lambda one: one.rootfs_inodes),
)
_TRAFFIC_SERIES: tuple[tuple[str, Callable[[Traffic], int]], ...] = (
    ("container_network_receive_bytes_total", lambda one: one.received_bytes),
    ("container_network_receive_packets_total", lambda one: one.received_packets),
    ("container_network_transmit_bytes_total", lambda one: one.sent_bytes),
    ("container_network_transmit_packets_total", lambda one: one.sent_packets),
)


def page(machine: Machine, containers: Sequence[ContainerUsage], traffic: Iterable[PodTraffic]) -> bytes:
    """The whole page in Prometheus' text format."""
    lines = [*_machine(machine), *_containers(containers), *_traffic(list(traffic))]
    return ("\n".join(lines) + "\n").encode()


def _machine(machine: Machine) -> Iterator[str]:
    yield from ("# TYPE machine_cpu_cores gauge", f"machine_cpu_cores {machine.cpus}")
    yield from ("# TYPE machine_memory_bytes gauge", f"machine_memory_bytes {machine.memory_bytes}")
    yield from ("# TYPE machine_swap_bytes gauge", f"machine_swap_bytes {machine.swap_bytes}")


def _containers(containers: Sequence[ContainerUsage]) -> Iterator[str]:
    named = [(f'container="{one.name}",image="{one.image}",name="{one.id}",namespace="{one.namespace}",pod="{one.pod}"', one)
             for one in containers]  # fmt: skip
    for name, kind, value in _CONTAINER_SERIES:
        yield f"# TYPE {name} {kind}"
        cpu = ',cpu="total"' if name.startswith("container_cpu") else ""
        for labels, one in named:
            yield f"{name}{{{labels}{cpu}}} {value(one)} {one.timestamp_ns // 10**6}"
    yield "# TYPE container_start_time_seconds gauge"
    for labels, one in named:
        if one.started_at:
            yield f"container_start_time_seconds{{{labels}}} {one.started_at.timestamp():.3f}"


def _traffic(pods: Sequence[PodTraffic]) -> Iterator[str]:
    for name, value in _TRAFFIC_SERIES:
        yield f"# TYPE {name} counter"
        for pod in pods:
            for device, one in pod.devices.items():
                yield f'{name}{{interface="{device}",namespace="{pod.namespace}",pod="{pod.pod}"}} {value(one)}'


def parse_net_dev(text: str) -> dict[str, Traffic]:
    """``/proc/PID/net/dev``, without loopback."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        words = rest.split()
        if name.strip() != "lo" and len(words) >= 10:
            found[name.strip()] = Traffic(int(words[0]), int(words[1]), int(words[8]), int(words[9]))
    return found
