"""Discovery of everything: groups of this server and of others, in the order that the APIServices' priorities make.

Answers ``/apis`` in both its forms and ``/apis/GROUP``. A group version without an APIService yet (they are made at the start)
stands where its own priority puts it; that of APIServices themselves comes first and has none, as upstream has it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from apimachinery.gvk import GroupVersion
from controlplane.apiserver.aggregation.registered import Registered, by_group
from controlplane.apiserver.aggregation.services import APIServices
from controlplane.apiserver.discovery import AGGREGATED, AGGREGATED_KIND, JSON, Discovery, Document, rendered
from controlplane.apiserver.kinds.apiregistration.priorities import priority_of

Object = dict[str, Any]


class RemoteVersions(Protocol):
    """What others have said last; see ``documents``."""

    @property
    def generation(self) -> int:
        """Grows with every change."""
        ...

    @property
    def versions(self) -> Mapping[GroupVersion, Object]:
        """As members of their groups in the aggregated document, with their freshness."""
        ...


class MergedDiscovery:
    """``local`` gives the discovery of this server's own resources, a new one whenever those change."""

    def __init__(self, local: Callable[[], Discovery], services: APIServices, remote: RemoteVersions) -> None:
        self._local, self._services, self._remote = local, services, remote
        self._state: tuple[Discovery | None, int, int] = (None, -1, -1)
        self._documents: dict[str, Document] = {}
        self._groups: list[list[Registered]] = []

    def apis(self) -> Document:
        """``/apis``"""
        groups = [_group(versions) for versions in self._current() if versions[0].version.group]
        return self._cached("apis", lambda: {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})

    def group(self, group: str) -> Document | None:
        """``/apis/GROUP``; None when nobody has it."""
        versions = next((each for each in self._current() if each[0].version.group == group), None)
        if versions is None or not group:
            return None
        return self._cached(f"group/{group}", lambda: {"kind": "APIGroup", "apiVersion": "v1", **_group(versions)})

    def aggregated(self, version: str) -> Document:
        """``/apis`` for clients that accept ``as=APIGroupDiscoveryList``, of ``version`` v2 or v2beta1."""
        self._current()
        return self._cached(
            f"aggregated/{version}",
            lambda: {
                "kind": AGGREGATED_KIND,
                "apiVersion": f"apidiscovery.k8s.io/{version}",
                "metadata": {},
                "items": list(self._items()),
            },
            AGGREGATED.format(version=version),
        )

    def _items(self) -> Iterator[Object]:
        local = self._local()
        remote, has = self._services.remote, {group: set(local.versions(group)) for group in local.groups()}
        for group in self._groups:
            name = group[0].version.group
            versions = []
            for one in group:
                if one.version in remote:
                    missing = {"version": one.version.version, "resources": [], "freshness": "Stale"}
                    versions.append(self._remote.versions.get(one.version, missing))
                elif one.version.version in has.get(name, ()):
                    versions.append(local.aggregated_version(*one.version))
            if versions and name:
                yield {"metadata": {"name": name, "creationTimestamp": None}, "versions": versions}

    def _current(self) -> list[list[Registered]]:
        local = self._local()
        state = local, self._services.order, self._remote.generation
        if state != self._state:
            self._state, self._documents = state, {}
            self._groups = by_group(self._registered(local))
        return self._groups

    def _registered(self, local: Discovery) -> Iterator[Registered]:
        held = self._services.held.values()
        known = {one.version for one in held}
        yield from held
        for group in local.groups():
            for version in (GroupVersion(group, each) for each in local.versions(group)):
                if version not in known:
                    yield Registered(f"{version.version}.{group}", version, *priority_of(version))

    def _cached(self, key: str, build: Callable[[], Object], content_type: str = JSON) -> Document:
        found = self._documents.get(key)
        if found is None:
            found = self._documents[key] = rendered(build(), content_type)
        return found


def _group(versions: list[Registered]) -> Object:
    listed = [{"groupVersion": str(one.version), "version": one.version.version} for one in versions]
    return {"name": versions[0].version.group, "versions": listed, "preferredVersion": listed[0]}
