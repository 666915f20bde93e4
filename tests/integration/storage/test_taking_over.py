"""What upstream's API server has stored in etcd, in protobuf and in its versions, is read, changed and written again by ours."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.config import Storage
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.etcd import Etcd, running_etcd
from tests.support.upstream import require, upstream_apiserver

NAMESPACED = "namespaces/default"
SPEC: dict[str, Any] = {"containers": [{"name": "c", "image": "i:1"}]}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
TARGET: dict[str, Any] = {"name": "t", "port": {"name": "web"}}
MERGE = "application/merge-patch+json"

# (group and version upstream takes it in, resource, body, version it is stored in, group and version of ours)
STORED: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("api/v1", f"{NAMESPACED}/configmaps", {"data": {"k": "ü"}, "binaryData": {"b": "AAEC"}}, "v1", "api/v1"),
    ("api/v1", f"{NAMESPACED}/secrets", {"data": {"k": "dg=="}}, "v1", "api/v1"),
    ("api/v1", f"{NAMESPACED}/pods", {"spec": {**SPEC, "nodeName": "n"}}, "v1", "api/v1"),
    ("api/v1", "nodes", {"status": {"capacity": {"cpu": "2", "memory": "1Gi"}}}, "v1", "api/v1"),
    (
        "apis/apps/v1",
        f"{NAMESPACED}/deployments",
        {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
        "apps/v1",
        "apis/apps/v1",
    ),
    (
        "apis/networking.k8s.io/v1",
        f"{NAMESPACED}/ingresses",
        {
            "spec": {
                "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}},
                "rules": [
                    {
                        "host": "h",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "t", "port": {"name": "web"}}},
                                }
                            ]
                        },
                    }
                ],
            }
        },
        "networking.k8s.io/v1beta1",
        "apis/networking.k8s.io/v1",
    ),
    (
        "apis/batch/v1beta1",
        f"{NAMESPACED}/cronjobs",
        {
            "spec": {
                "schedule": "1 2 * * *",
                "jobTemplate": {"spec": {"template": {"spec": {**SPEC, "restartPolicy": "Never"}}}},
            }
        },
        "batch/v1beta1",
        "apis/batch/v1",
    ),
    (
        "apis/policy/v1beta1",
        f"{NAMESPACED}/poddisruptionbudgets",
        {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
        "policy/v1beta1",
        "apis/policy/v1",
    ),
    (
        "apis/discovery.k8s.io/v1beta1",
        f"{NAMESPACED}/endpointslices",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "topology": {"kubernetes.io/hostname": "n"}}],
            "ports": [{"port": 80}],
        },
        "discovery.k8s.io/v1beta1",
        "apis/discovery.k8s.io/v1",
    ),
    (
        "apis/autoscaling/v1",
        f"{NAMESPACED}/horizontalpodautoscalers",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}},
        "autoscaling/v1",
        "apis/autoscaling/v2",
    ),
    ("apis/coordination.k8s.io/v1", f"{NAMESPACED}/leases", {"spec": {"holderIdentity": "x"}}, "coordination.k8s.io/v1beta1", ""),
    ("apis/networking.k8s.io/v1", "ingressclasses", {"spec": {"controller": "a.b/c"}}, "networking.k8s.io/v1beta1", ""),
    ("apis/node.k8s.io/v1", "runtimeclasses", {"handler": "h"}, "node.k8s.io/v1beta1", ""),
    ("apis/storage.k8s.io/v1", "csidrivers", {"spec": {"attachRequired": False}}, "storage.k8s.io/v1beta1", ""),
    (
        "apis/flowcontrol.apiserver.k8s.io/v1beta1",
        "prioritylevelconfigurations",
        {"spec": {"type": "Limited", "limited": {"assuredConcurrencyShares": 7, "limitResponse": {"type": "Reject"}}}},
        "flowcontrol.apiserver.k8s.io/v1beta1",
        "apis/flowcontrol.apiserver.k8s.io/v1",
    ),
]


def raw(etcd: Etcd, key: str) -> bytes:
    """The stored bytes of one key."""
    (found,) = json.loads(etcd.ctl("get", key, "--write-out=json"))["kvs"]
    return base64.b64decode(found["value"])


async def stored_by_upstream(folder: Path, etcd: Etcd, media_type: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The objects as upstream shows them, by path; and a Service with a node port."""
    made: dict[str, Any] = {}
    folder.mkdir()
    async with upstream_apiserver(folder, f"--storage-media-type={media_type}", "--runtime-config=api/all=true", etcd=etcd) as up:
        for version, resource, body, _, _ in STORED:
            answer = await up.request("POST", f"/{version}/{resource}", {**body, "metadata": {"name": "kept"}})
            assert answer.status == 201, answer.body
            made[resource] = answer.json
        service = await up.request(
            "POST",
            f"/api/v1/{NAMESPACED}/services",
            {"metadata": {"name": "kept"}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}},
        )
        assert service.status == 201
        return made, service.json


