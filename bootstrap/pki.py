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
    domain = identity.cluster_domain
    api_names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{domain}", "localhost")
    api = Request(
        "kube-apiserver",
        dns_names=(*api_names, identity.node_name, *identity.extra_names),
        ip_addresses=tuple(dict.fromkeys((identity.service_ip, identity.node_ip, "127.0.0.1", "::1"))),
        usages=(SERVER,),
    )
    node = f"system:node:{identity.node_name}"
    kubelet = Request(node, ("system:nodes",), (identity.node_name,), (identity.node_ip,), (SERVER,))
    return [
        Leaf("apiserver", "ca", api),
        Leaf("kubelet", "ca", kubelet),
        Leaf("control", "ca", Request("control", dns_names=("localhost",), ip_addresses=("127.0.0.1", "::1"), usages=(SERVER,))),
        _client("admin", "kubernetes-admin", MASTERS),
        _client("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
        _client("controller-manager", "system:kube-controller-manager"),
        _client("scheduler", "system:kube-scheduler"),
        _client("proxy", "system:kube-proxy"),
        _client("kubelet-client", node, "system:nodes"),
        Leaf("front-proxy-client", "front-proxy-ca", Request("front-proxy-client", usages=(CLIENT,))),
    ]


def _client(name: str, user: str, *groups: str) -> Leaf:
    return Leaf(name, "ca", Request(user, groups, usages=(CLIENT,)))


def ensure_pki(folder: Path, identity: Identity, now: datetime | None = None) -> list[str]:
    """Make what is missing or stale in ``folder``; returns the names of what was made, in order."""
    moment = now or datetime.now(UTC)
    made: list[str] = []
    authorities = {}
    for name, subject in (("ca", "kubernetes-ca"), ("front-proxy-ca", "front-proxy-ca")):
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        if not (certificate.exists() and key.exists() and belongs(KeyPair.load(certificate, key), certificate.read_bytes())):
            new_ca(subject, now=moment).save(certificate, key)
            made.append(name)
        authorities[name] = KeyPair.load(certificate, key)
    for leaf in leaves(identity):
        authority = authorities[leaf.authority]
        if not is_current(folder / f"{leaf.name}.crt", folder / f"{leaf.name}.key", leaf.request, authority, moment):
            pair = issue(authority, leaf.request, now=moment)
            pair.save(folder / f"{leaf.name}.crt", folder / f"{leaf.name}.key")
            made.append(leaf.name)
    if not (folder / "sa.key").exists():
        key_pem = new_key()
        write_private(folder / "sa.pub", public_key(key_pem), mode=0o644)
        write_private(folder / "sa.key", key_pem)
        made.append("sa")
    if not (folder / "tokens.csv").exists():
        # one administrator's token, for tools that cannot present a certificate
        write_private(folder / "tokens.csv", f'{secrets.token_urlsafe(32)},kubernetes-admin,1,"{MASTERS}"\n'.encode())
        made.append("tokens")
    return made


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
