"""What a write to ``/resize`` may change: CPU and memory of containers, and nothing that changes the pod's QoS class."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.objects import qos
from controlplane.apiserver.kinds.core.pod_template import validate_pod_spec
from controlplane.apiserver.kinds.shared.differences import change_text
from controlplane.apiserver.registry.strategy import Context, Object

RESIZABLE = ("resources", "resizePolicy")  # the members of a container that such a write is read for
_AMOUNTS = ("cpu", "memory")
_MIRROR = "kubernetes.io/config.mirror"


def validate_resize(ctx: Context, new: Object, old: Object) -> list[FieldError]:
    """Everything wrong with the pod that a resize asks for."""
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [fieldpath.forbidden("", "static pods cannot be resized")]
    spec, held = new["spec"], old["spec"]
    found = validate_pod_spec(spec, "spec", is_pod=True)
    if qos.compute(new) != qos.compute(old):
        found.append(fieldpath.invalid("spec", qos.compute(new), "Pod QOS Class may not change as a result of resizing"))
    for part in ("containers", "initContainers"):
        for position, (one, earlier) in enumerate(zip(spec.get(part) or (), held.get(part) or (), strict=True)):
            found += _removed(one, earlier, f"spec.{part}[{position}].resources")
    unchanged = _with_old_resources(spec, held)
    if unchanged != held:
        text = "only cpu and memory resources are mutable" + change_text(held, unchanged)
        found.append(fieldpath.forbidden("spec", text))
    return found


def _removed(new: Mapping[str, Any], old: Mapping[str, Any], path: str) -> list[FieldError]:
    """What was bounded or asked for stays so; only how much may change."""
    found: list[FieldError] = []
    for part, word in (("requests", "resource requests cannot be removed"), ("limits", "resource limits cannot be removed")):
        wanted, held = ((one.get("resources") or {}).get(part) or {} for one in (new, old))
        if any(name in held and name not in wanted for name in _AMOUNTS):
            found.append(fieldpath.forbidden(f"{path}.{part}", word))
    return found


def _with_old_resources(spec: Object, held: Object) -> Object:
    """The new spec with every permitted change undone: it must then equal the old one."""
    result = dict(spec)
    for part in ("containers", "initContainers"):
        if part not in spec:
            continue
        restored = []
        for one, earlier in zip(spec[part], held.get(part) or (), strict=True):
            sidecar = part == "containers" or one.get("restartPolicy") == "Always"
            restored.append(_restored(one, earlier) if sidecar else one)
        result[part] = restored
    return result


def _restored(one: Object, earlier: Object) -> Object:
    resources = dict(one.get("resources") or {})
    before = earlier.get("resources") or {}
    for part in ("requests", "limits"):
        kept = {name: amount for name, amount in (resources.get(part) or {}).items() if name not in _AMOUNTS}
        kept |= {name: amount for name, amount in (before.get(part) or {}).items() if name in _AMOUNTS}
        if kept or part in before:
            resources[part] = kept
        else:
            resources.pop(part, None)
    if resources == before:
        return {**one, "resources": before} if "resources" in earlier else _without(one, "resources")
    return {**one, "resources": resources}


def _without(obj: Object, member: str) -> Object:
    return {name: value for name, value in obj.items() if name != member}
