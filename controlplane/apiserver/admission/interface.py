"""The contract of admission plugins. ``endpoints`` calls the chain of them: mutation before the strategy, validation after."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from apimachinery.gvk import GroupVersionKind
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


@dataclass(slots=True)
class Attributes:
    """One write under review. ``obj`` is None for deletions, ``old`` for creations; mutating plugins change ``obj`` in place."""

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
    options: Object = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)  # of the audit event

    @property
    def group_resource(self) -> str:
        return f"{self.resource}.{self.kind.group}" if self.kind.group else self.resource


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
    return errors.forbidden(f"{shown} is forbidden: {why}", name=name, group=attributes.kind.group, resource=attributes.resource)
