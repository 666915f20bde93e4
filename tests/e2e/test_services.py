"""Services as their users meet them: what answers where, and when it stops, on real pods."""

import json
import socket
import subprocess
import sys
from typing import Any

import pytest

from tests.support.cluster import ADDRESS, Cluster, eventually
from tests.support.manifests import pod, web

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

_ASK_UDP = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.bind(("0.0.0.0", int(sys.argv[3])))
s.sendto(b"?\\n", (sys.argv[1], int(sys.argv[2])))
print(s.recv(2048).decode().strip())
"""

_ANSWER_UDP = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 5353))
while True:
    s.sendto(sys.argv[1].encode(), s.recvfrom(2048)[1])
"""
REFUSED = "refused"


def spec(cluster: Cluster, namespace: str, name: str = "web") -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("service", name, "-n", namespace)["spec"]
    return found


def patch(cluster: Cluster, namespace: str, change: dict[str, Any], name: str = "web") -> None:
    cluster.kubectl("patch", "service", name, "-n", namespace, "--type=merge", "-p", json.dumps({"spec": change}))


def answers(cluster: Cluster, url: str) -> str:
    """The page, or ``refused``, or curl's exit code."""
    done = cluster.run("curl", "--silent", "--max-time", "2", url, check=False)
    return done.stdout if done.returncode == 0 else {7: REFUSED}.get(done.returncode, f"curl: {done.returncode}")


def deployed(cluster: Cluster, namespace: str, **how: Any) -> str:
    """The demo's web server behind its cluster IP, which already answers."""
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(**how))
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")
    ip = str(spec(cluster, namespace)["clusterIP"])
    eventually(lambda: "Hello" in answers(cluster, f"http://{ip}/"))
    return ip


def test_a_node_port_opens_and_closes_with_the_type(cluster: Cluster, namespace: str) -> None:
    ip = deployed(cluster, namespace, replicas=1)
    patch(cluster, namespace, {"type": "NodePort"})
    node_port = spec(cluster, namespace)["ports"][0]["nodePort"]
    for address in (ADDRESS, "127.0.0.1"):
        eventually(lambda at=address: "Hello" in answers(cluster, f"http://{at}:{node_port}/"))
    patch(cluster, namespace, {"type": "ClusterIP"})
    eventually(lambda: answers(cluster, f"http://{ADDRESS}:{node_port}/") == REFUSED)
    assert "Hello" in answers(cluster, f"http://{ip}/")


def test_scaled_to_zero_it_refuses_at_once_and_scaled_up_it_answers_again(cluster: Cluster, namespace: str) -> None:
    ip = deployed(cluster, namespace, replicas=1)
    cluster.kubectl("scale", "deployment/web", "--replicas=0", "-n", namespace)
    eventually(lambda: answers(cluster, f"http://{ip}/") == REFUSED)
    cluster.kubectl("scale", "deployment/web", "--replicas=1", "-n", namespace)
    eventually(lambda: "Hello" in answers(cluster, f"http://{ip}/"))
    cluster.kubectl("delete", "service", "web", "-n", namespace)
    eventually(lambda: "Hello" not in answers(cluster, f"http://{ip}/"))


def test_session_affinity_sends_a_client_to_one_pod(cluster: Cluster, namespace: str) -> None:
    ip = deployed(cluster, namespace, replicas=3)
    assert len({answers(cluster, f"http://{ip}/") for _ in range(30)}) == 3
    patch(cluster, namespace, {"sessionAffinity": "ClientIP"})
    eventually(lambda: len({answers(cluster, f"http://{ip}/") for _ in range(10)}) == 1)


def test_a_pod_reaches_itself_and_the_api_through_services(cluster: Cluster, namespace: str) -> None:
    ip = deployed(cluster, namespace, replicas=1)
    name = cluster.get("pods", "-n", namespace, "-l", "app=web")["items"][0]["metadata"]["name"]
    pod_network = cluster.inside_pod(name, namespace)
    page = cluster.run(*pod_network, "curl", "--silent", "--max-time", "3", f"http://{ip}/").stdout
    assert name in page
    api = spec(cluster, "default", "kubernetes")["clusterIP"]
    version = cluster.run(*pod_network, "curl", "--silent", "--insecure", "--max-time", "3", f"https://{api}/version").stdout
    assert "gitVersion" in version


def test_external_addresses_lead_to_the_pods(cluster: Cluster, namespace: str) -> None:
    deployed(cluster, namespace, replicas=1)
    patch(cluster, namespace, {"externalIPs": ["198.51.100.77"]})
    eventually(lambda: "Hello" in answers(cluster, "http://198.51.100.77/"))


def test_a_pod_that_is_selected_no_more_leaves_the_service(cluster: Cluster, namespace: str) -> None:
    ip = deployed(cluster, namespace, replicas=2)
    first = cluster.get("pods", "-n", namespace, "-l", "app=web")["items"][0]["metadata"]["name"]
    eventually(lambda: first in answers(cluster, f"http://{ip}/"))
    cluster.kubectl("label", "pod", first, "-n", namespace, "app=other", "--overwrite")
    eventually(lambda: not any(first in answers(cluster, f"http://{ip}/") for _ in range(12)))


def test_udp_answers_and_moves_to_the_next_pod(cluster: Cluster, namespace: str) -> None:
    """One client that keeps its source port, as a resolver does, is served by the new pod once the old one is gone."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "echo"},
        "spec": {"selector": {"role": "echo"}, "ports": [{"port": 53, "targetPort": 5353, "protocol": "UDP"}]},
    }
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(service))
    ip = spec(cluster, namespace, "echo")["clusterIP"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        source = str(probe.getsockname()[1])

    def asked() -> str:
        done = cluster.run(sys.executable, "-c", _ASK_UDP, ip, "53", source, check=False)
        return done.stdout.strip()

    assert asked() == ""
    for name in ("one", "two"):
        made = json.loads(pod(name, "sleep", "60"))
        made["metadata"]["labels"] = {"role": "echo"}
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(made))
        cluster.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "-n", namespace, "--timeout=30s")
        server = subprocess.Popen([*cluster.inside_pod(name, namespace), sys.executable, "-c", _ANSWER_UDP, name])
        try:
            eventually(lambda name=name: asked() == name)
            cluster.kubectl("delete", "pod", name, "-n", namespace, "--timeout=30s")
        finally:
            server.kill()
            server.wait()
