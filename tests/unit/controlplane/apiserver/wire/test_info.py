"""What URLs mean."""

import pytest

from apimachinery.errors import StatusError
from controlplane.apiserver.wire.info import parse

CASES = [
    pytest.param("GET", "/api/v1/pods", {}, ("list", "", "v1", "", "pods", "", ""), id="all-namespaces"),
    pytest.param("GET", "/api/v1/namespaces/n/pods", {}, ("list", "", "v1", "n", "pods", "", ""), id="list"),
    pytest.param("GET", "/api/v1/namespaces/n/pods", {"watch": "1"}, ("watch", "", "v1", "n", "pods", "", ""), id="watch"),
    pytest.param("GET", "/api/v1/namespaces/n/pods", {"watch": "false"}, ("list", "", "v1", "n", "pods", "", ""), id="no-watch"),
    pytest.param("GET", "/api/v1/watch/namespaces/n/pods/p", {}, ("watch", "", "v1", "n", "pods", "", "p"), id="old-watch"),
    pytest.param("HEAD", "/api/v1/namespaces/n/pods/p", {}, ("get", "", "v1", "n", "pods", "", "p"), id="head"),
    pytest.param(
        "POST", "/apis/apps/v1/namespaces/n/deployments", {}, ("create", "apps", "v1", "n", "deployments", "", ""), id="post"
    ),
    pytest.param(
        "PUT", "/apis/apps/v1/namespaces/n/deployments/d", {}, ("update", "apps", "v1", "n", "deployments", "", "d"), id="put"
    ),
    pytest.param("PATCH", "/api/v1/nodes/x/status", {}, ("patch", "", "v1", "", "nodes", "status", "x"), id="subresource"),
    pytest.param("DELETE", "/api/v1/namespaces/n/pods", {}, ("deletecollection", "", "v1", "n", "pods", "", ""), id="collection"),
    pytest.param("GET", "/api/v1/namespaces/n", {}, ("get", "", "v1", "n", "namespaces", "", "n"), id="namespace"),
    pytest.param(
        "PUT", "/api/v1/namespaces/n/finalize", {}, ("update", "", "v1", "n", "namespaces", "finalize", "n"), id="finalize"
    ),
    pytest.param(
        "GET", "/api/v1/namespaces/n/status", {}, ("get", "", "v1", "n", "namespaces", "status", "n"), id="namespace-status"
    ),
    pytest.param(
        "GET",
        "/api/v1/namespaces/n/pods",
        {"watch": "1", "fieldSelector": "metadata.name=p"},
        ("watch", "", "v1", "n", "pods", "", "p"),
        id="watch-of-one",
    ),
]


@pytest.mark.parametrize(("method", "path", "query", "expected"), CASES)
def test_resources(method: str, path: str, query: dict[str, str], expected: tuple[str, ...]) -> None:
    info = parse(method, path, query)
    assert info.is_resource
    found = (info.verb, info.api_group, info.api_version, info.namespace, info.resource, info.subresource, info.name)
    assert found == expected


@pytest.mark.parametrize("path", ["/", "", "/healthz", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/openapi/v3"])
def test_paths_that_are_no_resource(path: str) -> None:
    info = parse("GET", path, {})
    assert (info.is_resource, info.verb) == (False, "get")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/n/pods/..",
        "/api/v1/namespaces/../pods/p",
        "/api/v1/namespaces/n/pods/%2e",
        "/api/v1/namespaces/n/pods/a%2Fb",
        "/api/v1/namespaces/n/pods/a%00",
        "/api/v1/namespaces/n/pods/a%0Ab",
        "/api/v1/namespaces/n/pods/100%25",
    ],
)
def test_dangerous_segments_are_refused(path: str) -> None:
    with pytest.raises(StatusError) as refusal:
        parse("GET", path, {})
    assert refusal.value.code == 400


def test_the_tail_of_a_proxy_belongs_to_somebody_else() -> None:
    info = parse("GET", "/api/v1/namespaces/n/services/s/proxy/a%2Fb/../c/", {})
    assert (info.name, info.subresource, info.tail) == ("s", "proxy", "/a%2Fb/../c/")


def test_more_segments_than_a_resource_has_are_for_routing_to_judge() -> None:
    info = parse("GET", "/api/v1/namespaces/n/pods/p/status/more", {})
    assert (info.name, info.subresource, info.tail) == ("p", "status", "/more")
