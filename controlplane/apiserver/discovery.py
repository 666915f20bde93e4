"""What the server has, as clients ask for it: group lists, resource lists, and the aggregated document of newer clients.

Pure builders over the strategies. ``routing`` keeps one ``Discovery`` per set of served resources (custom resources make a new
one) and answers ``/api``, ``/apis`` and below from it. Everything is built once and served as bytes with an ETag.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.codecs import negotiate
from apimachinery.gvk import GroupVersion, GroupVersionKind
from controlplane.apiserver.kinds.apiregistration.priorities import GROUPS
from controlplane.apiserver.registry.strategy import ResourceInfo, Strategy

Object = dict[str, Any]

JSON = "application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
AGGREGATED_KIND = "APIGroupDiscoveryList"


@dataclass(frozen=True)
class SubresourceInfo:
    """A subresource as discovery and OpenAPI list it. ``kind`` is what its answers hold."""

    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    """A resource with all of its subresources."""

    info: ResourceInfo
    subresources: tuple[SubresourceInfo, ...] = ()
    stored_as: GroupVersionKind | None = None  # in which form objects are kept, where that is not the resource's own
    patches: tuple[str, ...] = negotiate.PATCHES


@dataclass(frozen=True)
class Document:
    """A finished answer."""

    body: bytes
    etag: str
    content_type: str = JSON


def rendered(value: Object, content_type: str = JSON) -> Document:
    body = orjson.dumps(value)
    return Document(body, f'"{hashlib.sha512(body).hexdigest().upper()}"', content_type)


_READ_WRITE = ("get", "patch", "update")
_PROXY = ("create", "delete", "get", "patch", "update")
_STREAM = ("create", "get")


def _core(name: str, kind: str, verbs: tuple[str, ...], group: str = "") -> SubresourceInfo:
    return SubresourceInfo(name, GroupVersionKind(group, "v1", kind), verbs)


# Subresources that no strategy describes, because they do not write the object: streams, proxies, tokens.
CONNECT: Mapping[tuple[str, str], tuple[SubresourceInfo, ...]] = {
    ("", "pods"): (
        _core("attach", "PodAttachOptions", _STREAM),
        _core("eviction", "Eviction", ("create",), "policy"),
        _core("exec", "PodExecOptions", _STREAM),
        _core("log", "Pod", ("get",)),
        _core("portforward", "PodPortForwardOptions", _STREAM),
        _core("proxy", "PodProxyOptions", _PROXY),
    ),
    ("", "services"): (_core("proxy", "ServiceProxyOptions", _PROXY),),
    ("", "nodes"): (_core("proxy", "NodeProxyOptions", _PROXY),),
    ("", "serviceaccounts"): (_core("token", "TokenRequest", ("create",), "authentication.k8s.io"),),
}


def listed(
    strategies: Iterable[Strategy], connect: Mapping[tuple[str, str], Sequence[SubresourceInfo]] = CONNECT
) -> list[Listed]:
    """Every resource that the strategies describe, with its subresources, in the order discovery shows them."""
    found = []
    for strategy in strategies:
        info = strategy.info
        subresources = {each.name: each for each in connect.get((info.gvk.group, info.plural), ())}
        if strategy.has_status:
            subresources["status"] = SubresourceInfo("status", info.gvk, _READ_WRITE)
        if strategy.has_scale:
            subresources["scale"] = SubresourceInfo("scale", GroupVersionKind("autoscaling", "v1", "Scale"), _READ_WRITE)
        for each in strategy.subresources:
            subresources[each.name] = SubresourceInfo(each.name, each.kind, tuple(sorted(each.verbs)))
        kept = strategy.stored_as.gvk if strategy.stored_as else None
        found.append(Listed(info, tuple(subresources[name] for name in sorted(subresources)), kept))
    return sorted(found, key=lambda each: each.info.plural)


class Discovery:
    """All discovery documents of one set of resources, each built on first use."""

    def __init__(self, resources: Sequence[Listed], server_address: str = "") -> None:
        """``server_address`` (``host:port``) is what ``/api`` tells clients without a better idea."""
        self._by_version: dict[tuple[str, str], list[Listed]] = {}
        self._versions: dict[str, set[str]] = {}
        for each in resources:
            gvk = each.info.gvk
            self._by_version.setdefault((gvk.group, gvk.version), []).append(each)
            self._versions.setdefault(gvk.group, set()).add(gvk.version)
        self._address = server_address
        self._documents: dict[str, Document] = {}

    def api(self) -> Document:
        """``/api``"""
        return self._cached("api", self._api_versions)

    def apis(self) -> Document:
        """``/apis``"""
        return self._cached("apis", lambda: {"kind": "APIGroupList", "apiVersion": "v1", "groups": self._groups()})

    def group(self, group: str) -> Document | None:
        """``/apis/GROUP``; None when the group is not served."""
        if not group or not self.versions(group):
            return None
        return self._cached(f"group/{group}", lambda: {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)})

    def resources(self, group_version: GroupVersion) -> Document | None:
        """``/api/v1`` or ``/apis/GROUP/VERSION``; None when it is not served."""
        if group_version.version not in self.versions(group_version.group):
            return None
        return self._cached(f"resources/{group_version}", lambda: self._resource_list(group_version))

    def aggregated(self, *, legacy: bool, version: str = "v2") -> Document:
        """``/api`` (``legacy``) or ``/apis`` in one document, for clients that accept ``as=APIGroupDiscoveryList``.

        ``version`` is ``v2`` or ``v2beta1``; both have the same shape.
        """
        groups = [""] if legacy else [group for group in self.groups() if group]
        return self._cached(
            f"aggregated/{legacy}/{version}",
            lambda: {
                "kind": AGGREGATED_KIND,
                "apiVersion": f"apidiscovery.k8s.io/{version}",
                "metadata": {},
                "items": [self._aggregated_group(group) for group in groups if self.versions(group)],
            },
            AGGREGATED.format(version=version),
        )

    def groups(self) -> list[str]:
        """Served groups, the most important first."""
        names = {group for group, _ in self._by_version}
        return sorted(names, key=lambda name: (-GROUPS.get(name, 0), name))

    def aggregated_version(self, group: str, version: str) -> Object:
        """One version in the aggregated document, as a member of its group."""
        return {"version": version, "resources": [_aggregated(each) for each in self._of(group, version)], "freshness": "Current"}

    def versions(self, group: str) -> list[str]:
        """Served versions of a group, the preferred first."""
        return sorted(self._versions.get(group, ()), key=version_priority)

    def _cached(self, key: str, build: Callable[[], Object], content_type: str = JSON) -> Document:
        found = self._documents.get(key)
        if found is None:
            found = self._documents[key] = rendered(build(), content_type)
        return found

    def _api_versions(self) -> Object:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}]
        return {"kind": "APIVersions", "versions": self.versions(""), "serverAddressByClientCIDRs": addresses}

    def _groups(self) -> list[Object]:
        return [self._group(group) for group in self.groups() if group]

    def _group(self, group: str) -> Object:
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self.versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _of(self, group: str, version: str) -> list[Listed]:
        return self._by_version.get((group, version), [])

    def _resource_list(self, group_version: GroupVersion) -> Object:
        rows = []
        for each in self._of(*group_version):
            rows.append(_row(each))
            rows += [_subresource_row(each.info, subresource) for subresource in each.subresources]
        head: Object = {"kind": "APIResourceList"}
        if group_version.group:
            head["apiVersion"] = "v1"
        return {**head, "groupVersion": str(group_version), "resources": rows}

    def _aggregated_group(self, group: str) -> Object:
        return {
            "metadata": {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None},
            "versions": [self.aggregated_version(group, version) for version in self.versions(group)],
        }


def _row(each: Listed) -> Object:
    info = each.info
    row: Object = {
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.gvk.kind,
        "verbs": sorted(info.verbs),
    }
    if info.short_names:
        row["shortNames"] = list(info.short_names)
    if info.categories:
        row["categories"] = list(info.categories)
    if "list" in info.verbs:  # reviews and other kinds that are never stored have none
        row["storageVersionHash"] = storage_version_hash(each.stored_as or info.gvk)
    return row


def _subresource_row(info: ResourceInfo, subresource: SubresourceInfo) -> Object:
    row: Object = {"name": f"{info.plural}/{subresource.name}", "singularName": "", "namespaced": info.namespaced}
    kind = subresource.kind
    if (kind.group, kind.version) != (info.gvk.group, info.gvk.version):
        row |= {"group": kind.group, "version": kind.version}
    return {**row, "kind": kind.kind, "verbs": list(subresource.verbs)}


def _aggregated(each: Listed) -> Object:
    info = each.info
    entry: Object = {
        "resource": info.plural,
        "responseKind": _kind(info.gvk),
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": sorted(info.verbs),
    }
    if info.short_names:
        entry["shortNames"] = list(info.short_names)
    if info.categories:
        entry["categories"] = list(info.categories)
    if each.subresources:
        entry["subresources"] = [
            {"subresource": sub.name, "responseKind": _kind(sub.kind), "verbs": list(sub.verbs)} for sub in each.subresources
        ]
    return entry


def _kind(gvk: GroupVersionKind) -> Object:
    return {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}


def storage_version_hash(gvk: GroupVersionKind) -> str:
    """Lets clients see that the stored version of a resource changed."""
    digest = hashlib.sha256(f"{gvk.group}/{gvk.version}/{gvk.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?").fullmatch


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sorts versions as Kubernetes prefers them: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""
    match = _VERSION(version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), version)
