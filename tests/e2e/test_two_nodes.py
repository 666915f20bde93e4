"""Two nodes, each on a machine of its own: pods and Services reach across."""

import json
from collections.abc import Iterator

import pytest

from bootstrap.demo import REFERENCE, demo_image
from bootstrap.images import write_archive
from tests.support.cluster import Cluster, eventually, running_cluster
from tests.support.joined import NAME, JoinedNode, joined_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

# Busybox's httpd logs `address:port: response:200` of each request.
_SERVE = "hostname >/tmp/index.html && exec httpd -f -vv -p 8080 -h /tmp"
_WEB = {"matchLabels": {"app": "web"}}


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Cluster, JoinedNode]]:
    with running_cluster("--pod-routes=direct") as cluster, joined_node(cluster) as node:
        archive = node.layout.images / "demo.tar"
        write_archive([demo_image(REFERENCE)], archive)
        cluster.pybernetes("image import", str(archive))
        node.load(archive)
        yield cluster, node


def _daemon_set() -> str:
    container = {
        "name": "main",
        "image": REFERENCE,
        "command": ["sh", "-c", _SERVE],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    template = {
        "metadata": {"labels": _WEB["matchLabels"]},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    wanted = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    ports = {"selector": _WEB["matchLabels"], "ports": [{"port": 80, "targetPort": 8080}]}
    made = ({**wanted, "spec": {"selector": _WEB, "template": template}}, {**service, "spec": ports})
    return "\n".join(json.dumps(item) for item in made)


def test_pods_and_services_reach_across(nodes: tuple[Cluster, JoinedNode]) -> None:
    cluster, second = nodes
    cluster.apply(_daemon_set())
    cluster.kubectl("rollout", "status", "daemonset/web", "--timeout=60s")
    pods = {pod["spec"]["nodeName"]: pod for pod in cluster.get("pods", "-l", "app=web")["items"]}
    assert set(pods) == {"node-1", NAME}
    names = {node: pod["metadata"]["name"] for node, pod in pods.items()}
    address = {node: pod["status"]["podIP"] for node, pod in pods.items()}
    service = cluster.get("service", "web")["spec"]["clusterIP"]

    networks = {node: cluster.inside_pod(name) for node, name in names.items()}

    def ask(node: str, host: str) -> str:
        return cluster.run(*networks[node], "curl", "--silent", "--max-time", "2", f"http://{host}/", check=False).stdout.strip()

    for here, there in (("node-1", NAME), (NAME, "node-1")):
        eventually(lambda here=here, there=there: ask(here, f"{address[there]}:8080") == names[there])
        # not the address of its node
        eventually(lambda here=here, there=there: address[here] in cluster.kubectl("logs", names[there]))
        eventually(lambda here=here: {ask(here, service) for _ in range(6)} == set(names.values()))
    # and a machine reaches the other one's pods
    eventually(lambda: {cluster.curl(f"http://{service}/").strip() for _ in range(6)} == set(names.values()))
    assert second.settings.node_ip == pods[NAME]["status"]["hostIP"]
