"""Kinds outside a server: strategies by plural, a context to call them with, and the registry's order of calls."""

from datetime import UTC, datetime
from typing import Any

from apimachinery import errors
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.registry.strategy import Context, Strategy

Object = dict[str, Any]
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def context(verb: str = "create", namespace: str = "default") -> Context:
    return Context(UserInfo("alice"), namespace, "x", verb, NOW)


def strategy(plural: str, config: KindsConfig | None = None, group: str | None = None) -> Strategy:
    """The strategy of ``plural``; the first one when several groups serve it."""
    found = [one for one in strategies(config or KindsConfig()) if one.info.plural == plural]
    return next(one for one in found if group in (None, one.info.gvk.group))


def named(obj: Object, name: str = "x", namespace: str = "default") -> Object:
    obj.setdefault("metadata", {}).setdefault("name", name)
    if namespace:
        obj["metadata"].setdefault("namespace", namespace)
    obj["metadata"].setdefault("uid", "u1")
    return obj


def created(kind: Strategy, obj: Object) -> Object:
    """``obj`` after everything that create does before it is stored. Raises 422."""
    named(obj, namespace="default" if kind.info.namespaced else "")
    kind.default(obj)
    if kind.has_status:
        obj.pop("status", None)
    kind.prepare_for_create(context(), obj)
    found = kind.validate(context(), obj)
    if found:
        raise errors.invalid(kind.info.gvk.kind, obj["metadata"]["name"], found, kind.info.gvk.group)
    kind.canonicalize(obj)
    return obj


def problems(kind: Strategy, obj: Object) -> list[str]:
    """The validation errors of a new object, as text."""
    named(obj, namespace="default" if kind.info.namespaced else "")
    kind.default(obj)
    kind.prepare_for_create(context(), obj)
    return [str(error) for error in kind.validate(context(), obj)]


def update_problems(kind: Strategy, obj: Object, old: Object) -> list[str]:
    """The validation errors of a change, as text; ``obj`` is prepared in place."""
    kind.default(obj)
    if kind.has_status and "status" in old:
        obj["status"] = old["status"]
    kind.prepare_for_update(context("update"), obj, old)
    return [str(error) for error in kind.validate_update(context("update"), obj, old)]