async def check(ours: TestServer, etcd: Etcd, made: dict[str, Any]) -> None:
    for theirs, resource, _, stored_as, version in STORED:
        path = f"/{version or theirs}/{resource}/kept"
        found = await ours.request("GET", path)
        assert found.status == 200, (path, found.body)
        was, now = made[resource], found.json
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            assert now["metadata"][field] == was["metadata"][field], path
        if (version or theirs) == theirs:
            assert_contains(now, {key: value for key, value in was.items() if key != "metadata"}, path)
        patch = {"metadata": {"labels": {"touched": "yes"}}}
        touched = await ours.request("PATCH", path, patch, content_type=MERGE)
        assert touched.status == 200, touched.body
        assert touched.json["metadata"]["uid"] == was["metadata"]["uid"]
        key = next(key for key in raw_keys(etcd) if key.endswith("/kept") and stored_place(resource) in key)
        value = json.loads(raw(etcd, key))
        assert value["metadata"]["labels"] == {"touched": "yes"}
        assert f"/{value['apiVersion']}".endswith((version or theirs).removeprefix("apis/").removeprefix("api/")), stored_as


def raw_keys(etcd: Etcd) -> list[str]:
    return etcd.ctl("get", "/registry/", "--prefix", "--keys-only").split()


def stored_place(resource: str) -> str:
    plural = resource.rpartition("/")[2]
    return f"/registry/{ {'nodes': 'minions', 'ingresses': 'ingress'}.get(plural, plural) }/"


def assert_contains(now: Any, was: Any, where: str) -> None:
    """Everything that upstream showed is still there; there may be more, as newer versions default more."""
    if isinstance(was, dict):
        assert isinstance(now, dict), where
        for key, value in was.items():
            if value is None:  # as upstream writes a creationTimestamp that nobody set
                continue
            assert key in now, f"{where}: {key} is missing"
            assert_contains(now[key], value, f"{where}.{key}")
    elif isinstance(was, list):
        assert len(now) == len(was), where
        for number, each in enumerate(was):
            assert_contains(now[number], each, f"{where}[{number}]")
    else:
        assert now == was, where


@pytest.mark.parametrize("media_type", ["application/vnd.kubernetes.protobuf", "application/json"])
async def test_everything_is_taken_over(tmp_path: Path, media_type: str) -> None:
    require("kube-apiserver")
    for name in ("etcd", "ours"):
        (tmp_path / name).mkdir()
    with running_etcd(tmp_path / "etcd") as etcd:
        made, service = await stored_by_upstream(tmp_path / "upstream", etcd, media_type)
        async with running_apiserver("etcd3", tmp_path / "ours", storage=Storage("etcd3", etcd=etcd.config())) as ours:
            await check(ours, etcd, made)
            backend = (await ours.request("GET", f"/apis/networking.k8s.io/v1/{NAMESPACED}/ingresses/kept")).json["spec"]
            assert backend["rules"][0]["http"]["paths"][0]["backend"] == {"service": {"name": "t", "port": {"name": "web"}}}
            level = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/kept"
            assert (await ours.request("GET", level)).json["spec"]["limited"]["nominalConcurrencyShares"] == 7
            await claims_hold(ours, service)


