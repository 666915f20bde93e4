"""How long the certificates of a cluster last, and new ones in their place. Called by ``cli certs``.

What a certificate says (names, addresses, user, groups) is taken from the one there is, as kubeadm does it; its key is made anew.
Kubeconfigs hold copies of client certificates, so they are written anew as well. An etcd that ``up`` owns has an authority of its
own (``etcd_pki``); its certificates go by kubeadm's names for them.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from bootstrap import etcd_pki
from bootstrap.kubeconfigs import USERS
from bootstrap.pki import Identity, leaves
from component.errors import OperatorError
from component.x509 import Certificate, KeyPair, Request, belongs, issue, parse, write_private

_ETCD_CA = "etcd-ca"
_FILES = {
    _ETCD_CA: "etcd/ca",
    "etcd-server": "etcd/server",
    "etcd-peer": "etcd/peer",
    "apiserver-etcd-client": "etcd/apiserver-etcd-client",
}
"""Names of the table that are not those of the files, which end in ``.crt`` and ``.key``."""


class RenewalError(OperatorError):
    """A certificate cannot be renewed; the text says which, why, and what can be done."""


@dataclass(frozen=True, slots=True)
class Place:
    """A certificate in the PKI folder, who signed it, and the kubeconfigs with a copy."""

    name: str
    authority: str
    kubeconfigs: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Expiration:
    """One row of the table. ``certificate`` is None for one that is not there; ``external``: its authority's key is not here."""

    name: str
    authority: str
    certificate: Certificate | None
    external: bool


def places(pki: Path, kubeconfigs: Path, admin: Path) -> list[Place]:
    """Every certificate that is signed by an authority of the cluster, in the order of the table."""
    copies: dict[str, list[Path]] = {"admin": [admin]}
    for file, (certificate, _) in USERS.items():
        copies.setdefault(certificate, []).append(kubeconfigs / f"{file}.kubeconfig")
    made = leaves(Identity("node", "127.0.0.1", "127.0.0.1"))
    found = [Place(leaf.name, leaf.authority, tuple(copies.get(leaf.name, ()))) for leaf in made]
    if _ETCD_CA in authorities(pki):
        names = {file: name for name, file in _FILES.items()}
        found += [Place(names[f"etcd/{leaf.name}"], _ETCD_CA) for leaf in etcd_pki.LEAVES]
    return sorted(found, key=lambda one: one.name)


def authorities(pki: Path) -> tuple[str, ...]:
    """Those of every cluster, and that of an etcd of its own."""
    return ("ca", "front-proxy-ca", *([_ETCD_CA] if _file(pki, _ETCD_CA, "crt").exists() else ()))


def expirations(pki: Path, known: list[Place]) -> tuple[list[Expiration], list[Expiration]]:
    """Of the certificates, and of the authorities."""
    rows = [Expiration(one.name, one.authority, _read(pki, one.name), is_external(pki, one.authority)) for one in known]
    return rows, [Expiration(name, "", _read(pki, name), is_external(pki, name)) for name in authorities(pki)]


def is_external(pki: Path, authority: str) -> bool:
    """Whether somebody else keeps the authority's key: its certificate is here and its key is not."""
    return _file(pki, authority, "crt").exists() and not _file(pki, authority, "key").exists()


def renew(pki: Path, place: Place, now: datetime | None = None) -> None:
    """A new key and certificate that says what the old one said. Files are replaced one by one, each atomically; whoever reads
    them in between keeps what it has and looks again. Raises RenewalError before anything is written."""
    if is_external(pki, place.authority):
        raise RenewalError(f"Detected external {place.authority}, {place.name} can't be renewed")
    old = _read(pki, place.name)
    if old is None:
        raise RenewalError(f"{_file(pki, place.name, 'crt')} is missing; `pybernetes up` makes it")
    try:
        authority = KeyPair.load(_file(pki, place.authority, "crt"), _file(pki, place.authority, "key"))
    except OSError as error:
        raise RenewalError(f"cannot renew {place.name}: {error.filename}: {error.strerror}") from None
    if not belongs(authority, authority.certificate):
        raise RenewalError(f"cannot renew {place.name}: {place.authority}.key is not the key of {place.authority}.crt")
    moment = now or datetime.now(UTC)
    if parse(authority.certificate).not_after <= moment:
        raise RenewalError(f"cannot renew {place.name}: its authority {place.authority} has expired itself")
    request = Request(old.common_name, old.organizations, old.dns_names, old.ip_addresses, old.usages)
    pair = issue(authority, request, now=moment)
    documents = {path: _with(path, pair) for path in place.kubeconfigs if path.exists()}
    pair.save(_file(pki, place.name, "crt"), _file(pki, place.name, "key"))
    for path, document in documents.items():
        write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def _file(pki: Path, name: str, ending: str) -> Path:
    return pki / f"{_FILES.get(name, name)}.{ending}"


def _read(pki: Path, name: str) -> Certificate | None:
    file = _file(pki, name, "crt")
    try:
        return parse(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RenewalError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None


def _with(path: Path, pair: KeyPair) -> Mapping[str, Any]:
    """A kubeconfig with another certificate for its users, and otherwise as it was."""
    try:
        document = yaml.safe_load(path.read_bytes())
        users = [entry["user"] for entry in document["users"]]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        raise RenewalError(f"cannot renew the certificate in {path}: not a kubeconfig with users") from None
    for user in users:
        if "client-certificate-data" in user:
            user["client-certificate-data"] = base64.b64encode(pair.certificate).decode()
            user["client-key-data"] = base64.b64encode(pair.key).decode()
    return document  # type: ignore[no-any-return]
