"""The API server's side of streams: permissions, refusals, errors, and the proxies."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from component.streams import channels, upgrade
from component.streams.session import Session
from controlplane.apiserver.config import Kubelet
from controlplane.apiserver.endpoints.connect_kubelet import Kubelets
from tests.integration.streams.conftest import CLIENT, Cluster, create, pod, set_node
from tests.support.apiserver import ADMIN_TOKEN

POD = "/api/v1/namespaces/default/pods/p"


async def status_of(cluster: Cluster, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    answer = await cluster.api.request(method, path, headers=headers)
    try:
        return answer.status, answer.json["message"]
    except ValueError:
        return answer.status, answer.body.decode()


async def upgraded(cluster: Cluster, path: str, *headers: tuple[str, str]) -> upgrade.Upgraded | upgrade.Refusal:
    given = [*(headers or upgrade.spdy_headers([channels.V4])), ("Authorization", f"Bearer {ADMIN_TOKEN}")]
    return await upgrade.connect("POST", cluster.api.url + path, given, ssl_context=cluster.api.tls)


async def test_spdy_clients_reach_the_runtime_untouched(cluster: Cluster) -> None:
    answer = await upgraded(cluster, f"{POD}/exec?command=cat&stdin=true&stdout=true")
    assert isinstance(answer, upgrade.Upgraded)
    session = Session(client=True)
    answer.duplex.switch(session)
    streams = await channels.open_streams(session, channels.Options(stdin=True, stdout=True))
    await streams[channels.Role.STDIN].write(b"hi\n")
    streams[channels.Role.STDIN].close_write()
    assert await streams[channels.Role.STDOUT].read_all() == b"hi\n"
    session.close()


async def test_websocket_v4_passes_through(cluster: Cluster) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    url = f"{cluster.api.url}{POD}/exec?command=cat&stdin=true&stdout=true"
    async with cluster.api.session.ws_connect(url, protocols=(channels.V4,), headers=headers, ssl=cluster.api.tls) as socket:
        await socket.send_bytes(b"\0hi\n")
        assert await socket.receive_bytes() == b"\x01hi\n"


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        pytest.param(("binary.k8s.io",), b"a\nb\n", id="binary"),
        pytest.param((), b"a\nb\n", id="no protocol"),
        pytest.param(("other", "base64.binary.k8s.io"), "YQpiCg==", id="base64"),
    ],
)
async def test_logs_by_websocket(cluster: Cluster, tmp_path: Path, offered: tuple[str, ...], expected: bytes | str) -> None:
    cluster.kubelet.facade.log = tmp_path / "0.log"
    cluster.kubelet.facade.log.write_text("2026-11-30T11:29:38Z stdout F a\n2026-11-30T11:29:38Z stdout F b\n")
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    url = f"{cluster.api.url}{POD}/log"
    async with cluster.api.session.ws_connect(url, protocols=offered, headers=headers, ssl=cluster.api.tls) as socket:
        assert (socket.protocol or "") == (offered[-1] if offered else "")
        received = [message.data async for message in socket]
    assert expected[:0].join(received) == expected


async def test_a_websocket_of_unknown_protocols_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await cluster.api.session.ws_connect(
            f"{cluster.api.url}{POD}/log", protocols=("other",), headers=headers, ssl=cluster.api.tls
        )
    assert refused.value.status == 403


async def test_watches_by_websocket(cluster: Cluster) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    url = f"{cluster.api.url}/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=1"
    async with cluster.api.session.ws_connect(url, headers=headers, ssl=cluster.api.tls) as socket:
        first = await socket.receive_json()
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "p")
        assert [message async for message in socket] == []  # time is up


async def test_a_watcher_by_websocket_may_leave(cluster: Cluster) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    url = f"{cluster.api.url}/api/v1/namespaces/default/pods?watch=1"
    async with cluster.api.session.ws_connect(url, headers=headers, ssl=cluster.api.tls) as socket:
        await socket.receive_json()
    for _ in range(100):  # the server hears of it a moment later
        text = (await cluster.api.request("GET", "/metrics")).body.decode()
        open_watches = [line for line in text.splitlines() if line.startswith('apiserver_longrunning_requests{resource="pods"}')]
        if open_watches in ([], ['apiserver_longrunning_requests{resource="pods"} 0']):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(open_watches)


@pytest.mark.parametrize("subresource", ["exec?command=cat&stdout=1", "attach?stdout=1", "portforward?ports=80"])
async def test_a_reader_may_not_open_streams(cluster: Cluster, subresource: str) -> None:
    answer = await cluster.api.request("GET", f"{POD}/{subresource}", token="viewer-token")
    assert answer.status == 403


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        (f"{POD}/exec?stdout=true", 400, "you must specify at least one command for the container"),
        (f"{POD}/exec?command=cat", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        (f"{POD}/exec?command=cat&stdout=true", 400, "Upgrade request required"),
        (f"{POD}/exec?command=cat&stdout=true&container=x", 400, "container x is not valid for pod p"),
        (POD.replace("/p", "/q", 2).replace("/qods", "/pods") + "/log", 404, 'pods "q" not found'),
        (f"{POD}/log?tailLines=-1", 422, "Invalid value: -1: must be greater than or equal to 0"),
        (f"{POD}/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of"),
        (f"{POD}/log?limitBytes=0", 422, "must be greater than 0"),
    ],
)
async def test_bad_requests_say_why(cluster: Cluster, path: str, code: int, text: str) -> None:
    status, message = await status_of(cluster, path)
    assert status == code
    assert text in message


async def test_choice_among_containers(cluster: Cluster) -> None:
    await create(cluster.api, "/api/v1/namespaces/default/pods", pod("two", containers=("a", "b")))
    expected = "a container name must be specified for pod two, choose one of: [a b]"
    assert await status_of(cluster, "/api/v1/namespaces/default/pods/two/log") == (400, expected)


async def test_unscheduled_pods_have_an_empty_log(cluster: Cluster) -> None:
    await create(cluster.api, "/api/v1/namespaces/default/pods", pod("new", node=""))
    assert await status_of(cluster, "/api/v1/namespaces/default/pods/new/log") == (200, "")
    path = "/api/v1/namespaces/default/pods/new/exec?command=cat&stdout=true"
    assert await status_of(cluster, path) == (400, "pod new does not have a host assigned")


async def test_dead_kubelets_are_an_error_that_names_them(cluster: Cluster) -> None:
    await set_node(cluster.api, "127.0.0.1", 1)
    code, text = await status_of(cluster, f"{POD}/log")
    assert code == 500
    assert "https://127.0.0.1:1/containerLogs/default/p/c" in text
    code, text = await status_of(cluster, f"{POD}/exec?command=cat&stdout=true", Connection="Upgrade", Upgrade="SPDY/3.1")
    assert code == 500
    assert text.startswith("error dialing backend: ")


async def test_refused_upgrade_ends_the_connection(cluster: Cluster) -> None:
    """CVE-2018-1002105: what follows a refusal must reach nobody."""
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.api.port, ssl=cluster.api.tls)
    head = f"Host: x\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n"
    request = f"POST {POD}/exec?command=refuse&stdout=true HTTP/1.1\r\n{head}Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
    smuggled = "GET /pods HTTP/1.1\r\nHost: x\r\n\r\n"
    writer.write(request.encode() + smuggled.encode())
    async with asyncio.timeout(5):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"Connection: close" in answer
    assert answer.endswith(b'container not found ("c")')
    writer.close()


async def test_node_proxy_reaches_the_kubelet_alone(cluster: Cluster) -> None:
    assert await status_of(cluster, "/api/v1/nodes/node-1/proxy/healthz") == (200, "ok")
    assert (await status_of(cluster, "/api/v1/nodes/node-1:9/proxy/")) == (400, "address not allowed")
    answer = await cluster.api.request("GET", "/api/v1/nodes/node-1/proxy/pods")
    assert answer.json["kind"] == "PodList"


@pytest.mark.parametrize(("verb", "code"), [("get", 403), ("create", 200)])
async def test_commands_by_the_node_proxy_need_the_right_to_create(cluster: Cluster, verb: str, code: int) -> None:
    """A reader of nodes/proxy may look, but a WebSocket handshake, which is a GET as well, would run commands."""
    rules = [{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get", verb]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}
    await create(cluster.api, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody-special"}],
    }
    del binding["rules"]
    await create(cluster.api, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    for _ in range(50):
        answer = await cluster.api.request("GET", "/api/v1/nodes/node-1/proxy/healthz", token="viewer-token")
        if answer.status == 200:
            break
        await asyncio.sleep(0.02)
    assert answer.status == 200
    for tail in ("exec/default/p/c?command=cat&output=1", "%65xec/default/p/c?command=cat&output=1", "portForward/default/p"):
        answer = await cluster.api.request("GET", f"/api/v1/nodes/node-1/proxy/{tail}", token="viewer-token")
        assert (answer.status == 403) is (code == 403), answer.body


async def test_pod_proxy_refuses_our_own_loopback(cluster: Cluster) -> None:
    for address in ("127.0.0.1", "169.254.169.254", "::1", "0.0.0.0"):
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        answer = await cluster.api.request("PATCH", f"{POD}/status", status, content_type="application/merge-patch+json")
        assert answer.status == 200, answer.body
        assert await status_of(cluster, f"{POD}:80/proxy/") == (400, "address not allowed")


async def test_service_proxy_without_endpoints(cluster: Cluster) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    await create(cluster.api, "/api/v1/namespaces/default/services", service)
    path = "/api/v1/namespaces/default/services/s"
    assert await status_of(cluster, f"{path}/proxy/") == (503, 'no endpoints available for service "s"')
    assert await status_of(cluster, f"{path}:81/proxy/") == (503, 'no service port 81 found for service "s"')


async def test_followed_logs_end_when_the_server_drains(cluster: Cluster, tmp_path: object) -> None:
    log = cluster.api.directory / "0.log"
    log.write_text("2026-11-30T11:29:38Z stdout F a\n")
    cluster.kubelet.facade.log, cluster.kubelet.facade.running = log, True
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        answer = await session.get(f"{cluster.api.url}{POD}/log?follow=true", ssl=cluster.api.tls)
        assert await answer.content.readany() == b"a\n"
        answer.close()


async def test_a_renewed_client_certificate_is_taken_up(cluster: Cluster, tmp_path: Path) -> None:
    """And a renewal that is broken half way keeps what works."""
    kubelets = Kubelets(None, Kubelet(tmp_path / f"{CLIENT}.crt", tmp_path / f"{CLIENT}.key", tmp_path / "ca.crt"))
    first = kubelets.context()
    assert kubelets.context() is first
    certificate = (tmp_path / f"{CLIENT}.crt").read_bytes()
    (tmp_path / f"{CLIENT}.crt").write_bytes(b"half")
    assert kubelets.context() is first
    (tmp_path / "new").write_bytes(certificate)
    (tmp_path / "new").rename(tmp_path / f"{CLIENT}.crt")
    assert kubelets.context() is not first
