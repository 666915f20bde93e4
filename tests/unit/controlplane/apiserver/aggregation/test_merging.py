"""The order of everything, who a request is for, and what others say of themselves."""

import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from apimachinery.gvk import GroupVersion, GroupVersionKind
from controlplane.apiserver.aggregation.discovery import MergedDiscovery
from controlplane.apiserver.aggregation.endpoint_services import EndpointServices
from controlplane.apiserver.aggregation.identity import identity_headers
from controlplane.apiserver.aggregation.registered import ServiceReference, by_group, registered
from controlplane.apiserver.aggregation.remote_discovery import version_of, versions_of
from controlplane.apiserver.aggregation.services import APIServices
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.discovery import Discovery, listed
from controlplane.apiserver.registry.strategy import ResourceInfo, Strategy
from controlplane.apiserver.service_client import ResolveError


def service(group: str, version: str, group_priority: int, version_priority: int, **spec: Any) -> dict[str, Any]:
    wanted = {"group": group, "version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority}
    return {"metadata": {"name": f"{version}.{group}"}, "spec": {**wanted, **spec}}


def test_groups_stand_by_their_highest_version_and_versions_by_their_own() -> None:
    found = [
        registered(service(*each))
        for each in (
            ("b.example", "v1", 10, 5),
            ("a.example", "v1", 10, 5),
            ("c.example", "v1beta1", 10, 9),
            ("c.example", "v1", 20, 9),
            ("c.example", "v2alpha1", 10, 30),
        )
    ]
    assert [[one.name for one in group] for group in by_group(found)] == [
        ["v2alpha1.c.example", "v1.c.example", "v1beta1.c.example"],
        ["v1.a.example"],
        ["v1.b.example"],
    ]


def test_an_apiservice_is_read_with_its_defaults() -> None:
    spec = {"service": {"namespace": "n", "name": "s"}, "caBundle": base64.b64encode(b"PEM").decode()}
    one = registered(
        {**service("g.example", "v1", 1, 1, **spec), "status": {"conditions": [{"type": "Available", "status": "True"}]}}
    )
    assert one.service == ServiceReference("n", "s", 443)
    assert (one.ca_bundle, one.insecure, one.available, one.path) == (b"PEM", False, True, "/apis/g.example/v1")
    assert one.service is not None
    assert one.service.server_name == "s.n.svc"


def test_who_asks_is_told_in_headers() -> None:
    user = UserInfo("jane", "42", ("a", "b"), {"example.org/über%": ["x", "y"], "plain": ["z"]})
    assert identity_headers(user) == [
        ("X-Remote-User", "jane"),
        ("X-Remote-Uid", "42"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-example.org%2F%C3%BCber%25", "x"),
        ("X-Remote-Extra-example.org%2F%C3%BCber%25", "y"),
        ("X-Remote-Extra-plain", "z"),
    ]


def test_a_resource_list_becomes_a_version_of_the_document() -> None:
    rows = [
        {"name": "widgets/scale", "namespaced": True, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
        {
            "name": "widgets",
            "singularName": "widget",
            "namespaced": True,
            "kind": "Widget",
            "verbs": ["get"],
            "shortNames": ["w"],
        },
        {"name": "gadgets/status", "kind": "Gadget", "verbs": ["update"]},
    ]
    body = orjson.dumps({"kind": "APIResourceList", "resources": rows})
    assert version_of(body, GroupVersion("g.example", "v1")) == {
        "version": "v1",
        "resources": [
            {
                "resource": "widgets",
                "responseKind": {"group": "g.example", "version": "v1", "kind": "Widget"},
                "scope": "Namespaced",
                "singularResource": "widget",
                "verbs": ["get"],
                "shortNames": ["w"],
                "subresources": [
                    {
                        "subresource": "scale",
                        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                        "verbs": ["get"],
                    }
                ],
            },
            {
                "resource": "gadgets",
                "scope": "Cluster",
                "singularResource": "",
                "verbs": [],
                "subresources": [
                    {
                        "subresource": "status",
                        "responseKind": {"group": "g.example", "version": "v1", "kind": "Gadget"},
                        "verbs": ["update"],
                    }
                ],
            },
        ],
    }


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b'{"kind": "APIGroupList"}', b'{"kind": 3}'])
def test_what_is_no_document_is_none(body: bytes) -> None:
    assert versions_of(body) is None
    assert version_of(body, GroupVersion("g", "v1")) is None


def test_a_document_of_odd_shape_says_as_much_as_it_can() -> None:
    nameless = [{"metadata": {"name": ["a"]}, "versions": [{"version": "v1"}]}, {"metadata": "b", "versions": []}]
    items = [7, {"metadata": None, "versions": [{"version": "v1"}, {"version": 3}, "v2"]}, {"versions": {}}, *nameless]
    body = orjson.dumps({"kind": "APIGroupDiscoveryList", "items": items})
    assert versions_of(body) == {GroupVersion("", "v1"): {"version": "v1", "resources": []}}


class Widgets(Strategy):
    info = ResourceInfo(GroupVersionKind("apps", "v1", "Widget"), "widgets", "widget", True)


class Said:
    generation = 0
    versions: Mapping[GroupVersion, dict[str, Any]] = {}


class Nowhere:
    """A store that nobody asks."""


def test_groups_of_all_servers_merge() -> None:
    services, said = APIServices(Nowhere()), Said()  # type: ignore[arg-type]
    local = Discovery(listed([Widgets()]))
    merged = MergedDiscovery(lambda: local, services, said)
    assert [group["name"] for group in orjson.loads(merged.apis().body)["groups"]] == ["apps"]

    elsewhere = {"namespace": "n", "name": "s"}
    services.take(
        [service("first.example", "v1", 18500, 10, service=elsewhere), service("apps", "v2", 100, 20, service=elsewhere)]
    )
    apis = orjson.loads(merged.apis().body)["groups"]
    assert [group["name"] for group in apis] == ["first.example", "apps"]
    assert [each["version"] for each in apis[1]["versions"]] == ["v2", "v1"]
    document = orjson.loads(merged.aggregated("v2").body)
    assert [[(each["version"], each["freshness"]) for each in item["versions"]] for item in document["items"]] == [
        [("v1", "Stale")],
        [("v2", "Stale"), ("v1", "Current")],
    ]

    said.versions = {GroupVersion("first.example", "v1"): {"version": "v1", "resources": [1], "freshness": "Current"}}
    said.generation += 1
    assert orjson.loads(merged.aggregated("v2").body)["items"][0]["versions"][0]["resources"] == [1]
    assert merged.group("nobody.example") is None


def test_what_is_merged_is_kept_until_something_changes() -> None:
    services = APIServices(Nowhere())  # type: ignore[arg-type]
    local = Discovery(listed([Widgets()]))
    merged = MergedDiscovery(lambda: local, services, Said())
    available = {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
    services.take([service("g.example", "v1", 10, 10)])
    first = merged.apis()
    services.take([{**service("g.example", "v1", 10, 10), **available}])
    assert merged.apis() is first  # availability is no matter of the list
    services.take([service("g.example", "v1", 20, 10)])
    assert merged.apis() is not first


async def test_endpoints_stand_in_for_cluster_ips() -> None:
    spec = {"type": "ClusterIP", "ports": [{"port": 443, "name": "https"}]}
    slices = [
        {
            "ports": [{"name": "https", "port": 8443}, {"name": "metrics", "port": 9}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}, {"addresses": ["10.0.0.2", "10.0.0.3"]}],
        }
    ]

    async def lookup(resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        return {"spec": spec} if name == "s" else None

    async def slices_of(namespace: str, name: str) -> list[dict[str, Any]]:
        return slices

    resolver = EndpointServices(lookup, slices_of)
    assert await resolver.resolve("n", "s", 443) == ("10.0.0.2", 8443)
    for name, port, words in (("t", 443, 'service "t" not found'), ("s", 1, 'no service port 1 found for service "s"')):
        with pytest.raises(ResolveError, match=words):
            await resolver.resolve("n", name, port)
    slices.clear()
    with pytest.raises(ResolveError, match='no endpoints available for service "s"'):
        await resolver.resolve("n", "s", 443)
