"""The versions of a resource, as webhooks and policies need them: their names, and how objects get from one to another.

Called by ``scope``, once for each resource and subresource that somebody wants to know of.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from apimachinery.gvk import GroupVersionKind
from apimachinery.schema import Schemas, StructSchema, check
from controlplane.apiserver.admission.interface import Form
from controlplane.apiserver.registry.strategy import Strategy

Object = dict[str, Any]
Change = Callable[[Object], Awaitable[Object]]


def forms_of(
    own: Strategy, siblings: Sequence[Strategy], subresource: str, kind: GroupVersionKind, schemas: Schemas
) -> tuple[Form, ...]:
    """``own`` first, then those of ``siblings`` that have the ``subresource``. ``kind`` is what ``own`` takes there."""
    whole = kind == own.info.gvk
    settle = _settle(own if whole else None, kind, schemas) if whole or schemas.has(kind) else _leave
    forms = [Form(own.info.gvr, kind, settle, _same, _same, _schema(own if whole else None, kind, schemas))]
    for other in siblings:
        theirs = _kind_at(other, subresource, whole)
        if theirs is None:
            continue
        there, back = (_conversion(own, other), _conversion(other, own)) if whole else (_same, _same)
        strategy = other if whole else None
        described = _schema(strategy, theirs, schemas)
        forms.append(Form(other.info.gvr, theirs, _settle(strategy, theirs, schemas), there, back, described))
    return tuple(forms)


def _kind_at(strategy: Strategy, subresource: str, whole: bool) -> GroupVersionKind | None:
    """What the other version takes; None where it has no such door."""
    if not subresource or (subresource == "status" and strategy.has_status):
        return strategy.info.gvk
    if subresource == "scale" and strategy.has_scale:
        return strategy.info.gvk if whole else GroupVersionKind("autoscaling", "v1", "Scale")
    return next((one.kind for one in strategy.subresources if one.name == subresource), None)


def _settle(strategy: Strategy | None, kind: GroupVersionKind, schemas: Schemas) -> Callable[[Object], None]:
    own = strategy.normalize if strategy is not None else None

    def settle(obj: Object) -> None:
        findings = own(obj) if own is not None else check.normalize(obj, schemas.of(kind))
        if found := findings.type_errors:
            raise ValueError(found[0])
        if strategy is not None:
            if not isinstance(obj.get("metadata"), dict):
                obj["metadata"] = {}
            strategy.default(obj)

    return settle


def conversion(given: Strategy, wanted: Strategy) -> Callable[[Object], Object]:
    """From the one version to the other, by way of the stored one."""
    return lambda obj: wanted.from_stored(given.to_stored(obj))


def _schema(strategy: Strategy | None, kind: GroupVersionKind, schemas: Schemas) -> Callable[[], StructSchema | None]:
    own = strategy.own_schema if strategy is not None else None
    return own if own is not None else lambda: schemas.of(kind) if schemas.has(kind) else None


def _leave(obj: Object) -> None:
    """The options of a connection are in no schema; nothing is stored of them."""


def _conversion(given: Strategy, wanted: Strategy) -> Change:
    if (ask := given.convert) is not None:
        return lambda obj: ask(obj, wanted.info.gvk.version)
    change = conversion(given, wanted)

    async def convert(obj: Object) -> Object:
        return change(obj)

    return convert


async def _same(obj: Object) -> Object:
    return obj
