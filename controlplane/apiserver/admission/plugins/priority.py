"""Priority: turns ``priorityClassName`` into ``priority`` and ``preemptionPolicy``; the two system classes always exist."""

from typing import Any

from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Lookup, refuse

SYSTEM_CLASSES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


class Priority:
    """A pod without a class has priority 0."""

    name = "Priority"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, attributes: Attributes) -> bool:
        return attributes.resource == "pods" and not attributes.subresource and attributes.operation in (CREATE, UPDATE)

    async def mutate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj.get("spec")
        if not isinstance(spec, dict):
            return
        if attributes.operation == UPDATE:
            self._keep(spec, (attributes.old or {}).get("spec") or {})
            return
        name = spec.get("priorityClassName") or ""
        priority, policy = await self._resolve(attributes, name)
        given = spec.get("priority")
        if given is not None and given != priority:
            why = (
                f"the integer value of priority ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name"
            )
            raise refuse(attributes, why)
        spec["priority"] = priority
        asked = spec.get("preemptionPolicy")
        if asked is not None and asked != policy:
            why = (
                f"the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise refuse(attributes, why)
        spec["preemptionPolicy"] = policy

    def _keep(self, spec: dict[str, Any], old: dict[str, Any]) -> None:
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and old.get(field) is not None:
                spec[field] = old[field]

    async def _resolve(self, attributes: Attributes, name: str) -> tuple[int, str]:
        if not name:
            return 0, "PreemptLowerPriority"
        found = await self._lookup("priorityclasses.scheduling.k8s.io", "", name)
        if found is not None:
            return int(found.get("value") or 0), str(found.get("preemptionPolicy") or "PreemptLowerPriority")
        if name in SYSTEM_CLASSES:
            return SYSTEM_CLASSES[name], "PreemptLowerPriority"
        raise refuse(attributes, f"no PriorityClass with name {name} was found")

    async def validate(self, attributes: Attributes) -> None:
        """Decided while mutating."""
