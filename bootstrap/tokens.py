"""Bootstrap tokens, with which new nodes join: the Secrets that hold them, and the roles that a joining node needs.

Called by ``cli token``; believed by the API server's ``bootstrap_token`` (``--enable-bootstrap-token-auth``). Pure.
"""

import base64
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery.times import format_time, parse_time

NAMESPACE, TYPE, PREFIX = "kube-system", "bootstrap.kubernetes.io/token", "bootstrap-token-"
DEFAULT_GROUP = "system:bootstrappers:kubeadm:default-node-token"
DEFAULT_USAGES = ("signing", "authentication")
USAGES = ("signing", "authentication")
TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
TOKEN_ID = re.compile(r"[a-z0-9]{6}")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_USAGE = "usage-bootstrap-"
_RBAC = "rbac.authorization.k8s.io"
_CSR = "system:certificates.k8s.io:certificatesigningrequests"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Token:
    """One token. ``expires`` None is for ever."""

    id: str
    secret: str
    expires: datetime | None = None
    usages: tuple[str, ...] = DEFAULT_USAGES
    description: str = ""
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.id}.{self.secret}"

    def __repr__(self) -> str:
        return f"Token({self.id!r})"


def generate() -> str:
    """A new token, random enough to guard a cluster for its life."""
    return ".".join("".join(secrets.choice(_LETTERS) for _ in range(count)) for count in (6, 16))


def parse(text: str) -> tuple[str, str]:
    """Id and secret. Raises ValueError in kubeadm's words, without the token."""
    match = TOKEN.fullmatch(text)
    if match is None:
        raise ValueError(r'the bootstrap token was not of the form "\A([a-z0-9]{6})\.([a-z0-9]{16})\z"')
    return match[1], match[2]


def check(token: Token) -> None:
    """Raises ValueError in kubeadm's words."""
    if unknown := set(token.usages) - set(USAGES):
        raise ValueError(
            f"invalid bootstrap token usage string: {', '.join(sorted(unknown))}, valid usages are: {', '.join(USAGES)}"
        )
    for group in token.groups:
        if not _GROUP.fullmatch(group):
            raise ValueError(f'bootstrap group "{group}" is invalid (must match \\A{_GROUP.pattern}\\z)')


def to_secret(token: Token) -> Object:
    data = {"token-id": token.id, "token-secret": token.secret}
    if token.description:
        data["description"] = token.description
    if token.expires is not None:
        data["expiration"] = format_time(token.expires)
    data |= {f"{_USAGE}{usage}": "true" for usage in token.usages}
    if token.groups:
        data["auth-extra-groups"] = ",".join(token.groups)
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    metadata = {"name": PREFIX + token.id, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE, "data": encoded}


def from_secret(secret: Mapping[str, Any]) -> Token | None:
    """None for a Secret that holds no token."""
    if secret.get("type") != TYPE:
        return None
    try:
        data = {name: base64.b64decode(value).decode() for name, value in (secret.get("data") or {}).items()}
        expires = parse_time(data["expiration"]) if data.get("expiration") else None
    except ValueError:
        return None
    if not data.get("token-id") or not data.get("token-secret"):
        return None
    usages = tuple(usage for usage in sorted(USAGES) if data.get(f"{_USAGE}{usage}") == "true")
    groups = tuple(group for group in data.get("auth-extra-groups", "").split(",") if group)
    return Token(data["token-id"], data["token-secret"], expires, usages, data.get("description", ""), groups)


def join_roles() -> list[Object]:
    """What lets a node with a token ask for its certificate and get it unasked, and renew it: kubeadm's three bindings."""
    return [
        _binding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", DEFAULT_GROUP),
        _binding("kubeadm:node-autoapprove-bootstrap", f"{_CSR}:nodeclient", DEFAULT_GROUP),
        _binding("kubeadm:node-autoapprove-certificate-rotation", f"{_CSR}:selfnodeclient", "system:nodes"),
    ]


def _binding(name: str, role: str, group: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group}],
    }
