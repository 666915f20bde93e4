"""ConfigMaps, Secrets, ServiceAccounts."""

import base64
from typing import Any

import pytest

from apimachinery.meta import clone
from tests.support.kinds import NOW, created, problems, strategy, update_problems

Object = dict[str, Any]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_string_data_is_folded_into_data_and_wins() -> None:
    obj = created(strategy("secrets"), {"data": {"a": encoded("x"), "b": encoded("y")}, "stringData": {"a": "z"}})
    assert obj["data"] == {"a": encoded("z"), "b": encoded("y")}
    assert "stringData" not in obj
    assert obj["type"] == "Opaque"


SECRETS: list[tuple[str, Object, list[str]]] = [
    ("Opaque", {}, []),
    ("kubernetes.io/tls", {"tls.crt": ""}, ["data[tls.key]: Required value"]),
    ("kubernetes.io/basic-auth", {}, ["data[username]: Required value", "data[password]: Required value"]),
    ("kubernetes.io/basic-auth", {"username": encoded("u")}, []),
    ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]: Required value"]),
    ("kubernetes.io/dockerconfigjson", {}, ["data[.dockerconfigjson]: Required value"]),
    ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": encoded("{}")}, []),
    ("kubernetes.io/service-account-token", {}, ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
    ("example.com/own", {}, []),
]


@pytest.mark.parametrize(("kind", "data", "expected"), SECRETS, ids=[f"{row[0]} {row[2]}" for row in SECRETS])
def test_secret_types_demand_their_keys(kind: str, data: Object, expected: list[str]) -> None:
    assert problems(strategy("secrets"), {"type": kind, "data": data}) == expected


def test_a_broken_docker_config_is_not_repeated_in_the_message() -> None:
    (text,) = problems(strategy("secrets"), {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": encoded("hush")}})
    assert text.startswith('data[.dockercfg]: Invalid value: "<secret contents redacted>"')
    assert "hush" not in text


def test_secret_type_is_immutable() -> None:
    kind = strategy("secrets")
    old = created(kind, {})
    new = {**clone(old), "type": "example.com/other"}
    assert update_problems(kind, new, old) == ['type: Invalid value: "example.com/other": field is immutable']


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
def test_immutable_objects_stay(plural: str) -> None:
    kind = strategy(plural)
    old = created(kind, {"immutable": True, "data": {"a": encoded("x")}})
    new = clone(old)
    new["data"]["a"] = encoded("y")
    assert update_problems(kind, new, old) == ["data: Forbidden: field is immutable when `immutable` is set"]
    new = {**clone(old), "immutable": False}
    assert update_problems(kind, new, old) == ["immutable: Forbidden: field is immutable when `immutable` is set"]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        pytest.param({"data": {"a/b": ""}}, 'data[a/b]: Invalid value: "a/b": a valid config key must consist of', id="key"),
        pytest.param({"data": {"..": ""}}, "data[..]: Invalid value: \"..\": must not be '..'", id="parent"),
        pytest.param(
            {"data": {"a": ""}, "binaryData": {"a": ""}},
            'data[a]: Invalid value: "a": duplicate of key present in binaryData',
            id="both",
        ),
        pytest.param({"data": {"a": "x" * 1048577}}, "[]: Too long: may not be more than 1048576 bytes", id="size"),
    ],
)
def test_configmap_refuses(obj: Object, message: str) -> None:
    assert any(text.startswith(message) for text in problems(strategy("configmaps"), obj))


def test_rows() -> None:
    stamp = {"name": "x", "creationTimestamp": "2026-11-30T11:59:00Z"}
    assert strategy("configmaps").row({"metadata": stamp, "data": {"a": ""}, "binaryData": {"b": ""}}, NOW) == ["x", 2, "60s"]
    assert strategy("secrets").row({"metadata": stamp, "type": "Opaque"}, NOW) == ["x", "Opaque", 0, "60s"]
    assert strategy("serviceaccounts").row({"metadata": stamp, "secrets": [{}]}, NOW) == ["x", 1, "60s"]
