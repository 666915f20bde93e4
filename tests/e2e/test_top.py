"""`kubectl top`, on figures that come from the node's real containers."""

import json

import pytest

from tests.support.cluster import Cluster, eventually
from tests.support.manifests import pod

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_top_shows_who_is_busy(cluster: Cluster, namespace: str) -> None:
    busy = {"name": "main", "image": "localhost/pybernetes-demo:1", "command": ["sh", "-c", "while true; do :; done"]}
    busy["resources"] = {"limits": {"cpu": "200m"}}  # type: ignore[assignment]
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("busy", containers=[busy]))
    cluster.kubectl("wait", "pod/busy", "-n", namespace, "--for=condition=Ready", "--timeout=30s")

    def used() -> bool:
        words = cluster.kubectl("top", "pod", "busy", "-n", namespace, "--no-headers").split()
        return words[0] == "busy" and 50 <= int(words[1].removesuffix("m")) <= 400 and words[2].endswith("Mi")

    eventually(used, 60)
    node, cpu, share, memory, part = cluster.kubectl("top", "nodes", "--no-headers").split()
    assert node == "node-1"
    assert int(cpu.removesuffix("m")) > 50
    assert share.endswith("%")
    assert part.endswith("%")
    assert memory.endswith("Mi")
    listed = cluster.kubectl("top", "pod", "-A", "--containers", "--no-headers")
    assert [line.split()[:3] for line in listed.splitlines() if namespace in line] == [[namespace, "busy", "main"]]
    assert cluster.kubectl("top", "pod", "-n", namespace, "-l", "app=nothing", check=False).startswith("No resources found")


def test_the_api_reads_as_the_metrics_servers(cluster: Cluster, namespace: str) -> None:
    found = json.loads(cluster.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes/node-1"))
    assert (found["kind"], found["apiVersion"]) == ("NodeMetrics", "metrics.k8s.io/v1beta1")
    assert found["usage"]["cpu"].endswith("n")
    assert found["window"].endswith("s")
    table = cluster.kubectl("get", "nodes.metrics.k8s.io")
    assert table.split()[:4] == ["NAME", "CPU", "MEMORY", "WINDOW"]
    missing = cluster.kubectl("get", "--raw", f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/none", check=False)
    assert "not found" in missing
    services = cluster.get("apiservices", "v1beta1.metrics.k8s.io")
    assert services["spec"].get("service") is None, "served here"
    asks = ("auth", "can-i", "list", "pods.metrics.k8s.io", "--as=someone", "-n", namespace)
    assert cluster.kubectl(*asks, check=False).startswith("no")
    cluster.kubectl("create", "rolebinding", "see", "--clusterrole=view", "--user=someone", "-n", namespace)
    eventually(lambda: cluster.kubectl(*asks, check=False).startswith("yes"))


def test_the_kubelets_pages(cluster: Cluster, namespace: str) -> None:
    probed = {"name": "main", "image": "localhost/pybernetes-demo:1", "command": ["sh", "-c", "exec sleep 1000"]}
    probed["readinessProbe"] = {"exec": {"command": ["sh", "-c", "exit 0"]}, "periodSeconds": 1}  # type: ignore[assignment]
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("probed", containers=[probed]))
    cluster.kubectl("wait", "pod/probed", "-n", namespace, "--for=condition=Ready", "--timeout=30s")

    def page(path: str) -> str:
        return cluster.kubectl("get", "--raw", f"/api/v1/nodes/node-1/proxy/{path}")

    own = f'namespace="{namespace}",pod="probed"'
    usage = [line for line in page("metrics/cadvisor").splitlines() if own in line]
    for series in ("container_cpu_usage_seconds_total", "container_start_time_seconds", "container_network_receive_bytes_total"):
        assert any(line.startswith(series) for line in usage), series
    assert "container_start_time_seconds" in page("metrics/resource")
    probes = [
        line for line in page("metrics/probes").splitlines() if f'pod="probed",namespace="{namespace}"' in line or own in line
    ]
    assert any('probe_type="Readiness"' in line and 'result="successful"' in line for line in probes)
    assert page("logs/").startswith("<pre>")
