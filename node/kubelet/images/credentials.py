"""Registry credentials out of pull secrets: which of them fit an image. Pure."""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

_DEFAULT_REGISTRY = "docker.io"
_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io", "https://index.docker.io/v1")


@dataclass(frozen=True, slots=True)
class Credential:
    """One way to log in at a registry."""

    username: str = ""
    password: str = field(default="", repr=False)
    auth: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)


def for_image(image: str, secrets: Iterable[Mapping[str, Any]]) -> list[Credential]:
    """The credentials whose registry (and path) matches, most specific first. Unreadable secrets are skipped."""
    host, path = split_image(image)
    found: list[tuple[int, Credential]] = []
    for secret in secrets:
        for location, entry in _entries(secret):
            if (rank := _matches(location, host, path)) is not None:
                found.append((rank, _credential(entry)))
    found.sort(key=lambda each: -each[0])
    return list(dict.fromkeys(credential for _, credential in found))


def split_image(image: str) -> tuple[str, str]:
    """(registry host, repository path): ``busybox`` is ``docker.io`` and ``library/busybox``."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return _DEFAULT_REGISTRY, image if slash else f"library/{image}"


def _entries(secret: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    data = secret.get("data") or {}
    keys = {"kubernetes.io/dockerconfigjson": ".dockerconfigjson", "kubernetes.io/dockercfg": ".dockercfg"}
    raw = data.get(keys.get(str(secret.get("type") or ""), ""))
    if not raw:
        return ()
    try:
        document = json.loads(base64.b64decode(raw))
        listed = document["auths"] if secret.get("type") == "kubernetes.io/dockerconfigjson" else document
        return [(str(location), entry) for location, entry in listed.items() if isinstance(entry, dict)]
    except (binascii.Error, ValueError, KeyError, AttributeError):
        return ()


def _matches(location: str, host: str, path: str) -> int | None:
    """How specific a match is (the length of the location), or None."""
    bare = location.removeprefix("https://").removeprefix("http://").rstrip("/")
    for suffix in ("/v1", "/v2"):
        bare = bare.removesuffix(suffix)
    wanted_host, _, wanted_path = bare.partition("/")
    if location.rstrip("/") in _DOCKER_HUB or wanted_host in _DOCKER_HUB:
        wanted_host = _DEFAULT_REGISTRY
    same_parts = wanted_host.count(".") == host.count(".")
    if not (same_parts and fnmatchcase(host, wanted_host)):
        return None
    if wanted_path and not path.startswith(wanted_path):
        return None
    return len(bare)


def _credential(entry: Mapping[str, Any]) -> Credential:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if entry.get("auth") and not username:
        try:
            username, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            username = password = ""
    return Credential(
        username,
        password.rstrip("\x00"),
        identity_token=str(entry.get("identitytoken") or ""),
        registry_token=str(entry.get("registrytoken") or ""),
    )
