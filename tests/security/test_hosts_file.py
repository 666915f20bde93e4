"""CVE-2020-8557: what a container writes to its /etc/hosts counts against the pod's local storage, and too much of it evicts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from node.kubelet.config import KubeletConfig
from node.kubelet.eviction.local_storage import exceeded
from node.kubelet.stats.pods import PodUsage

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u1"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"ephemeral-storage": "1Mi"}}}]},
}


class _NothingWritten:
    """A runtime whose containers have written nothing to their own layers."""

    async def list_container_stats(self) -> list[Any]:
        return []


async def test_a_hosts_file_that_grows_evicts_its_pod(tmp_path: Path) -> None:
    config = SimpleNamespace(pod_dir=lambda uid: tmp_path / uid, pod_logs_dir=tmp_path / "logs")
    usage = PodUsage(cast("Any", _NothingWritten()), cast("KubeletConfig", config))
    hosts = tmp_path / "u1" / "etc-hosts"
    hosts.parent.mkdir()
    hosts.write_bytes(b"127.0.0.1 localhost\n")
    assert exceeded(POD, (await usage.measure([POD]))["u1"]) is None
    hosts.write_bytes(b"#" * (2 << 20))
    found = exceeded(POD, (await usage.measure([POD]))["u1"])
    assert found is not None
    assert found[0] == "ephemeralpodfs.limit"
