"""Which pull secret fits which image."""

import base64
import json
from typing import Any

import pytest

from node.kubelet.images import credentials


def _secret(auths: dict[str, Any], kind: str = "kubernetes.io/dockerconfigjson") -> dict[str, Any]:
    old = kind == "kubernetes.io/dockercfg"
    document = auths if old else {"auths": auths}
    key = ".dockercfg" if old else ".dockerconfigjson"
    return {"type": kind, "data": {key: base64.b64encode(json.dumps(document).encode()).decode()}}


def _login(name: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{name}:secret:{name}".encode()).decode()}


@pytest.mark.parametrize(
    ("location", "image", "fits"),
    [
        ("registry.example.org", "registry.example.org/app:1", True),
        ("https://registry.example.org/v2/", "registry.example.org/app:1", True),
        ("registry.example.org:5000", "registry.example.org:5000/app", True),
        ("registry.example.org", "registry.example.org:5000/app", False),
        ("*.example.org", "registry.example.org/app", True),
        ("*.example.org", "a.b.example.org/app", False),
        ("registry.example.org/team", "registry.example.org/team/app", True),
        ("registry.example.org/team", "registry.example.org/other/app", False),
        ("https://index.docker.io/v1/", "busybox", True),
        ("docker.io", "library/busybox:1", True),
        ("docker.io", "registry.example.org/app", False),
    ],
)
def test_matching(location: str, image: str, fits: bool) -> None:
    found = credentials.for_image(image, [_secret({location: _login("me")})])
    assert [each.username for each in found] == (["me"] if fits else [])


def test_the_most_specific_comes_first() -> None:
    secret = _secret({"r.example.org": _login("wide"), "r.example.org/team": _login("narrow")})
    found = credentials.for_image("r.example.org/team/app", [secret, secret])
    assert [each.username for each in found] == ["narrow", "wide"]
    assert found[0].password == "secret:narrow"


def test_the_old_form_and_broken_secrets() -> None:
    old = _secret({"r.example.org": {"username": "u", "password": "p"}}, "kubernetes.io/dockercfg")
    broken = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "bm90IGpzb24="}}
    assert [each.username for each in credentials.for_image("r.example.org/a", [broken, old, {"type": "Opaque"}])] == ["u"]


def test_secrets_do_not_show_in_logs() -> None:
    assert "secret" not in repr(credentials.Credential("u", "secret"))
