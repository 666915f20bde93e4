"""The contract of admission plugins. ``endpoints`` calls the chain of them: mutation before the strategy, validation after."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from apimachinery import names
from apimachinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from apimachinery.schema.types import StructSchema
from controlplane.apiserver.authentication.interface import UserInfo

Object = dict[str, Any]
CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"

Lookup = Callable[[str, str, str], Awaitable[Object | None]]
"""``await lookup("namespaces", "", name)``: a stored object (``resource`` or ``resource.group``), or None."""

Listing = Callable[[str, str], Awaitable[list[Object]]]
"""``await listing("limitranges", namespace)``: the stored objects of a namespace."""

StatusWrite = Callable[[str, str, str, Callable[[Object], Awaitable[Object | None]]], Awaitable[None]]
"""``await write_status("resourcequotas", namespace, name, change)``: a guaranteed update of the status, by the server itself."""

MakeNamespace = Callable[[str], Awaitable[None]]
"""``await make_namespace(name)``: by the server itself; one that is there already is all right."""


def _unknown() -> None:
    """No schema."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """One version of the resource that a write is about, for those who see or change its objects in that version."""

    resource: GroupVersionResource
    kind: GroupVersionKind
    settle: Callable[[Object], None]
    """Bring an object that somebody changed to its normal form, with defaults, in place. Raises ValueError for wrong types."""
    convert: Callable[[Object], Awaitable[Object]]
    """From the version of the request to this one; may give back what it was given. Raises what a conversion raises."""
    revert: Callable[[Object], Awaitable[Object]]
    """From this version to that of the request."""
    schema: Callable[[], StructSchema | None] = _unknown
    """What objects look like, where that is known: by it configurations are merged into them."""


@dataclass(slots=True)
class Reinvocation:
    """Whether the mutating plugins see a write a second time, after a webhook or policy has changed it.

    ``memory`` is for what a plugin has to know in the second round of the first, by the plugin's name.
    """

    wanted: bool = False
    under_way: bool = False
    memory: dict[str, Any] = field(default_factory=dict)


_NO_QUERY: Mapping[str, str] = {}
_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}
_NAMESPACES = GroupVersionResource("", "v1", "namespaces")


@dataclass(slots=True)
class Attributes:
    """One write under review. ``obj`` is None for deletions, ``old`` for creations; mutating plugins change ``obj`` in place.

    ``kind`` is that of ``obj``: for ``deployments/scale`` a Scale, and ``api`` then says where deployments are.
    """

    operation: str
    kind: GroupVersionKind
    resource: str
    subresource: str
    namespace: str
    name: str
    obj: Object | None
    old: Object | None
    user: UserInfo
    dry_run: bool = False
    query: Mapping[str, str] = field(default_factory=lambda: _NO_QUERY)  # of the request's URL
    delete_options: Object | None = None
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)  # of the audit event
    deadline: float = math.inf  # of the request, by ``time.perf_counter``
    audits_bodies: bool = False  # whether that event shows what was sent
    api: GroupVersion | None = None
    forms: Callable[[], Sequence[Form]] | None = None  # the versions of the resource, that of the request first
    reinvocation: Reinvocation = field(default_factory=Reinvocation)

    @property
    def gvr(self) -> GroupVersionResource:
        """The resource as the URL names it."""
        group, version = self.api or self.kind[:2]
        return GroupVersionResource(group, version, self.resource)

    @property
    def group_resource(self) -> str:
        group = self.kind.group if self.api is None else self.api.group
        return f"{self.resource}.{group}" if group else self.resource

    @property
    def own_namespace(self) -> str:
        """The namespace that the write is in; for a Namespace, which is in none, its own name, as upstream has it."""
        return self.name if self.gvr == _NAMESPACES else self.namespace

    def annotate(self, key: str, value: str) -> bool:
        """For the audit event: what was said first stays. False for a key that none may have."""
        if "/" not in key or names.is_qualified_name(key):
            return False
        self.annotations.setdefault(key, value)
        return True

    @property
    def options(self) -> Object | None:
        """The options of the operation, as the client gave them; a CONNECT has none."""
        kind = _OPTIONS.get(self.operation)
        if kind is None:
            return None
        named: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.operation == DELETE:
            return {**named, **{key: value for key, value in (self.delete_options or {}).items() if key not in named}}
        if self.query.get("dryRun"):
            named["dryRun"] = [self.query["dryRun"]]
        return named | {key: self.query[key] for key in ("fieldManager", "fieldValidation") if self.query.get(key)}


class Plugin(Protocol):
    """Raises StatusError to refuse."""

    name: str

    def handles(self, attributes: Attributes) -> bool:
        """Whether the plugin has anything to say; quick, called for every write."""
        ...

    async def mutate(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...


def refuse(attributes: Attributes, why: str) -> Exception:
    """The 403 of admission: ``pods "x" is forbidden: why``."""
    from apimachinery import errors

    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name") or ""
    shown = f'{attributes.group_resource} "{name}"' if name else attributes.group_resource
    return errors.forbidden(f"{shown} is forbidden: {why}", name=name, group=attributes.gvr.group, resource=attributes.resource)