async def claims_hold(ours: TestServer, service: dict[str, Any]) -> None:
    """Nobody gets what a Service of upstream's has."""
    path = f"/api/v1/{NAMESPACED}/services"
    spec = {"clusterIP": service["spec"]["clusterIP"], "ports": [{"port": 1}]}
    refused = await ours.request("POST", path, {"metadata": {"name": "thief"}, "spec": spec})
    assert refused.status == 422, refused.body
    assert "provided IP is already allocated" in refused.json["message"]
    spec = {"type": "NodePort", "ports": [{"port": 1, "nodePort": service["spec"]["ports"][0]["nodePort"]}]}
    refused = await ours.request("POST", path, {"metadata": {"name": "thief"}, "spec": spec})
    assert refused.status == 422, refused.body
    assert "provided port is already allocated" in refused.json["message"]


async def test_an_update_that_changes_nothing_migrates(tmp_path: Path) -> None:
    """As upstream's storage migration does it; and what is in the present form already is not written."""
    require("kube-apiserver")
    for name in ("etcd", "ours"):
        (tmp_path / name).mkdir()
    with running_etcd(tmp_path / "etcd") as etcd:
        await stored_by_upstream(tmp_path / "upstream", etcd, "application/vnd.kubernetes.protobuf")
        async with running_apiserver("etcd3", tmp_path / "ours", storage=Storage("etcd3", etcd=etcd.config())) as ours:
            path, key = f"/api/v1/{NAMESPACED}/configmaps/kept", "/registry/configmaps/default/kept"
            assert raw(etcd, key).startswith(b"k8s\0")
            found = (await ours.request("GET", path)).json
            put = await ours.request("PUT", path, found)
            assert put.status == 200
            assert json.loads(raw(etcd, key))["data"] == {"k": "ü"}
            again = await ours.request("PUT", path, put.json)
            assert again.json["metadata"]["resourceVersion"] == put.json["metadata"]["resourceVersion"]


async def test_upstream_reads_what_ours_writes_as_protobuf(tmp_path: Path) -> None:
    """``--storage-media-type=application/vnd.kubernetes.protobuf``: the way back, byte by byte upstream's form."""
    require("kube-apiserver")
    for name in ("etcd", "ours", "upstream"):
        (tmp_path / name).mkdir()
    packed = Storage("etcd3", media_type="application/vnd.kubernetes.protobuf")
    with running_etcd(tmp_path / "etcd") as etcd:
        storage = Storage("etcd3", etcd=etcd.config(), media_type=packed.media_type)
        async with running_apiserver("etcd3", tmp_path / "ours", storage=storage) as ours:
            body = {"metadata": {"name": "ours", "labels": {"b": "1", "a": "2"}}, "data": {"z": "1", "a": "2"}}
            made = (await ours.request("POST", f"/api/v1/{NAMESPACED}/configmaps", body)).json
            assert raw(etcd, "/registry/configmaps/default/ours").startswith(b"k8s\0")
            same = await ours.request("PUT", f"/api/v1/{NAMESPACED}/configmaps/ours", made)
            assert same.json["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "nothing changed"
            patch = {"data": {"z": "3"}}
            patched = await ours.request("PATCH", f"/api/v1/{NAMESPACED}/configmaps/ours", patch, content_type=MERGE)
            assert patched.json["data"] == {"z": "3", "a": "2"}
        flags = ("--feature-gates=APIPriorityAndFairness=false", "--runtime-config=flowcontrol.apiserver.k8s.io/v1beta1=false")
        async with upstream_apiserver(tmp_path / "upstream", *flags, etcd=etcd) as upstream:
            found = (await upstream.request("GET", f"/api/v1/{NAMESPACED}/configmaps/ours")).json
            assert found["data"] == {"z": "3", "a": "2"}
            assert found["metadata"]["uid"] == made["metadata"]["uid"]
            assert found["metadata"]["labels"] == {"b": "1", "a": "2"}
