"""ExtendedResourceToleration: pods that ask for a device tolerate the taint that keeps others off its nodes."""

from apimachinery.names import is_extended_resource
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes
from controlplane.apiserver.admission.plugins.base import Mutating


class ExtendedResourceToleration(Mutating):
    name = "ExtendedResourceToleration"

    def handles(self, attributes: Attributes) -> bool:
        return attributes.group_resource == "pods" and not attributes.subresource and attributes.operation in (CREATE, UPDATE)

    async def mutate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj.get("spec") or {}
        wanted = {
            name
            for part in ("containers", "initContainers")
            for container in spec.get(part) or ()
            for name in (container.get("resources") or {}).get("requests") or {}
            if is_extended_resource(name)
        }
        held = spec.get("tolerations") or []
        for name in sorted(wanted):
            if not any(each.get("key") == name and each.get("operator") == "Exists" and not each.get("effect") for each in held):
                held = [*held, {"key": name, "operator": "Exists"}]
        if held:
            spec["tolerations"] = held
