"""PodTolerationRestriction: a namespace gives its pods tolerations, and may bound which they can have, by annotations."""

from collections.abc import Mapping
from typing import Any

import orjson

from apimachinery import errors
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Lookup, Object, refuse

_DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
_WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_MEMORY = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}


class PodTolerationRestriction:
    name = "PodTolerationRestriction"

    def __init__(self, lookup: Lookup, config: Mapping[str, Any]) -> None:
        self._lookup = lookup
        self._default, self._whitelist = config.get("default") or [], config.get("whitelist") or []

    def handles(self, attributes: Attributes) -> bool:
        if attributes.group_resource != "pods" or attributes.subresource or attributes.obj is None:
            return False
        return attributes.operation in (CREATE, UPDATE)

    async def mutate(self, attributes: Attributes) -> None:
        spec = (attributes.obj or {})["spec"]
        held = spec.get("tolerations") or []
        if attributes.operation == CREATE:
            given = await self._of_namespace(attributes, _DEFAULTS, self._default)
            if any(_conflicts(one, other) for one in given for other in held):
                raise refuse(attributes, "namespace tolerations and pod tolerations conflict")
            held = held + [one for one in given if one not in held]
        if _asks_for_something(spec) and _MEMORY not in held:
            held = [*held, dict(_MEMORY)]
        if held:
            spec["tolerations"] = held

    async def validate(self, attributes: Attributes) -> None:
        allowed = await self._of_namespace(attributes, _WHITELIST, self._whitelist)
        held = ((attributes.obj or {}).get("spec") or {}).get("tolerations") or []
        if allowed and any(not _is_allowed(one, allowed) for one in held):
            merged = "possibly merged with namespace default tolerations"
            raise refuse(attributes, f"pod tolerations ({merged}) conflict with its namespace whitelist")

    async def _of_namespace(self, attributes: Attributes, annotation: str, otherwise: list[Any]) -> list[Object]:
        namespace = await self._lookup("namespaces", "", attributes.namespace)
        if namespace is None:
            raise errors.not_found("namespaces", attributes.namespace)
        text = (namespace["metadata"].get("annotations") or {}).get(annotation)
        if text is None:
            return otherwise
        try:
            parsed = orjson.loads(text or "[]")
        except orjson.JSONDecodeError:
            raise errors.bad_request(f"namespace {attributes.namespace}: annotation {annotation} is no JSON list") from None
        return [each for each in parsed if isinstance(each, dict)] if isinstance(parsed, list) else []


def _asks_for_something(spec: Object) -> bool:
    return any(each.get("resources") for part in ("containers", "initContainers") for each in spec.get(part) or ())


def _conflicts(one: Object, other: Object) -> bool:
    def key(each: Object) -> tuple[Any, ...]:
        return each.get("key", ""), each.get("effect", "")

    return key(one) == key(other) and one != other


def _is_allowed(one: Object, allowed: list[Object]) -> bool:
    for each in allowed:
        same = each.get("key", "") in ("", one.get("key", "")) and each.get("effect", "") in ("", one.get("effect", ""))
        operator = each.get("operator") or "Equal"
        if same and (operator == "Exists" or (one.get("operator") != "Exists" and each.get("value", "") == one.get("value", ""))):
            return True
    return False
