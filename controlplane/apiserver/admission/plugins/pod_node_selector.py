"""PodNodeSelector: a namespace decides on which nodes its pods may run, by an annotation; a whitelist bounds what it may name."""

from collections.abc import Mapping
from typing import Any

from apimachinery import errors
from controlplane.apiserver.admission.interface import CREATE, Attributes, Lookup, Object, refuse

ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_DEFAULT = "clusterDefaultNodeSelector"


class PodNodeSelector:
    name = "PodNodeSelector"

    def __init__(self, lookup: Lookup, config: Mapping[str, Any]) -> None:
        self._lookup = lookup
        self._selectors: Mapping[str, Any] = config.get("podNodeSelectorPluginConfig") or {}

    def handles(self, attributes: Attributes) -> bool:
        return attributes.group_resource == "pods" and not attributes.subresource and attributes.operation == CREATE

    async def mutate(self, attributes: Attributes) -> None:
        wanted = await self._wanted(attributes)
        spec = (attributes.obj or {})["spec"]
        held = spec.get("nodeSelector") or {}
        if any(name in held and held[name] != value for name, value in wanted.items()):
            raise refuse(attributes, "pod node label selector conflicts with its namespace node label selector")
        if wanted:
            spec["nodeSelector"] = {**held, **wanted}

    async def validate(self, attributes: Attributes) -> None:
        wanted = await self._wanted(attributes)
        held = ((attributes.obj or {}).get("spec") or {}).get("nodeSelector") or {}
        if any(name in held and held[name] != value for name, value in wanted.items()):
            raise refuse(attributes, "pod node label selector conflicts with its namespace node label selector")
        allowed = parse(str(self._selectors.get(attributes.namespace) or ""))
        if allowed and any(allowed.get(name) != value for name, value in held.items()):
            raise refuse(attributes, "pod node label selector labels conflict with its namespace whitelist")

    async def _wanted(self, attributes: Attributes) -> Mapping[str, str]:
        namespace: Object | None = await self._lookup("namespaces", "", attributes.namespace)
        if namespace is None:
            raise errors.not_found("namespaces", attributes.namespace)
        annotation = (namespace["metadata"].get("annotations") or {}).get(ANNOTATION)
        return parse(str(self._selectors.get(_DEFAULT) or "") if annotation is None else annotation)


def parse(text: str) -> dict[str, str]:
    """``a=b,c=d`` as labels. Raises 400 for anything else."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise errors.bad_request(f"node selector {text!r}: write name=value, with commas between")
        found[name.strip()] = value.strip()
    return found
