"""What pods have sent and received, read through one process of each. Blocks; ``server/metrics`` calls it in a thread."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from apimachinery.meta import name_of, namespace_of
from apimachinery.objects import pods
from node.kubelet.server.cadvisor import PodTraffic, parse_net_dev

Pod = Mapping[str, Any]


def pod_traffic(
    listed: Iterable[Pod], process_of: Callable[[Pod], int | None], proc: Path = Path("/proc")
) -> Iterator[PodTraffic]:
    """Of the pods with a network of their own that have a process."""
    for pod in listed:
        process = None if pods.is_host_network(pod) else process_of(pod)
        if process is None:
            continue
        try:
            text = (proc / str(process) / "net" / "dev").read_text()
        except OSError:
            continue  # it has ended meanwhile
        yield PodTraffic(namespace_of(pod), name_of(pod), parse_net_dev(text))
