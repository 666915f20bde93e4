"""Kubeconfig files: read into one immutable Config, or built and written by ``bootstrap``.

``load`` comes first in every client daemon's wiring; ``client.rest.Client`` takes the Config.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from component.errors import OperatorError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints an ``ExecCredential``."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Config:
    """Where the API server is and how to be recognised by it. PEM values may be inline (``*_data``) or files."""

    server: str
    ca_file: str | None = None
    ca_data: bytes | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    certificate_file: str | None = None
    certificate_data: bytes | None = field(default=None, repr=False)
    key_file: str | None = None
    key_data: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    exec_plugin: ExecPlugin | None = None
    namespace: str = "default"
    impersonate: str | None = None
    source: str | None = None  # the file that all this was read from, and may be read from again
    source_context: str | None = None


class KubeconfigError(OperatorError, ValueError):
    """The file cannot be used; the text names the file and what is wrong there."""


def load(path: str | os.PathLike[str], context: str | None = None) -> Config:
    """Read a kubeconfig file; ``context`` replaces its current-context. Raises KubeconfigError."""
    file = Path(path)
    document = _document(file)
    try:
        config = from_dict(document, base=file.parent, context=context)
    except KubeconfigError as error:
        raise KubeconfigError(f"kubeconfig {file}: {error}") from None
    return replace(config, source=str(file), source_context=context)


def _document(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise KubeconfigError(f"cannot read kubeconfig {file}: {error.strerror or error}") from None
    except yaml.YAMLError as error:
        raise KubeconfigError(f"kubeconfig {file} is not YAML: {error}") from None


def from_dict(document: Any, *, base: Path = Path(), context: str | None = None) -> Config:
    """The Config of a parsed kubeconfig; relative file names in it are relative to ``base``."""
    if not isinstance(document, dict):
        raise KubeconfigError("is empty or not a mapping")
    name = context or document.get("current-context")
    if not name:
        raise KubeconfigError("has no current-context")
    chosen = _named(document, "contexts", "context", name)
    cluster = _named(document, "clusters", "cluster", str(chosen.get("cluster", "")))
    user = _named(document, "users", "user", str(chosen["user"])) if chosen.get("user") else {}
    if not cluster.get("server"):
        raise KubeconfigError(f"cluster {chosen.get('cluster')!r} has no server")
    return replace(
        _identity(base, user),
        server=str(cluster["server"]).rstrip("/"),
        ca_file=_path(base, cluster, "certificate-authority"),
        ca_data=_data(cluster, "certificate-authority-data"),
        insecure=bool(cluster.get("insecure-skip-tls-verify", False)),
        tls_server_name=cluster.get("tls-server-name"),
        namespace=str(chosen.get("namespace") or "default"),
    )


def load_users(path: str | os.PathLike[str]) -> tuple[dict[str, Config], str]:
    """Every user of a file, by name, as a Config without a server; and who the current context is (``""`` for nobody).

    For a file that says who to be towards many servers. Raises KubeconfigError.
    """
    file = Path(path)
    document = _document(file)
    if not isinstance(document, dict):
        raise KubeconfigError(f"kubeconfig {file}: is empty or not a mapping")
    try:
        entries: Sequence[Any] = document.get("users") or ()
        named = {
            str(entry["name"]): entry.get("user") or {} for entry in entries if isinstance(entry, dict) and entry.get("name")
        }
        users = {name: _identity(file.parent, user) for name, user in named.items()}
        current = document.get("current-context")
        chosen = _named(document, "contexts", "context", str(current)) if current else {}
    except KubeconfigError as error:
        raise KubeconfigError(f"kubeconfig {file}: {error}") from None
    return users, str(chosen.get("user") or "")


def _identity(base: Path, user: Mapping[str, Any]) -> Config:
    """What a user entry says, with no server to say it to."""
    return Config(
        "",
        certificate_file=_path(base, user, "client-certificate"),
        certificate_data=_data(user, "client-certificate-data"),
        key_file=_path(base, user, "client-key"),
        key_data=_data(user, "client-key-data"),
        token=user.get("token"),
        token_file=_path(base, user, "tokenFile"),
        username=user.get("username"),
        password=user.get("password"),
        exec_plugin=_exec_plugin(user.get("exec")),
        impersonate=user.get("as"),
    )


def in_cluster(environment: Mapping[str, str] = os.environ, root: Path = _SERVICE_ACCOUNT) -> Config:
    """The Config of a process in a pod: its service account's token and the ``kubernetes`` Service."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise KubeconfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    shown = f"[{host}]" if ":" in host else host
    namespace = root / "namespace"
    return Config(
        server=f"https://{shown}:{port}",
        ca_file=str(root / "ca.crt"),
        token_file=str(root / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def build(
    server: str,
    *,
    ca: bytes | None = None,
    certificate: bytes | None = None,
    key: bytes | None = None,
    token: str | None = None,
    token_file: str | None = None,
    cluster: str = "kubernetes",
    user: str = "kubernetes-admin",
    namespace: str | None = None,
) -> dict[str, Any]:
    """A kubeconfig document with one cluster, user and context; PEM values are put inline."""
    identity: dict[str, Any] = {}
    if certificate is not None and key is not None:
        identity["client-certificate-data"] = base64.b64encode(certificate).decode()
        identity["client-key-data"] = base64.b64encode(key).decode()
    if token is not None:
        identity["token"] = token
    if token_file is not None:
        identity["tokenFile"] = token_file
    target: dict[str, Any] = {"server": server}
    if ca is not None:
        target["certificate-authority-data"] = base64.b64encode(ca).decode()
    chosen = {"cluster": cluster, "user": user, **({"namespace": namespace} if namespace else {})}
    name = f"{user}@{cluster}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": target}],
        "users": [{"name": user, "user": identity}],
        "contexts": [{"name": name, "context": chosen}],
        "current-context": name,
        "preferences": {},
    }


def save(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a kubeconfig atomically, readable by its owner alone."""
    from component.x509 import write_private

    write_private(Path(path), yaml.safe_dump(dict(document), sort_keys=False).encode())


def _named(document: Mapping[str, Any], group: str, inner: str, name: str) -> Mapping[str, Any]:
    entries: Sequence[Any] = document.get(group) or ()
    for entry in entries:
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(inner) or {}
            if not isinstance(value, dict):
                break
            return value
    raise KubeconfigError(f"{inner} {name!r} is not among its {group}")


def _path(base: Path, entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    return str(base / value) if value else None


def _data(entry: Mapping[str, Any], key: str) -> bytes | None:
    value = entry.get(key)
    if not value:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise KubeconfigError(f"{key} is not base64") from None


def _exec_plugin(entry: Any) -> ExecPlugin | None:
    if not isinstance(entry, dict):
        return None
    env = {item["name"]: item.get("value", "") for item in entry.get("env") or ()}
    version = entry.get("apiVersion") or "client.authentication.k8s.io/v1"
    return ExecPlugin(str(entry.get("command", "")), tuple(entry.get("args") or ()), env, str(version))
