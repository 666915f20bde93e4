"""RuntimeClass: a pod's class must exist; what the class costs and where it runs is written into the pod."""

from typing import Any

from controlplane.apiserver.admission.interface import CREATE, Attributes, Lookup, Object, refuse


class RuntimeClass:
    name = "RuntimeClass"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, attributes: Attributes) -> bool:
        return attributes.resource == "pods" and not attributes.subresource and attributes.operation == CREATE

    async def mutate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj.get("spec") or {}
        name = spec.get("runtimeClassName")
        if not name:
            if spec.get("overhead"):
                raise refuse(attributes, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
            return
        found = await self._lookup("runtimeclasses.node.k8s.io", "", name)
        if found is None:
            raise refuse(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        self._overhead(attributes, spec, (found.get("overhead") or {}).get("podFixed"))
        self._scheduling(attributes, spec, found.get("scheduling") or {})

    def _overhead(self, attributes: Attributes, spec: Object, fixed: Any) -> None:
        if spec.get("overhead") and spec["overhead"] != fixed:
            raise refuse(attributes, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        if fixed:
            spec["overhead"] = dict(fixed)

    def _scheduling(self, attributes: Attributes, spec: Object, scheduling: Object) -> None:
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                pair = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {selector[key]}"
                raise refuse(attributes, f"pod rejected: conflict: {pair}")
            selector[key] = value
        if selector:
            spec["nodeSelector"] = selector
        held = spec.get("tolerations") or []
        added = [one for one in scheduling.get("tolerations") or [] if one not in held]
        if added:
            spec["tolerations"] = [*held, *added]

    async def validate(self, attributes: Attributes) -> None:
        """Decided while mutating."""
