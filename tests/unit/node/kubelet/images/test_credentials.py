"""Which pull secret fits which image."""

import base64
import json
from pathlib import Path
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
    assert [each.credential.username for each in found] == (["me"] if fits else [])


def test_the_most_specific_comes_first() -> None:
    secret = _secret({"r.example.org": _login("wide"), "r.example.org/team": _login("narrow")})
    found = credentials.for_image("r.example.org/team/app", [secret, secret])
    assert [each.credential.username for each in found] == ["narrow", "wide"]
    assert found[0].credential.password == "secret:narrow"


def test_the_old_form_and_broken_secrets() -> None:
    old = _secret({"r.example.org": {"username": "u", "password": "p"}}, "kubernetes.io/dockercfg")
    broken = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "bm90IGpzb24="}}
    assert [each.credential.username for each in credentials.for_image("r.example.org/a", [broken, old, {"type": "Opaque"}])] == [
        "u"
    ]


def test_secrets_do_not_show_in_logs() -> None:
    assert "secret" not in repr(credentials.Credential("u", "secret"))


def test_a_credential_says_which_secret_it_comes_from() -> None:
    secret = _secret({"r.example.org": _login("me")})
    named = {**secret, "metadata": {"uid": "u", "namespace": "n", "name": "s"}}
    (found,) = credentials.for_image("r.example.org/a", [named])
    assert found.secret is not None
    assert (found.secret.uid, found.secret.namespace, found.secret.name) == ("u", "n", "s")
    (copy,) = credentials.for_image("r.example.org/a", [{**named, "metadata": {"uid": "v", "namespace": "n", "name": "t"}}])
    assert copy.secret is not None
    assert copy.secret.hash == found.secret.hash
    (other,) = credentials.for_image("r.example.org/a", [{**_secret({"r.example.org": _login("you")}), "metadata": {}}])
    assert other.secret is not None
    assert other.secret.hash != found.secret.hash


@pytest.mark.parametrize(
    ("image", "bare"),
    [
        ("busybox", "docker.io/library/busybox"),
        ("team/app:1", "docker.io/team/app"),
        ("r.example.org:5000/team/app:1@sha256:00", "r.example.org:5000/team/app"),
        ("r.example.org:5000/app", "r.example.org:5000/app"),
    ],
)
def test_names_without_tag(image: str, bare: str) -> None:
    assert credentials.bare_name(image) == bare


def test_the_nodes_own_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    places = credentials.node_places(tmp_path / "root", tmp_path / "home")
    files = credentials.NodeFiles(places)
    assert files.for_image("r.example.org/a") == []
    (tmp_path / "root").mkdir()
    held = tmp_path / "root" / "config.json"

    def write(name: str) -> None:
        held.write_text(json.dumps({"auths": {"r.example.org": _login(name)}}))

    write("me")
    (found,) = files.for_image("r.example.org/a")
    assert (found.credential.username, found.secret) == ("me", None)
    write("another")
    assert [each.credential.username for each in files.for_image("r.example.org/a")] == ["another"]
    held.write_text("{")
    assert files.for_image("r.example.org/a") == []
