"""From a call to the endpoint that answers it. Called by ``chain`` last; the tables are made by ``assembly``."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from apimachinery import errors
from apimachinery.gvk import GroupVersionResource
from controlplane.apiserver.endpoints.create import create
from controlplane.apiserver.endpoints.delete import delete
from controlplane.apiserver.endpoints.deletecollection import deletecollection
from controlplane.apiserver.endpoints.get import get
from controlplane.apiserver.endpoints.list import list_
from controlplane.apiserver.endpoints.patch import patch, patch_status
from controlplane.apiserver.endpoints.paths import Paths
from controlplane.apiserver.endpoints.scale import get_scale, patch_scale, update_scale
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.endpoints.subresource import patch_subresource, write_subresource
from controlplane.apiserver.endpoints.update import update, update_status
from controlplane.apiserver.endpoints.watch import OpenWatches, watch
from controlplane.apiserver.registry.strategy import ResourceInfo, Subresource
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import OPEN_TAILS, RequestInfo
from controlplane.apiserver.wire.reply import Answer

Endpoint = Callable[[Call], Awaitable[Answer]]
ANY = "*"
_ON_COLLECTION = frozenset({"create", "list", "watch", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Routes:
    """The endpoints of one resource by (subresource, verb); the verb ``*`` takes what no other does."""

    info: ResourceInfo
    endpoints: Mapping[tuple[str, str], Endpoint]


def routes_of(scope: Scope, open_watches: OpenWatches, extra: Mapping[tuple[str, str], Endpoint] | None = None) -> Routes:
    """The standard endpoints that a strategy asks for. ``extra`` adds or replaces: streams, tokens, evictions."""

    def bound(endpoint: Callable[[Call, Scope], Awaitable[Answer]]) -> Endpoint:
        return lambda call: endpoint(call, scope)

    verbs: dict[str, Endpoint] = {
        "get": bound(get),
        "list": bound(list_),
        "watch": lambda call: watch(call, scope, open_watches),
        "create": bound(create),
        "update": bound(update),
        "patch": bound(patch),
        "delete": bound(delete),
        "deletecollection": bound(deletecollection),
    }
    table: dict[tuple[str, str], Endpoint] = {("", verb): verbs[verb] for verb in scope.info.verbs if verb in verbs}
    if scope.strategy.has_status:
        table[("status", "get")] = bound(get)
        table[("status", "update")], table[("status", "patch")] = bound(update_status), bound(patch_status)
    if scope.strategy.has_scale:
        table[("scale", "get")] = bound(get_scale)
        table[("scale", "update")], table[("scale", "patch")] = bound(update_scale), bound(patch_scale)
    for sub in scope.strategy.subresources:
        _add_subresource(table, scope, sub)
    table.update(extra or {})
    return Routes(scope.info, table)


def group_version(info: RequestInfo) -> tuple[str, str]:
    """Of a resource, or of a path at or below the root of a group version; empty for any other path."""
    if info.is_resource:
        return info.api_group, info.api_version
    match info.path.strip("/").split("/"):
        case ["apis", group, version, *_]:
            return group, version
        case ["api", version, *_]:
            return "", version
    return "", ""


def _add_subresource(table: dict[tuple[str, str], Endpoint], scope: Scope, sub: Subresource) -> None:
    for verb in sub.verbs:
        if verb == "get":
            table[(sub.name, verb)] = lambda call: get(call, scope)
        elif verb == "patch":
            table[(sub.name, verb)] = lambda call: patch_subresource(call, scope, sub)
        else:
            table[(sub.name, verb)] = lambda call: write_subresource(call, scope, sub)


class Router:
    """What other servers answer for, then built-in resources, then custom ones, then paths that are no resource.

    Unknown resources are a 404, unknown verbs of known ones a 405. ``aggregated`` may change at any time; ``custom`` knows the
    custom resources of the moment.
    """

    def __init__(
        self,
        routes: Mapping[GroupVersionResource, Routes],
        paths: Paths,
        aggregated: Mapping[tuple[str, str], Endpoint] | None = None,
        custom: Callable[[RequestInfo], Routes | None] = lambda info: None,
    ) -> None:
        self._routes, self._paths, self._custom = routes, paths, custom
        self._aggregated = aggregated if aggregated is not None else {}

    def __call__(self, call: Call) -> Awaitable[Answer]:
        info = call.info
        if self._aggregated and (remote := self._aggregated.get(group_version(info))) is not None:
            return remote(call)
        if not info.is_resource:
            return self._paths(call)
        if info.tail and info.subresource not in OPEN_TAILS:
            raise errors.path_not_found()
        routes = self._routes.get(GroupVersionResource(info.api_group, info.api_version, info.resource))
        if routes is None and (routes := self._custom(info)) is None:
            raise errors.path_not_found()
        call.routed = True
        resource = routes.info
        endpoint = routes.endpoints.get((info.subresource, info.verb)) or routes.endpoints.get((info.subresource, ANY))
        if endpoint is None:
            if info.subresource and not any(name == info.subresource for name, _ in routes.endpoints):
                raise errors.path_not_found()
            raise errors.method_not_allowed()
        self._check_shape(call, resource)
        if resource.deprecation:
            call.warnings.append(resource.deprecation)
        return endpoint(call)

    def _check_shape(self, call: Call, resource: ResourceInfo) -> None:
        info = call.info
        if resource.namespaced:
            if not info.namespace and info.verb not in ("list", "watch", "deletecollection"):
                raise errors.method_not_allowed() if info.verb == "create" else errors.path_not_found()
            if not info.namespace and info.verb == "deletecollection":
                raise errors.method_not_allowed()
        elif info.namespace and info.resource != "namespaces":
            raise errors.path_not_found()
        wrong = ("create", "deletecollection") if info.name else ("update", "patch")  # on an object; on a collection
        if not info.subresource and info.verb in wrong:
            raise errors.method_not_allowed()
