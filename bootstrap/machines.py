"""The keys of a cluster of several machines: what each gets, by what it does there. Called by ``cli certs issue`` (by ansible).

Authorities, the key of service accounts and the encryption configuration lie in the folder itself, as kubeadm names them; what
belongs to one machine lies in ``machines/<name>``, certificates and kubeconfigs, ready to be taken there. What exists is kept; a
certificate that says the wrong thing or ends within a month is issued anew.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from bootstrap.encryption import ensure_encryption_config
from bootstrap.pki import (
    CONTROL,
    MASTERS,
    Leaf,
    apiserver,
    client,
    ensure_authority,
    ensure_leaf,
    ensure_signing_key,
    kubelet_server,
)
from client.kubeconfig import build
from component.errors import OperatorError
from component.x509 import CLIENT, SERVER, KeyPair, Request, write_private

CONTROL_PLANE, ETCD, NODE = ROLES = ("control-plane", "etcd", "node")
_AUTHORITIES = {"ca": "kubernetes-ca", "front-proxy-ca": "front-proxy-ca"}
_ETCD_CA = "etcd/ca"
# file: (certificate, user), by role
_KUBECONFIGS = {
    CONTROL_PLANE: {
        "admin.conf": ("admin", "kubernetes-admin"),
        "controller-manager.conf": ("controller-manager", "system:kube-controller-manager"),
        "scheduler.conf": ("scheduler", "system:kube-scheduler"),
    },
    NODE: {"proxy.conf": ("proxy", "system:kube-proxy"), "dns.conf": ("dns", "system:cluster-dns")},
}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class DescriptionError(OperatorError):
    """The description of the cluster makes no sense; the text names the field."""


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    addresses: Sequence[str]
    roles: Sequence[str]


@dataclass(frozen=True, slots=True)
class Cluster:
    """``server`` is the URL at which every machine finds the API; ``service_ips`` are those of the ``kubernetes`` Service."""

    server: str
    service_ips: Sequence[str]
    machines: Sequence[Machine]
    domain: str = "cluster.local"
    api_names: Sequence[str] = field(default=())

    @property
    def has_etcd(self) -> bool:
        """Whether etcd is ours to give certificates to."""
        return any(ETCD in machine.roles for machine in self.machines)


def read(document: Any) -> Cluster:
    """A cluster from what YAML or JSON says. Raises DescriptionError."""
    if not isinstance(document, Mapping):
        raise DescriptionError("the description of the cluster is not a mapping")
    known = {"server", "serviceCIDRs", "domain", "apiNames", "machines"}
    if unknown := set(document) - known:
        raise DescriptionError(f"unknown field {sorted(map(str, unknown))[0]!r}; known are {', '.join(sorted(known))}")
    machines = [_machine(index, entry) for index, entry in enumerate(document.get("machines") or ())]
    if len({machine.name for machine in machines}) != len(machines):
        raise DescriptionError("machines: two have the same name")
    if not any(CONTROL_PLANE in machine.roles for machine in machines):
        raise DescriptionError(f"machines: none has the role {CONTROL_PLANE}")
    server = document.get("server")
    if not isinstance(server, str) or not server.startswith("https://"):
        raise DescriptionError("server: must be an https URL")
    return Cluster(
        server,
        _first_addresses("serviceCIDRs", document.get("serviceCIDRs")),
        machines,
        str(document.get("domain") or "cluster.local"),
        tuple(str(name) for name in document.get("apiNames") or ()),
    )


def _machine(index: int, entry: Any) -> Machine:
    where = f"machines[{index}]"
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise DescriptionError(f"{where}: needs a name")
    if not _NAME.fullmatch(entry["name"]):
        raise DescriptionError(f"{where}.name: {entry['name']!r} is no name for a node: lower case letters, digits, '-' and '.'")
    roles = tuple(entry.get("roles") or ())
    if not roles or set(roles) - set(ROLES):
        raise DescriptionError(f"{where}.roles: must be some of {', '.join(ROLES)}")
    return Machine(entry["name"], _addresses(f"{where}.addresses", entry.get("addresses")), roles)


def _first_addresses(where: str, given: Any) -> tuple[str, ...]:
    """Those of the ``kubernetes`` Service, as the API server gives them."""
    if not isinstance(given, list) or not given:
        raise DescriptionError(f"{where}: must be a list of networks")
    try:
        return tuple(str(ipaddress.ip_network(text)[1]) for text in given)
    except (ValueError, IndexError) as error:
        raise DescriptionError(f"{where}: {error}") from None


def _addresses(where: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise DescriptionError(f"{where}: must be a list of IP addresses")
    try:
        return tuple(str(ipaddress.ip_address(text)) for text in given)
    except ValueError as error:
        raise DescriptionError(f"{where}: {error}") from None


def leaves(cluster: Cluster, machine: Machine) -> list[Leaf]:
    """The certificates of one machine. Pure. A kubelet gets its client certificate from the cluster when it joins."""
    found: list[Leaf] = []
    if CONTROL_PLANE in machine.roles:
        found += [
            _api_leaf(cluster, machine),
            CONTROL,
            client("admin", "kubernetes-admin", MASTERS),
            client("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
            client("controller-manager", "system:kube-controller-manager"),
            client("scheduler", "system:kube-scheduler"),
            Leaf("front-proxy-client", "front-proxy-ca", Request("front-proxy-client", usages=(CLIENT,))),
        ]
        if cluster.has_etcd:
            found.append(Leaf("apiserver-etcd-client", _ETCD_CA, Request("kube-apiserver-etcd-client", usages=(CLIENT,))))
    if ETCD in machine.roles:
        names, addresses = (machine.name, "localhost"), (*machine.addresses, "127.0.0.1", "::1")
        for name in ("etcd-server", "etcd-peer"):
            found.append(Leaf(name, _ETCD_CA, Request(machine.name, (), names, addresses, (SERVER, CLIENT))))
    if NODE in machine.roles:
        found += [kubelet_server(machine.name, machine.addresses), client("proxy", "system:kube-proxy")]
        found.append(client("dns", "system:cluster-dns"))
    return found


def _api_leaf(cluster: Cluster, machine: Machine) -> Leaf:
    addresses = [name for name in cluster.api_names if _is_address(name)]
    names = [name for name in cluster.api_names if not _is_address(name)]
    return apiserver(cluster.domain, (machine.name, *names), (*cluster.service_ips, *machine.addresses, *addresses))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def ensure(folder: Path, cluster: Cluster, now: datetime | None = None, *, renew: bool = False) -> list[str]:
    """Make what is missing or stale below ``folder`` (0700), and with ``renew`` every certificate but the authorities'; the names
    of what was made, ``<machine>/<file>`` for a machine's."""
    moment = now or datetime.now(UTC)
    subjects = {**_AUTHORITIES, **({_ETCD_CA: "etcd-ca"} if cluster.has_etcd else {})}
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made: list[str] = []
    authorities = {}
    for name, subject in subjects.items():
        (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
        authorities[name], new = ensure_authority(folder, name, subject, moment)
        made += [name] if new else []
    made += ["sa"] if ensure_signing_key(folder) else []
    made += ["encryption-config"] if ensure_encryption_config(folder / "encryption-config.yaml") else []
    (folder / "machines").mkdir(mode=0o700, exist_ok=True)
    for machine in cluster.machines:
        own = folder / "machines" / machine.name
        own.mkdir(mode=0o700, exist_ok=True)
        issued = [
            leaf.name
            for leaf in leaves(cluster, machine)
            if ensure_leaf(own, leaf, authorities[leaf.authority], moment, anew=renew)
        ]
        issued += _kubeconfigs(own, cluster, machine, authorities["ca"])
        made += [f"{machine.name}/{name}" for name in issued]
    return made


def _kubeconfigs(own: Path, cluster: Cluster, machine: Machine, authority: KeyPair) -> list[str]:
    made = []
    for role in machine.roles:
        for file, (certificate, user) in _KUBECONFIGS.get(role, {}).items():
            pair = KeyPair.load(own / f"{certificate}.crt", own / f"{certificate}.key")
            document = build(cluster.server, ca=authority.certificate, certificate=pair.certificate, key=pair.key, user=user)
            text = yaml.safe_dump(document, sort_keys=False).encode()
            if not (own / file).exists() or (own / file).read_bytes() != text:
                write_private(own / file, text)
                made.append(file)
    return made
