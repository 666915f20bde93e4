"""The keys of a cluster: which authority signs which certificate for whom. Called by ``cli up`` and by ansible.

An authority of its own for the front proxy: who may speak for others is not told by the certificate of an ordinary client.
What exists is kept; a certificate that no longer says the right thing (another address, near its end) is issued anew.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from component.x509 import CLIENT, SERVER, KeyPair, Request, belongs, issue, new_ca, new_key, parse, public_key, write_private

RENEW_BEFORE = timedelta(days=30)
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Identity:
    """What the certificates must say about one cluster and its first node."""

    node_name: str
    node_ip: str
    service_ip: str  # of the `kubernetes` Service
    cluster_domain: str = "cluster.local"
    api_port: int = 6443
    extra_names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """One certificate to have: files ``<name>.crt`` and ``<name>.key``, signed by ``<authority>.crt``."""

    name: str
    authority: str
    request: Request


def leaves(identity: Identity) -> list[Leaf]:
    """Every certificate of a cluster with one node; user and group names are upstream's."""
    node = f"system:node:{identity.node_name}"
    return [
        apiserver(identity.cluster_domain, (identity.node_name, *identity.extra_names), (identity.service_ip, identity.node_ip)),
        kubelet_server(identity.node_name, (identity.node_ip,)),
        CONTROL,
        client("admin", "kubernetes-admin", MASTERS),
        client("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
        client("controller-manager", "system:kube-controller-manager"),
        client("scheduler", "system:kube-scheduler"),
        client("proxy", "system:kube-proxy"),
        client("dns", "system:cluster-dns"),
        client("kubelet-client", node, "system:nodes"),
        Leaf("front-proxy-client", "front-proxy-ca", Request("front-proxy-client", usages=(CLIENT,))),
    ]


def apiserver(domain: str, names: Sequence[str], addresses: Sequence[str]) -> Leaf:
    """The API server's own: what pods call it, this machine's loopback, and ``names`` and ``addresses``."""
    api_names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{domain}", "localhost")
    known = tuple(dict.fromkeys((*addresses, "127.0.0.1", "::1")))
    return Leaf("apiserver", "ca", Request("kube-apiserver", (), (*api_names, *names), known, (SERVER,)))


def kubelet_server(name: str, addresses: Sequence[str]) -> Leaf:
    return Leaf("kubelet", "ca", Request(f"system:node:{name}", ("system:nodes",), (name,), addresses, (SERVER,)))


def client(name: str, user: str, *groups: str) -> Leaf:
    return Leaf(name, "ca", Request(user, groups, usages=(CLIENT,)))


# What scheduler and controllers serve health and metrics with, on loopback.
CONTROL = Leaf("control", "ca", Request("control", (), ("localhost",), ("127.0.0.1", "::1"), (SERVER,)))


def ensure_pki(folder: Path, identity: Identity, now: datetime | None = None) -> list[str]:
    """Make what is missing or stale in ``folder``; returns the names of what was made, in order."""
    moment = now or datetime.now(UTC)
    made: list[str] = []
    authorities = {}
    for name, subject in (("ca", "kubernetes-ca"), ("front-proxy-ca", "front-proxy-ca")):
        authorities[name], new = ensure_authority(folder, name, subject, moment)
        made += [name] if new else []
    made += [leaf.name for leaf in leaves(identity) if ensure_leaf(folder, leaf, authorities[leaf.authority], moment)]
    if ensure_signing_key(folder):
        made.append("sa")
    if not (folder / "tokens.csv").exists():
        # one administrator's token, for tools that cannot present a certificate
        write_private(folder / "tokens.csv", f'{secrets.token_urlsafe(32)},kubernetes-admin,1,"{MASTERS}"\n'.encode())
        made.append("tokens")
    return made


def ensure_authority(folder: Path, name: str, subject: str, now: datetime) -> tuple[KeyPair, bool]:
    """The authority in ``<name>.crt`` and ``<name>.key``, and whether it was made now."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    new = not (certificate.exists() and key.exists() and belongs(KeyPair.load(certificate, key), certificate.read_bytes()))
    if new:
        new_ca(subject, now=now).save(certificate, key)
    return KeyPair.load(certificate, key), new


def ensure_leaf(folder: Path, leaf: Leaf, authority: KeyPair, now: datetime, *, anew: bool = False) -> bool:
    """Issue ``leaf`` unless the one in ``folder`` is current, or ``anew`` in any case; whether it was issued."""
    files = folder / f"{leaf.name}.crt", folder / f"{leaf.name}.key"
    if not anew and is_current(*files, leaf.request, authority, now):
        return False
    issue(authority, leaf.request, now=now).save(*files)
    return True


def ensure_signing_key(folder: Path) -> bool:
    """The key that signs service account tokens, ``sa.key``, and its public half; whether it was made."""
    if (folder / "sa.key").exists():
        return False
    key_pem = new_key()
    write_private(folder / "sa.pub", public_key(key_pem), mode=0o644)
    write_private(folder / "sa.key", key_pem)
    return True


def is_current(certificate: Path, key: Path, wanted: Request, authority: KeyPair, now: datetime) -> bool:
    """Whether the files exist, belong together and to the authority (an `up` may have been killed between writing them), say
    what ``wanted`` says, and have more than a month to go."""
    if not (certificate.exists() and key.exists()):
        return False
    pair = KeyPair.load(certificate, key)
    try:
        found = parse(pair.certificate)
    except ValueError:
        return False
    if not belongs(pair, authority.certificate):
        return False
    return (
        found.common_name == wanted.common_name
        and set(found.organizations) == set(wanted.organizations)
        and set(found.dns_names) >= set(wanted.dns_names)
        and set(found.ip_addresses) >= set(wanted.ip_addresses)
        and found.not_after - now > RENEW_BEFORE
    )
