"""Names as pods meet them: in a network of their own and in the node's, through the Service and the node's rules."""

import json
import sys

import dns.message
import dns.rcode
import pytest

from tests.support.cluster import ADDRESS, Cluster, eventually
from tests.support.manifests import pod, web

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

_STRANGER = "198.51.100.7"
_ASK = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.bind((sys.argv[1], 0))
s.sendto(bytes.fromhex(sys.argv[3]), (sys.argv[2], 10053))
print(s.recv(2048).hex())
"""


def finds(cluster: Cluster, namespace: str, name: str, wanted: str, address: str) -> None:
    """The pod ``name`` hears ``address`` when it asks."""
    argv = ("exec", "-n", namespace, name, "--", "busybox", "nslookup", wanted)
    eventually(lambda: address in cluster.kubectl(*argv, check=False).partition("Name:")[2])


def asked_from(cluster: Cluster, source: str, query: dns.message.Message) -> dns.message.Message:
    done = cluster.run(sys.executable, "-c", _ASK, source, ADDRESS, query.to_wire().hex())
    return dns.message.from_wire(bytes.fromhex(done.stdout.strip()))


def test_pods_find_services_and_each_other(cluster: Cluster, namespace: str) -> None:
    pets = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "pets"},
        "spec": {"clusterIP": "None", "selector": {"app": "rex"}, "ports": [{"name": "http", "port": 80}]},
    }
    manifests = [
        web(replicas=1),
        json.dumps(pets),
        pod("rex", "busybox", "sleep", "1000", subdomain="pets", hostname="rex"),
        pod("of-the-node", "busybox", "sleep", "1000", hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"),
    ]
    for each in manifests:
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=each)
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/rex", "pod/of-the-node", "--timeout=60s")
    service, rex = cluster.get("service", "web", "-n", namespace), cluster.get("pod", "rex", "-n", namespace)
    at = f"{namespace}.svc.cluster.local"
    for name in ("rex", "of-the-node"):
        finds(cluster, namespace, name, f"web.{at}", service["spec"]["clusterIP"])
        finds(cluster, namespace, name, f"rex.pets.{at}", rex["status"]["podIP"])
    fetch = ("exec", "-n", namespace, "rex", "--", "busybox", "wget", "-q", "-O", "-", "http://web/")
    assert "Hello" in eventually(lambda: cluster.kubectl(*fetch, check=False))


def test_strangers_are_refused(cluster: Cluster) -> None:
    query = dns.message.make_query("kubernetes.default.svc.cluster.local", "A")
    assert asked_from(cluster, ADDRESS, query).answer
    cluster.run("ip", "address", "add", f"{_STRANGER}/32", "dev", "lo")
    try:
        answer = asked_from(cluster, _STRANGER, query)
    finally:
        cluster.run("ip", "address", "delete", f"{_STRANGER}/32", "dev", "lo")
    assert (answer.rcode(), answer.answer) == (dns.rcode.REFUSED, [])
