"""Which paths exist and what each operation takes, in terms of neither OpenAPI version. Used by ``v3`` and ``v2``.

Everything follows from a resource's verbs and subresources; only the parameters of streams and proxies are a table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from apimachinery.codecs import negotiate
from apimachinery.gvk import GroupVersionKind
from apimachinery.schema.loader import META
from controlplane.apiserver.discovery import Listed, SubresourceInfo
from controlplane.apiserver.registry.strategy import ResourceInfo

PATCH = META + "Patch"
STATUS = META + "Status"
DELETE_OPTIONS = META + "DeleteOptions"
WATCH_EVENT = META + "WatchEvent"


@dataclass(frozen=True)
class Parameter:
    """``place`` is ``query`` or ``path``; ``type`` a JSON type."""

    name: str
    description: str
    type: str = "string"
    place: str = "query"


@dataclass(frozen=True)
class Operation:
    """One method on one path. ``body`` and ``answer`` are full definition names; an empty answer is plain text."""

    method: str
    action: str  # x-kubernetes-action
    identifier: str
    description: str
    kind: GroupVersionKind
    answer: str = ""
    body: str = ""
    body_required: bool = True
    codes: tuple[int, ...] = (200,)
    consumes: tuple[str, ...] = ()
    produces: tuple[str, ...] = negotiate.BODIES
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class PathItem:
    path: str
    group_version: str
    parameters: tuple[str, ...]
    operations: tuple[Operation, ...]


_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_SELECT = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_UNREADABLE = "ignoreStoreReadErrorWithClusterBreakingPotential"
_DELETE = ("dryRun", "gracePeriodSeconds", _UNREADABLE, "orphanDependents", "propagationPolicy")
_DELETE_MANY = tuple(sorted({*_DELETE, *_SELECT} - {"allowWatchBookmarks", "watch"}))

PARAMETERS = {
    each.name: each
    for each in (
        Parameter("name", "name of the object", place="path"),
        Parameter("namespace", "the namespace the object is in", place="path"),
        Parameter("path", "path to the resource behind the proxy", place="path"),
        Parameter("pretty", "Write the answer with line breaks and indentation when 'true'."),
        Parameter("allowWatchBookmarks", "Let a watch send BOOKMARK events, at intervals of the server's choice.", "boolean"),
        Parameter("continue", "Where to go on: the token that the previous part of a list came with."),
        Parameter("fieldSelector", "Only objects whose fields match this selector."),
        Parameter("labelSelector", "Only objects whose labels match this selector."),
        Parameter("limit", "The most items to answer with; a longer list comes in parts.", "integer"),
        Parameter("resourceVersion", "The state to read from or to watch after; see the API concepts on resource versions."),
        Parameter("resourceVersionMatch", "How resourceVersion is meant for a list: Exact or NotOlderThan."),
        Parameter("sendInitialEvents", "Begin a watch with synthetic ADDED events and a bookmark that ends them.", "boolean"),
        Parameter("timeoutSeconds", "End the call after so many seconds, whatever happens.", "integer"),
        Parameter("watch", "Stream changes instead of listing.", "boolean"),
        Parameter("dryRun", "Do everything but store the result. The only valid value is All."),
        Parameter("fieldManager", "Who makes this change, for the record in managedFields; at most 128 printable characters."),
        Parameter("fieldValidation", "What to do about unknown and duplicate fields: Ignore, Warn (the default) or Strict."),
        Parameter("force", "Take over fields that others manage. Only for apply patches.", "boolean"),
        Parameter("gracePeriodSeconds", "Seconds the object may take to end; 0 deletes at once.", "integer"),
        Parameter(_UNREADABLE, "Delete even what cannot be read any more.", "boolean"),
        Parameter("orphanDependents", "Deprecated: use propagationPolicy.", "boolean"),
        Parameter("propagationPolicy", "What becomes of dependents: Orphan, Background or Foreground."),
        Parameter("container", "The container; may be left out when there is only one."),
        Parameter("command", "What to run, and its arguments; no shell is involved."),
        Parameter("stdin", "Connect standard input.", "boolean"),
        Parameter("stdout", "Connect standard output.", "boolean"),
        Parameter("stderr", "Connect standard error.", "boolean"),
        Parameter("tty", "Allocate a terminal.", "boolean"),
        Parameter("ports", "Ports to forward; needed with WebSockets.", "integer"),
        Parameter("follow", "Stay connected and send what is logged from now on.", "boolean"),
        Parameter("insecureSkipTLSVerifyBackend", "Do not check the certificate of the node.", "boolean"),
        Parameter("limitBytes", "Stop after so many bytes.", "integer"),
        Parameter("previous", "The log of the container's last run.", "boolean"),
        Parameter("sinceSeconds", "Only what was logged in the last so many seconds.", "integer"),
        Parameter("stream", "All, Stdout or Stderr."),
        Parameter("tailLines", "Only so many lines from the end.", "integer"),
        Parameter("timestamps", "Begin each line with its time.", "boolean"),
    )
}
_CONNECT_PARAMETERS: dict[str, tuple[str, ...]] = {
    "attach": ("container", "stderr", "stdin", "stdout", "tty"),
    "exec": ("command", "container", "stderr", "stdin", "stdout", "tty"),
    "portforward": ("ports",),
    "proxy": ("path",),
}
_LOG_PARAMETERS = (
    "container",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "stream",
    "tailLines",
    "timestamps",
)


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Definitions(Protocol):
    """What kinds are called among the definitions of a document."""

    def has(self, gvk: GroupVersionKind) -> bool: ...

    def of(self, gvk: GroupVersionKind) -> Named: ...


def paths(resources: Sequence[Listed], schemas: Definitions) -> Iterator[PathItem]:
    """Every path of the resources, except the two group roots. Kinds without a schema are left out."""
    for each in resources:
        if schemas.has(each.info.gvk):
            yield from _Resource(each, schemas).paths()


class _Resource:
    """Writes down the paths of one resource."""

    def __init__(self, listed: Listed, schemas: Definitions) -> None:
        self.info: ResourceInfo = listed.info
        self.patches = listed.patches
        self.subresources = listed.subresources
        self.schemas = schemas
        self.kind = self.info.gvk
        self.definition = schemas.of(self.kind).name
        self.tag = tag(self.kind)

    def paths(self) -> Iterator[PathItem]:
        info, root = self.info, self.info.gvr.path()
        scope = f"{root.removesuffix(info.plural)}namespaces/{{namespace}}/{info.plural}" if info.namespaced else root
        place = ("namespace",) if info.namespaced else ()
        many = [*self.collection()]
        if many:
            yield PathItem(scope, self.kind.api_version, (*place, "pretty"), tuple(many))
        one = [*self.item()]
        if one:
            yield PathItem(scope + "/{name}", self.kind.api_version, ("name", *place, "pretty"), tuple(one))
        if info.namespaced and "list" in info.verbs:
            everywhere = (self.list_operation(f"list{self.tag}{self.kind.kind}ForAllNamespaces"),)
            yield PathItem(root, self.kind.api_version, ("pretty",), everywhere)
        for subresource in self.subresources:
            yield from self.subresource(subresource, scope, place)

    def name(self, verb: str, suffix: str = "") -> str:
        """``createAppsV1NamespacedDeployment``"""
        return f"{verb}{self.tag}{'Namespaced' if self.info.namespaced else ''}{self.kind.kind}{suffix}"

    def operation(self, method: str, action: str, identifier: str, description: str, **more: Any) -> Operation:
        return Operation(method, action, identifier, description, more.pop("kind", self.kind), **more)

    def collection(self) -> Iterator[Operation]:
        verbs, kind = self.info.verbs, self.kind.kind
        if "list" in verbs:
            yield self.list_operation(self.name("list"))
        if "create" in verbs:
            yield self.operation(
                "post",
                "post",
                self.name("create"),
                f"create {_article(kind)} {kind}",
                answer=self.definition,
                body=self.definition,
                codes=(200, 201, 202),
                parameters=_WRITE,
            )
        if "deletecollection" in verbs:
            yield self.operation(
                "delete",
                "deletecollection",
                self.name("delete").replace(self.tag, f"{self.tag}Collection", 1),
                f"delete collection of {kind}",
                answer=STATUS,
                body=DELETE_OPTIONS,
                body_required=False,
                parameters=_DELETE_MANY,
            )

    def list_operation(self, identifier: str) -> Operation:
        kind = self.kind
        listed = GroupVersionKind(kind.group, kind.version, self.info.collection_kind)
        return self.operation(
            "get",
            "list",
            identifier,
            f"list or watch objects of kind {kind.kind}",
            answer=self.schemas.of(listed).name if self.schemas.has(listed) else "",
            produces=(*negotiate.BODIES, "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"),
            parameters=_SELECT,
        )

    def item(self) -> Iterator[Operation]:
        verbs, kind = self.info.verbs, self.kind.kind
        if "get" in verbs:
            yield self.operation("get", "get", self.name("read"), f"read the specified {kind}", answer=self.definition)
        if "update" in verbs:
            yield self.update("", f"replace the specified {kind}", self.kind, self.definition)
        if "delete" in verbs:
            yield self.operation(
                "delete",
                "delete",
                self.name("delete"),
                f"delete {_article(kind)} {kind}",
                answer=STATUS,
                body=DELETE_OPTIONS,
                body_required=False,
                codes=(200, 202),
                parameters=_DELETE,
            )
        if "patch" in verbs:
            yield self.patch("", f"partially update the specified {kind}", self.kind, self.definition)

    def update(self, suffix: str, description: str, kind: GroupVersionKind, definition: str) -> Operation:
        return self.operation(
            "put",
            "put",
            self.name("replace", suffix),
            description,
            kind=kind,
            answer=definition,
            body=definition,
            codes=(200, 201),
            parameters=_WRITE,
        )

    def patch(self, suffix: str, description: str, kind: GroupVersionKind, definition: str) -> Operation:
        return self.operation(
            "patch",
            "patch",
            self.name("patch", suffix),
            description,
            kind=kind,
            answer=definition,
            body=PATCH,
            codes=(200, 201),
            consumes=self.patches,
            parameters=(*_WRITE, "force"),
        )

    def subresource(self, sub: SubresourceInfo, scope: str, place: tuple[str, ...]) -> Iterator[PathItem]:
        path = f"{scope}/{{name}}/{sub.name}"
        if sub.name in _CONNECT_PARAMETERS:
            parameters = ("name", *place, *_CONNECT_PARAMETERS[sub.name])
            yield PathItem(path, self.kind.api_version, parameters, tuple(self.connections(sub, "")))
            if sub.name == "proxy":
                yield PathItem(path + "/{path}", self.kind.api_version, parameters, tuple(self.connections(sub, "WithPath")))
            return
        yield PathItem(path, self.kind.api_version, ("name", *place, "pretty"), tuple(self.subresource_operations(sub)))

    def connections(self, sub: SubresourceInfo, suffix: str) -> Iterator[Operation]:
        methods = {"get": "get", "create": "post", "update": "put", "delete": "delete", "patch": "patch"}
        what = sub.name.capitalize() + suffix
        for verb in sub.verbs:
            method = methods[verb]
            yield self.operation(
                method,
                "connect",
                f"connect{self.tag}{method.capitalize()}{'Namespaced' if self.info.namespaced else ''}{self.kind.kind}{what}",
                f"connect {method.upper()} requests to {sub.name} of {self.kind.kind}",
                kind=sub.kind,
                produces=("*/*",),
            )

    def subresource_operations(self, sub: SubresourceInfo) -> Iterator[Operation]:
        suffix, kind = _camel(sub.name), self.kind.kind
        definition = self.schemas.of(sub.kind).name if self.schemas.has(sub.kind) else ""
        text = f"{sub.name} of the specified {kind}"
        if "get" in sub.verbs:
            log = sub.name == "log"
            yield self.operation(
                "get",
                "get",
                self.name("read", suffix),
                f"read {text}",
                kind=sub.kind,
                answer="" if log else definition,
                produces=("text/plain", *negotiate.BODIES) if log else negotiate.BODIES,
                parameters=_LOG_PARAMETERS if log else (),
            )
        if "update" in sub.verbs:
            yield self.update(suffix, f"replace {text}", sub.kind, definition)
        if "create" in sub.verbs:
            yield self.operation(
                "post",
                "post",
                self.name("create", suffix),
                f"create {text}",
                kind=sub.kind,
                answer=definition,
                body=definition,
                codes=(200, 201, 202),
                parameters=_WRITE,
            )
        if "patch" in sub.verbs:
            yield self.patch(suffix, f"partially update {text}", sub.kind, definition)


def tag(kind: GroupVersionKind) -> str:
    """``CoreV1``, ``RbacAuthorizationV1``: how operation identifiers name a group and version."""
    group = kind.group.removesuffix(".k8s.io") or "core"
    return "".join(_camel(part) for part in group.split(".")) + _camel(kind.version)


def snake_tag(group_version: str) -> str:
    """``core_v1``, ``apps_v1``: the tag of a group and version."""
    group, _, version = group_version.rpartition("/")
    name = tag(GroupVersionKind(group, version, ""))
    short = name.removesuffix(_camel(version))
    return f"{short[:1].lower()}{short[1:]}_{version}"


def _camel(text: str) -> str:
    return text[:1].upper() + text[1:]


def _article(kind: str) -> str:
    return "an" if kind[:1] in "AEIOU" else "a"


def roots(items: Sequence[PathItem]) -> set[str]:
    """The definitions that operations mention."""
    used = {name for item in items for each in item.operations for name in (each.answer, each.body) if name}
    return used | {WATCH_EVENT} if used else used
