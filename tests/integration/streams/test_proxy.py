"""The pod and service proxies against a web server on this machine's own address (never loopback: that is refused)."""

import base64
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from component import serving
from tests.integration.streams.conftest import Cluster, create
from tests.support.apiserver import ADMIN_TOKEN

_REMOTE = ("X-Remote-User", "X-Remote-Group")
PODS = "/api/v1/namespaces/default/pods"


def own_address() -> str:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        address = str(probe.getsockname()[0])
        if not address.startswith("127."):
            return address
    pytest.skip("this machine has no address but loopback")


async def backend(request: web.BaseRequest) -> web.StreamResponse:
    match request.path:
        case "/page":
            return web.Response(text='<a href="/rewriteme">test</a>', content_type="text/html")
        case "/moved":
            return web.Response(status=302, headers={"Location": "/page"})
        case "/echo":
            names = ("Authorization", "X-Forwarded-Uri", "X-Mine", "Content-Length", "Transfer-Encoding", *_REMOTE)
            seen = {name: request.headers.get(name) for name in names}
            query = request.raw_path.partition("?")[2]
            return web.json_response({**seen, "method": request.method, "query": query, "body": await request.text()})
        case "/protocols":
            ws = web.WebSocketResponse(protocols=("mine",))
            await ws.prepare(request)
            await ws.send_str(request.headers.get("Sec-WebSocket-Protocol", ""))
            return ws
        case "/ws":
            ws = web.WebSocketResponse()
            await ws.prepare(request)
            async for message in ws:
                await ws.send_str(f"echo {message.data}")
            return ws
    return web.Response(status=404, text=f"no {request.path}")


@pytest.fixture
async def pod(cluster: Cluster) -> AsyncIterator[str]:
    """The path of the proxy to a pod that answers."""
    address = own_address()
    async with serving.listening(backend, address, 0, drain_seconds=1) as listening:
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        answer = await cluster.api.request("PATCH", f"{PODS}/p/status", status, content_type="application/merge-patch+json")
        assert answer.status == 200, answer.body
        yield f"{PODS}/p:{listening.port}/proxy"


async def test_pages_keep_their_links_inside(cluster: Cluster, pod: str) -> None:
    answer = await cluster.api.request("GET", f"{pod}/page")
    assert answer.body.decode() == f'<a href="{pod}/rewriteme">test</a>'
    assert answer.headers["Content-Type"].startswith("text/html")


async def test_redirects_are_handed_on_not_followed(cluster: Cluster, pod: str) -> None:
    async with cluster.api.session.get(
        f"{cluster.api.url}{pod}/moved",
        headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
        ssl=cluster.api.tls,
        allow_redirects=False,
    ) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, f"{pod}/page")


async def test_a_bare_proxy_path_gets_its_slash(cluster: Cluster, pod: str) -> None:
    async with cluster.api.session.get(
        f"{cluster.api.url}{pod}?x=1",
        headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
        ssl=cluster.api.tls,
        allow_redirects=False,
    ) as answer:
        assert (answer.status, answer.headers["Location"]) == (301, f"{pod}/?x=1")
    assert (await cluster.api.request("GET", f"{pod}/")).body == b"no /"


async def test_a_head_has_no_body(cluster: Cluster, pod: str) -> None:
    answer = await cluster.api.request("HEAD", f"{pod}/echo")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 0


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_requests_arrive_whole_and_without_credentials(cluster: Cluster, pod: str, method: str) -> None:
    body = "some text" if method != "GET" else None
    mine = {"X-Mine": "1", "X-Remote-User": "admin", "x-remote-group": "system:masters"}
    if body:
        mine["Expect"] = "100-continue"
    answer = await cluster.api.request(method, f"{pod}/echo?a=%2F&b", body, headers=mine, content_type="text/plain")
    seen = answer.json
    assert seen == {
        "Authorization": None,
        "X-Remote-User": None,
        "X-Remote-Group": None,
        "X-Forwarded-Uri": f"{pod}/echo",
        "X-Mine": "1",
        "Content-Length": seen["Content-Length"],
        "Transfer-Encoding": None,
        "method": method,
        "query": "a=%2F&b",
        "body": body or "",
    }


async def test_websockets_pass(cluster: Cluster, pod: str) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    url = f"{cluster.api.url}{pod}/ws"
    async with cluster.api.session.ws_connect(url, headers=headers, ssl=cluster.api.tls) as ws:
        await ws.send_str("hi")
        assert await ws.receive_str() == "echo hi"


async def test_a_token_in_a_subprotocol_goes_no_further(cluster: Cluster, pod: str) -> None:
    """Else whoever owns the pod would have the token of everybody that looks at it with a browser."""
    token = base64.urlsafe_b64encode(ADMIN_TOKEN.encode()).decode().rstrip("=")
    offered = ("mine", f"base64url.bearer.authorization.k8s.io.{token}", "other")
    async with cluster.api.session.ws_connect(f"{cluster.api.url}{pod}/protocols", protocols=offered, ssl=cluster.api.tls) as ws:
        assert ws.protocol == "mine"
        assert await ws.receive_str() == "mine, other"


async def test_services_lead_to_their_endpoints(cluster: Cluster, pod: str) -> None:
    address, port = own_address(), int(pod.rpartition("/")[0].rpartition(":")[2])
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    service["spec"] = {"ports": [{"name": "web", "port": 80, "targetPort": port}]}
    await create(cluster.api, "/api/v1/namespaces/default/services", service)
    subsets = [{"addresses": [{"ip": address}], "ports": [{"name": "web", "port": port}]}]
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s"}, "subsets": subsets}
    await create(cluster.api, "/api/v1/namespaces/default/endpoints", endpoints)
    for name in ("s:web", "s:80", "http:s:web"):
        path = f"/api/v1/namespaces/default/services/{name}/proxy"
        answer = await cluster.api.request("GET", f"{path}/page")
        assert answer.body.decode() == f'<a href="{path}/rewriteme">test</a>'
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        assert (await cluster.api.request(method, f"{path}/echo", "text")).json["method"] == method


async def test_dead_pods_are_503(cluster: Cluster, pod: str) -> None:
    answer = await cluster.api.request("GET", f"{PODS}/p:1/proxy/")
    assert answer.status == 503
    assert answer.json["message"].startswith("error trying to reach service: ")
