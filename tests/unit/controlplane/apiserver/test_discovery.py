"""Discovery documents: the shapes clients read, and the order in which names resolve."""

from typing import Any

import orjson

from apimachinery.gvk import GroupVersion, GroupVersionKind
from controlplane.apiserver.discovery import Discovery, Document, listed, version_priority
from controlplane.apiserver.registry.strategy import ResourceInfo, Strategy, Subresource


class Pods(Strategy):
    info = ResourceInfo(GroupVersionKind("", "v1", "Pod"), "pods", "pod", True, ("po",), ("all",))
    has_status = True
    subresources = (Subresource("binding", GroupVersionKind("", "v1", "Binding"), ("create",), lambda ctx, old, body: old),)


class Deployments(Strategy):
    info = ResourceInfo(GroupVersionKind("apps", "v1", "Deployment"), "deployments", "deployment", True, ("deploy",), ("all",))
    has_status = True
    has_scale = True


class Reviews(Strategy):
    gvk = GroupVersionKind("authentication.k8s.io", "v1", "TokenReview")
    info = ResourceInfo(gvk, "tokenreviews", "tokenreview", False, verbs=("create",))


class Widgets(Strategy):
    info = ResourceInfo(GroupVersionKind("example.com", "v1", "Widget"), "widgets", "widget", True)


class OldWidgets(Strategy):
    info = ResourceInfo(GroupVersionKind("example.com", "v1beta1", "Widget"), "widgets", "widget", True)


def discovery() -> Discovery:
    return Discovery(listed([OldWidgets(), Deployments(), Pods(), Reviews(), Widgets()]), "10.0.0.1:6443")


def read(document: Document | None) -> Any:
    assert document is not None
    return orjson.loads(document.body)


def test_legacy_versions() -> None:
    assert read(discovery().api()) == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
    }


def test_groups_stand_by_importance_and_versions_by_preference() -> None:
    groups = read(discovery().apis())["groups"]
    assert [group["name"] for group in groups] == ["apps", "authentication.k8s.io", "example.com"]
    assert [each["version"] for each in groups[2]["versions"]] == ["v1", "v1beta1"]
    assert groups[2]["preferredVersion"] == {"groupVersion": "example.com/v1", "version": "v1"}
    assert read(discovery().group("apps")) == {"kind": "APIGroup", "apiVersion": "v1", **groups[0]}
    assert discovery().group("nope") is None
    assert discovery().group("") is None


def test_resource_list_of_the_core_group() -> None:
    document = read(discovery().resources(GroupVersion("", "v1")))
    rows = {row["name"]: row for row in document["resources"]}
    assert "apiVersion" not in document
    assert rows["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    }
    assert rows["pods/binding"] == {
        "name": "pods/binding",
        "singularName": "",
        "namespaced": True,
        "kind": "Binding",
        "verbs": ["create"],
    }
    assert rows["pods/eviction"]["group"] == "policy"
    assert rows["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert list(rows) == sorted(rows)


def test_scale_names_its_own_group() -> None:
    document = read(discovery().resources(GroupVersion("apps", "v1")))
    row = next(row for row in document["resources"] if row["name"] == "deployments/scale")
    assert (row["group"], row["version"], row["kind"]) == ("autoscaling", "v1", "Scale")
    assert discovery().resources(GroupVersion("apps", "v2")) is None


def test_kinds_that_are_not_stored_have_no_storage_hash() -> None:
    document = read(discovery().resources(GroupVersion("authentication.k8s.io", "v1")))
    assert "storageVersionHash" not in document["resources"][0]


def test_aggregated() -> None:
    document = discovery().aggregated(legacy=False)
    assert document.content_type == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    body = read(document)
    assert (body["kind"], body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    apps = body["items"][0]
    assert apps["metadata"]["name"] == "apps"
    resource = apps["versions"][0]["resources"][0]
    assert resource["responseKind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert (resource["scope"], resource["singularResource"]) == ("Namespaced", "deployment")
    assert [each["subresource"] for each in resource["subresources"]] == ["scale", "status"]
    legacy = read(discovery().aggregated(legacy=True))
    assert "name" not in legacy["items"][0]["metadata"]


def test_documents_are_cached_with_an_etag() -> None:
    served = discovery()
    first = served.apis()
    assert served.apis() is first
    assert first.etag == discovery().apis().etag
    assert first.etag != served.api().etag


def test_version_order() -> None:
    names = ["v1alpha1", "foo", "v1", "v2", "v1beta1", "v1beta2", "v10"]
    assert sorted(names, key=version_priority) == ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
