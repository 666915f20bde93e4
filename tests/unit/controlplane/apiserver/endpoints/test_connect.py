"""The pure decisions of connect: addresses, endpoints, names, links."""

import gzip
from typing import Any

import pytest

from apimachinery.errors import StatusError
from controlplane.apiserver.endpoints import connect_html, connect_proxy
from controlplane.apiserver.endpoints.connect_html import Rewriter
from controlplane.apiserver.endpoints.connect_kubelet import Target, target

PREFIX = "/api/v1/namespaces/ns/pods/p:80/proxy"
REWRITER = Rewriter(PREFIX, "10.0.0.1:80", "api:6443")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/rewriteme", f"{PREFIX}/rewriteme"),
        ("/", f"{PREFIX}/"),
        ("relative", "relative"),
        ("?query", "?query"),
        ("#fragment", "#fragment"),
        ("http://elsewhere/x", "http://elsewhere/x"),
        ("http://10.0.0.1:80/x?y=1", f"{PREFIX}/x?y=1"),
        ("https://api:6443/x", f"https://api:6443{PREFIX}/x"),
        (f"{PREFIX}/x", f"{PREFIX}/x"),
        ("mailto:a@b", "mailto:a@b"),
        ("http://[bad", "http://[bad"),
    ],
)
def test_links_stay_behind_the_proxy(url: str, expected: str) -> None:
    assert REWRITER.url(url) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/rewriteme">test</a>', f'<a href="{PREFIX}/rewriteme">test</a>'),
        ("<IMG alt='x > y' SRC='/a.png'/>", f"<IMG alt='x > y' SRC='{PREFIX}/a.png'/>"),
        ("<a href=/x>", f"<a href={PREFIX}/x>"),
        ('<a class="/x" data-href="/y">', '<a class="/x" data-href="/y">'),
        ('<p title="/x">/x</p>', '<p title="/x">/x</p>'),
        ('<a href="/x?a=1&amp;b=2">', f'<a href="{PREFIX}/x?a=1&amp;b=2">'),
        ("<a", "<a"),
    ],
)
def test_pages(page: str, expected: str) -> None:
    assert REWRITER.page(page.encode()).decode() == expected


def test_packed_pages() -> None:
    assert connect_html.unpacked(gzip.compress(b"page"), "gzip", 100) == b"page"
    assert connect_html.unpacked(gzip.compress(b"x" * 1000), "gzip", 100) is None
    assert connect_html.unpacked(b"garbage", "gzip", 100) is None
    assert connect_html.unpacked(b"x", "br", 100) is None
    assert connect_html.unpacked(b"x", "", 100) == b"x"


@pytest.mark.parametrize(
    ("text", "parts"),
    [("p", ("", "p", "")), ("p:80", ("", "p", "80")), ("https:p:443", ("https", "p", "443")), ("http:p:", ("http", "p", ""))],
)
def test_names(text: str, parts: tuple[str, str, str]) -> None:
    assert connect_proxy.split_name(text, "pod") == parts


@pytest.mark.parametrize("text", ["", "a:b:c:d", "ftp:p:80"])
def test_bad_names(text: str) -> None:
    with pytest.raises(StatusError, match="invalid pod request"):
        connect_proxy.split_name(text, "pod")


@pytest.mark.parametrize(
    ("tail", "runs"),
    [
        ("/exec/ns/p/c", True),
        ("/attach/ns/p/c", True),
        ("/portForward/ns/p", True),
        ("/run/ns/p/c", True),
        ("//exec/ns/p/c", True),
        ("/%65xec/ns/p/c", True),
        ("/./exec/ns/p/c", True),
        ("/pods/../exec/ns/p/c", True),
        ("/containerLogs/ns/p/exec", False),
        ("/executions", False),
        ("/", False),
        ("", False),
    ],
)
def test_paths_of_a_kubelet_that_run_commands(tail: str, runs: bool) -> None:
    assert connect_proxy.runs_commands(tail) is runs


@pytest.mark.parametrize("host", ["10.1.2.3", "192.168.0.1", "8.8.8.8", "fd00::1"])
def test_addresses_that_may_be_reached(host: str) -> None:
    assert connect_proxy.checked(host) == host


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "fe80::1",
        "",
        "localhost",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
    ],
)
def test_addresses_that_may_not(host: str) -> None:
    with pytest.raises(StatusError, match="address not allowed"):
        connect_proxy.checked(host)


SERVICE = {"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}, {"name": "tls", "port": 443}]}}
ENDPOINTS = {
    "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "web", "port": 8080}, {"name": "tls", "port": 8443}]}]
}


@pytest.mark.parametrize(("port", "expected"), [("web", 8080), ("80", 8080), ("443", 8443)])
def test_endpoints_by_name_or_number(port: str, expected: int) -> None:
    assert connect_proxy.choose_endpoint(SERVICE, ENDPOINTS, port) == ("10.0.0.1", expected)


@pytest.mark.parametrize(("endpoints", "port"), [({}, "web"), (ENDPOINTS, "other"), (ENDPOINTS, "81")])
def test_no_endpoint_is_503(endpoints: dict[str, Any], port: str) -> None:
    with pytest.raises(StatusError) as caught:
        connect_proxy.choose_endpoint(SERVICE, endpoints, port)
    assert caught.value.code == 503


def test_kubelet_addresses_follow_the_preference() -> None:
    addresses = [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "fd00::1"}]
    node = {"status": {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10260}}}}
    assert target(node, ("InternalIP", "Hostname")) == Target("fd00::1", 10260)
    assert target(node, ("ExternalIP", "Hostname")) == Target("n", 10260)
    assert target(node, ("InternalIP",)).url("exec", "a/b", query=[("x", "1 2")]) == "https://[fd00::1]:10260/exec/a%2Fb?x=1+2"
    with pytest.raises(StatusError, match="no preferred addresses found"):
        target({"status": {}}, ("InternalIP",))
