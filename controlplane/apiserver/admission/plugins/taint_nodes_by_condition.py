"""TaintNodesByCondition: nothing is scheduled to a new node before the node lifecycle controller has seen it ready."""

from controlplane.apiserver.admission.interface import CREATE, Attributes

_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition:
    name = "TaintNodesByCondition"

    def handles(self, attributes: Attributes) -> bool:
        return attributes.resource == "nodes" and not attributes.subresource and attributes.operation == CREATE

    async def mutate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj.setdefault("spec", {})
        held = spec.get("taints") or []
        if not any(all(taint.get(field) == value for field, value in _TAINT.items()) for taint in held):
            spec["taints"] = [*held, dict(_TAINT)]

    async def validate(self, attributes: Attributes) -> None:
        """Only adds; refuses nothing."""
