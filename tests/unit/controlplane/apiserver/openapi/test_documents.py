"""OpenAPI documents: what kubectl looks for in them. (Real kubectl reads them in the end-to-end tests.)"""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from apimachinery import schema
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.discovery import listed
from controlplane.apiserver.openapi.v2 import OpenAPIV2
from controlplane.apiserver.openapi.v3 import OpenAPIV3
from controlplane.apiserver.registry.strategy import ResourceInfo, Strategy

DEPLOYMENT = "/apis/apps/v1/namespaces/{namespace}/deployments"


class Pods(Strategy):
    info = ResourceInfo(GroupVersionKind("", "v1", "Pod"), "pods", "pod", True)
    has_status = True


class Nodes(Strategy):
    info = ResourceInfo(GroupVersionKind("", "v1", "Node"), "nodes", "node", False)


class Deployments(Strategy):
    info = ResourceInfo(GroupVersionKind("apps", "v1", "Deployment"), "deployments", "deployment", True)
    has_status = True
    has_scale = True


RESOURCES = listed([Pods(), Nodes(), Deployments()])


@pytest.fixture(scope="module")
def v3() -> OpenAPIV3:
    return OpenAPIV3(RESOURCES, schema.load(), "v1.36.0")


@pytest.fixture(scope="module")
def v2() -> OpenAPIV2:
    return OpenAPIV2(RESOURCES, schema.load(), "v1.36.0")


def document(v3: OpenAPIV3, path: str) -> Any:
    found = v3.document(path)
    assert found is not None
    return orjson.loads(found.body())


def operations(paths: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in paths.values():
        yield from ((method, each) for method, each in item.items() if method != "parameters")


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_index_names_each_group_version_with_a_hash(v3: OpenAPIV3) -> None:
    paths = orjson.loads(v3.index().body())["paths"]
    assert sorted(paths) == ["api/v1", "apis/apps/v1"]
    url = paths["apis/apps/v1"]["serverRelativeURL"]
    assert url == f"/openapi/v3/apis/apps/v1?hash={v3.hash('apis/apps/v1')}"
    assert v3.document("apis/nope/v1") is None


def test_hash_follows_what_is_served(v3: OpenAPIV3) -> None:
    fewer = OpenAPIV3(listed([Pods()]), schema.load(), "v1.36.0")
    assert fewer.hash("api/v1") != v3.hash("api/v1")
    assert OpenAPIV3(RESOURCES, schema.load(), "v1.36.0").hash("api/v1") == v3.hash("api/v1")


@pytest.mark.parametrize("method", ["post", "put", "patch"])
def test_writes_offer_field_validation(v3: OpenAPIV3, method: str) -> None:
    path = DEPLOYMENT if method == "post" else DEPLOYMENT + "/{name}"
    operation = document(v3, "apis/apps/v1")["paths"][path][method]
    assert "fieldValidation" in {each["name"] for each in operation["parameters"]}
    assert operation["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert operation["x-kubernetes-action"] == method


def test_paths_of_a_namespaced_and_a_cluster_scoped_kind(v3: OpenAPIV3) -> None:
    paths = document(v3, "api/v1")["paths"]
    assert set(paths["/api/v1/nodes"]) == {"get", "post", "delete", "parameters"}
    assert set(paths["/api/v1/pods"]) == {"get", "parameters"}
    assert set(paths["/api/v1/namespaces/{namespace}/pods/{name}/log"]) == {"get", "parameters"}
    assert "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}" in paths


def test_identifiers_are_unique_and_upstreams(v3: OpenAPIV3) -> None:
    found = [each["operationId"] for path in ("api/v1", "apis/apps/v1") for _, each in operations(document(v3, path)["paths"])]
    assert len(found) == len(set(found))
    expected = {
        "createAppsV1NamespacedDeployment",
        "listAppsV1DeploymentForAllNamespaces",
        "deleteAppsV1CollectionNamespacedDeployment",
        "replaceAppsV1NamespacedDeploymentScale",
        "readCoreV1Node",
        "deleteCoreV1CollectionNode",
        "connectCoreV1GetNamespacedPodExec",
        "createCoreV1NamespacedPodEviction",
    }
    assert expected <= set(found)


def test_definitions_are_closed_and_described(v3: OpenAPIV3) -> None:
    for path in ("api/v1", "apis/apps/v1"):
        body = document(v3, path)
        schemas = body["components"]["schemas"]
        assert set(references(body)) <= set(schemas)
        assert all("description" in each for name, each in schemas.items() if ".core.v1." in name)


def test_properties_carry_what_patches_need(v3: OpenAPIV3) -> None:
    schemas = document(v3, "api/v1")["components"]["schemas"]
    ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert schemas["io.k8s.api.core.v1.Container"]["properties"]["image"]["type"] == "string"
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    assert pod["properties"]["spec"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]


def test_v2_is_closed_and_has_no_one_of(v2: OpenAPIV2) -> None:
    body = orjson.loads(v2.json().body())
    assert set(references(body)) <= set(body["definitions"])
    assert b"oneOf" not in v2.json().body()
    assert v2.json().etag != v2.protobuf().etag


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message whose fields are all varints or length-delimited."""
    at = 0

    def varint() -> int:
        nonlocal at
        shift = result = 0
        while True:
            byte = message[at]
            at += 1
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result

    while at < len(message):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, message[at : at + size]
            at += size
        else:
            assert key & 7 == 0
            yield key >> 3, varint()


def test_protobuf_holds_the_same_definitions(v2: OpenAPIV2) -> None:
    document = dict(fields(v2.protobuf().body()))
    assert document[1] == b"2.0"
    named = [dict(fields(each)) for _, each in fields(document[9])]
    by_name = {each[1].decode(): each[2] for each in named}
    assert by_name.keys() == orjson.loads(v2.json().body())["definitions"].keys()
    container = dict(fields(by_name["io.k8s.api.core.v1.Container"]))
    assert dict(fields(container[22]))[1] == b"object"
    properties = {dict(fields(each))[1] for _, each in fields(container[25])}
    assert {b"image", b"ports"} <= properties
    assert container[19] == b"name"
