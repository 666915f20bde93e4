"""One APIService as everything here reads it, and the order of many. Pure; made by ``services``."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.gvk import GroupVersion
from apimachinery.meta import condition_status
from controlplane.apiserver.discovery import version_priority

Object = Mapping[str, Any]
DEFAULT_PORT = 443


@dataclass(frozen=True, slots=True)
class ServiceReference:
    namespace: str
    name: str
    port: int

    @property
    def server_name(self) -> str:
        """What the certificate behind it must say."""
        return f"{self.name}.{self.namespace}.svc"


@dataclass(frozen=True, slots=True)
class Registered:
    """``service`` is None where this server answers itself. ``ca_bundle`` is PEM, empty for the system's authorities."""

    name: str
    version: GroupVersion
    group_priority: int
    version_priority: int
    service: ServiceReference | None = None
    ca_bundle: bytes = b""
    insecure: bool = False
    available: bool = False

    @property
    def path(self) -> str:
        return root_of(self.version)


def root_of(version: GroupVersion) -> str:
    """Where a group version's resources are."""
    return f"/apis/{version.group}/{version.version}" if version.group else f"/api/{version.version}"


def registered(obj: Object) -> Registered:
    """Of a stored APIService, which validation has seen."""
    spec: Object = obj.get("spec") or {}
    reference = spec.get("service")
    service = None
    if reference is not None:
        port = int(reference.get("port") or DEFAULT_PORT)
        service = ServiceReference(reference.get("namespace") or "", reference.get("name") or "", port)
    try:
        bundle = base64.b64decode(spec.get("caBundle") or "")
    except binascii.Error:  # the schema lets no such thing in
        bundle = b""
    return Registered(
        obj["metadata"]["name"],
        GroupVersion(spec.get("group") or "", spec.get("version") or ""),
        int(spec.get("groupPriorityMinimum") or 0),
        int(spec.get("versionPriority") or 0),
        service,
        bundle,
        bool(spec.get("insecureSkipTLSVerify")),
        condition_status(dict(obj), "Available") == "True",
    )


def by_group(found: Iterable[Registered]) -> list[list[Registered]]:
    """Groups with their versions, each the most wanted first: as ``SortedByGroupAndVersion`` of upstream's helper.

    A group stands where the highest of its versions' priorities puts it; equals stand by name.
    """
    groups: dict[str, list[Registered]] = {}
    for one in sorted(found, key=lambda each: (-each.group_priority, each.name)):
        groups.setdefault(one.version.group, []).append(one)
    return [sorted(versions, key=_version_order) for versions in groups.values()]


def _version_order(one: Registered) -> tuple[int, tuple[int, int, int, str]]:
    return -one.version_priority, version_priority(one.version.version)
