"""Daemons as a person starts them: their order does not matter, an outage is waited out, signals are obeyed."""

import json
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons import Bench, Daemon, bench
from tests.support.ports import free_port

pytestmark = pytest.mark.slow
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "c") as made:
        yield made


def start(keys: Bench, verb: str, *flags: str) -> tuple[Daemon, int]:
    port = free_port()
    daemon = keys.start(verb, f"--kubeconfig={keys.kubeconfig(verb)}", f"--secure-port={port}", *flags)
    return daemon, port


def replicas(keys: Bench) -> str:
    return keys.kubectl("get", "replicasets", "-o", "jsonpath={.items[*].status.replicas}").out


def test_clients_wait_for_the_server_and_outlive_its_absence(keys: Bench) -> None:
    alone = "--leader-elect=false"
    manager, manager_port = start(keys, "controller-manager", alone, "--logging-format=json")
    scheduler, port = start(keys, "scheduler", alone, "--v=2")
    for daemon, at in ((manager, manager_port), (scheduler, port)):
        keys.wait(daemon, lambda at=at: keys.get("/healthz", port=at).status == 200)
    assert keys.get("/readyz", port=port).status == 500
    assert "[-]informers-synced failed" in keys.get("/readyz?verbose", port=port).body

    server = keys.start_apiserver()
    keys.wait(scheduler, lambda: keys.get("/readyz", port=port).status == 200)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert keys.kubectl("create", "-f", "-", stdin=json.dumps(node)).code == 0
    assert keys.kubectl("create", "deployment", "web", "--image=web", "--replicas=2").code == 0
    keys.wait(manager, lambda: replicas(keys) == "2")
    keys.wait(scheduler, lambda: "FailedScheduling" in keys.kubectl("get", "events").out)  # the node is not ready

    server.process.kill()
    server.process.wait()
    time.sleep(2)
    server = keys.start_apiserver()
    assert keys.kubectl("scale", "deployment", "web", "--replicas=3").code == 0
    keys.wait(manager, lambda: replicas(keys) == "3")

    for daemon in (scheduler, manager, server):
        assert daemon.stop() == 0, daemon.log
    assert all(json.loads(line)["msg"] for line in manager.log.splitlines())
    assert scheduler.log.startswith(("I", "W", "E"))


def test_who_reads_what_on_the_health_port(keys: Bench) -> None:
    server = keys.start_apiserver()
    scheduler, port = start(keys, "scheduler")
    keys.wait(scheduler, lambda: keys.get("/readyz", port=port).status == 200 and holder(keys))
    assert "[+]ping ok" in keys.get("/livez?verbose", port=port).body
    for at, name in ((port, "scheduler_schedule_attempts_total"), (keys.port, "apiserver_request_total")):
        assert [keys.get("/metrics", port=at, token=token).status for token in ("", "wrong")] == [403, 401]
        told = keys.get("/metrics", port=at, token=keys.token).body
        assert f"# TYPE {name}" in told
        assert 'kubernetes_build_info{git_version="v1.36' in told
        assert 'kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 0.0' in told
        assert keys.get("/readyz/ping", port=at).status == 403
        assert keys.get("/readyz/ping", port=at, token=keys.token).body == "ok"
        assert keys.get("/nowhere", port=at, token=keys.token).status == 404
    told = keys.get("/metrics", port=port, token=keys.token).body
    assert 'leader_election_master_status{name="kube-scheduler"} 1.0' in told
    assert 'rest_client_requests_total{code="201",host="127.0.0.1' in told
    for daemon in (scheduler, server):
        assert daemon.stop() == 0


def holder(keys: Bench) -> str:
    return keys.kubectl("get", "lease", "kube-scheduler", "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}").out


def test_a_second_copy_stands_by_and_takes_over(keys: Bench) -> None:
    keys.start_apiserver()
    timing = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")
    first, _ = start(keys, "scheduler", *timing)
    keys.wait(first, lambda: holder(keys))
    leader = holder(keys)
    second, port = start(keys, "scheduler", *timing)
    keys.wait(second, lambda: keys.get("/healthz", port=port).status == 200)
    time.sleep(1.5)
    assert holder(keys) == leader

    assert first.stop() == 0
    began = time.monotonic()
    keys.wait(second, lambda: holder(keys) not in ("", leader))
    assert time.monotonic() - began < 2.5, "a lease that was given back is free at once"

    third, _ = start(keys, "scheduler", *timing)
    leader = holder(keys)
    second.process.kill()
    keys.wait(third, lambda: holder(keys) != leader)
    assert third.stop(signal.SIGINT) == 0


def connected(keys: Bench) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(keys.pki / "ca.crt"))
    plain = socket.create_connection(("127.0.0.1", keys.port), timeout=10)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def half_a_request(keys: Bench, name: str) -> tuple[ssl.SSLSocket, bytes]:
    """A connection on which a POST has begun, and the rest of its body."""
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).encode()
    lines = (f"POST {MAPS} HTTP/1.1", "Host: a", f"Authorization: Bearer {keys.token}", "Content-Type: application/json")
    connection = connected(keys)
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
    connection.sendall(head.encode() + body[:10])
    time.sleep(0.3)
    return connection, body[10:]


def test_what_has_begun_is_finished_before_the_end(keys: Bench) -> None:
    server = keys.start_apiserver()
    with connected(keys) as watch:
        watch.sendall(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {keys.token}\r\n\r\n".encode())
        assert b" 200 " in watch.recv(4096)
        connection, rest = half_a_request(keys, "begun")
        with connection:
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            with pytest.raises(OSError):  # noqa: PT011 - refused or reset, as the kernel likes
                connected(keys)
            connection.sendall(rest)
            assert b" 201 " in connection.recv(4096)
        received = b""
        while part := watch.recv(4096):
            received += part
        assert received.endswith(b"0\r\n\r\n"), "a watch ends as HTTP says, not broken off"
    assert server.ended() == 0
    keys.start_apiserver()
    assert keys.kubectl("get", "configmap", "begun").code == 0


def test_a_second_signal_does_not_wait(keys: Bench) -> None:
    server = keys.start_apiserver()
    connection, _ = half_a_request(keys, "never")
    with connection:
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert server.process.poll() is None
        assert server.stop(seconds=2) == 1
    keys.start_apiserver()
    assert keys.kubectl("get", "configmap", "never").code == 1
