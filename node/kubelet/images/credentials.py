"""Registry credentials out of pull secrets and the node's own files: which of them fit an image. Pure, save NodeFiles."""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

_LARGEST_FILE = 1 << 20
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


@dataclass(frozen=True, slots=True)
class PullSecret:
    """The secret that a credential comes from, and a hash of the credential."""

    uid: str
    namespace: str
    name: str
    hash: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Account:
    """The service account whose token a credential was got with."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Found:
    """A credential, and whose it is. Neither a secret's nor an account's: every pod of the node may use it."""

    credential: Credential
    secret: PullSecret | None = None
    account: Account | None = None


def for_image(image: str, secrets: Iterable[Mapping[str, Any]]) -> list[Found]:
    """The credentials whose registry (and path) matches, most specific first. Unreadable secrets are skipped."""
    host, path = split_image(image)
    found: list[tuple[int, Found]] = []
    for secret in secrets:
        for location, entry in _entries(secret):
            if (rank := _matches(location, host, path)) is not None:
                credential = _credential(entry)
                found.append((rank, Found(credential, _source(secret, credential))))
    found.sort(key=lambda each: -each[0])
    return list(dict.fromkeys(each for _, each in found))


def _source(secret: Mapping[str, Any], credential: Credential) -> PullSecret | None:
    """None for a file of the node, which has no metadata."""
    metadata = secret.get("metadata")
    if metadata is None:
        return None
    secrets = (credential.username, credential.password, credential.auth, credential.identity_token, credential.registry_token)
    digest = hashlib.sha256(json.dumps(secrets).encode()).hexdigest()
    uid, namespace, name = (str(metadata.get(key) or "") for key in ("uid", "namespace", "name"))
    return PullSecret(uid, namespace, name, digest)


@dataclass(slots=True)
class NodeFiles:
    """The node's own docker configuration: the first of upstream's places that has one. Read again when it changes."""

    places: Sequence[Path]
    _stamp: tuple[Path, int, int] | None = None
    _held: Mapping[str, Any] | None = None

    def for_image(self, image: str) -> list[Found]:
        """Blocks: a stat, seldom a small read."""
        for place in self.places:
            try:
                status = place.stat()
            except OSError:
                continue
            stamp = (place, status.st_mtime_ns, status.st_size)
            if stamp != self._stamp:
                self._stamp, self._held = stamp, _as_secret(place)
            return for_image(image, [self._held]) if self._held is not None else []
        return []


def node_places(root: Path, home: Path | None, working: Path | None = None) -> list[Path]:
    """Where a docker configuration of the node is looked for, as documented by upstream; ``root`` is the kubelet's directory."""
    folders = [root, *([working] if working is not None else [])]
    of_docker = [*([home / ".docker"] if home is not None else []), Path("/.docker")]
    of_home = [*([home] if home is not None else []), Path("/")]
    return [*(each / "config.json" for each in (*folders, *of_docker)), *(each / ".dockercfg" for each in (*folders, *of_home))]


def _as_secret(place: Path) -> Mapping[str, Any] | None:
    """A file in the form of a secret, which is decoded alike."""
    try:
        if place.stat().st_size > _LARGEST_FILE:
            return None
        content = base64.b64encode(place.read_bytes()).decode()
    except OSError:
        return None
    if place.name == "config.json":
        return {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": content}}
    return {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": content}}


def split_image(image: str) -> tuple[str, str]:
    """(registry host, repository path): ``busybox`` is ``docker.io`` and ``library/busybox``."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return _DEFAULT_REGISTRY, image if slash else f"library/{image}"


def bare_name(image: str) -> str:
    """With its registry, without tag and digest."""
    host, path = split_image(image)
    name = path.partition("@")[0]
    start, slash, last = name.rpartition("/")
    return f"{host}/{start}{slash}{last.partition(':')[0]}"


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
