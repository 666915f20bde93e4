"""Writes to parts of a pod: binding it to a node, adding ephemeral containers, giving containers other resources."""

from functools import partial
from typing import Any

from apimachinery import errors, fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import set_condition
from component.featuregates import Gates
from controlplane.apiserver.kinds.core.pod.defaults import default_pod
from controlplane.apiserver.kinds.core.pod.resize import RESIZABLE, validate_resize
from controlplane.apiserver.kinds.core.pod_template.containers import validate_ephemeral
from controlplane.apiserver.kinds.core.pod_template.defaults import default_container
from controlplane.apiserver.kinds.core.pod_template.spec import scope_of
from controlplane.apiserver.registry.strategy import Context, Object, Subresource

POD = GroupVersionKind("", "v1", "Pod")
BINDING = GroupVersionKind("", "v1", "Binding")


def bind(ctx: Context, pod: Object, binding: Object, *, labels: bool = True, denominate: bool = True) -> Object:
    """Assign the pod to ``binding.target``. ``labels``: those of the binding go to the pod; ``denominate``: no node is
    nominated for it any more. Raises 422 for a bad binding, 409 for a pod that cannot be assigned."""
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    name = pod["metadata"]["name"]
    found = _check_target(target)
    if found:
        raise errors.invalid("Binding", metadata.get("name") or name, found)
    if metadata.get("name") not in (None, "", name):
        raise errors.bad_request("name in URL does not match name in Binding object")
    refusal = _refusal(pod, metadata.get("uid"))
    if refusal:
        raise errors.conflict("pods/binding", name, refusal)
    pod["spec"]["nodeName"] = target["name"]
    if denominate:
        pod.get("status", {}).pop("nominatedNodeName", None)
    for field in ("annotations", "labels") if labels else ("annotations",):
        if metadata.get(field):
            pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), **metadata[field]}
    set_condition(pod, "PodScheduled", "True", now=ctx.now)
    return pod


def _check_target(target: dict[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    if target.get("kind") not in (None, "", "Node"):
        found.append(fieldpath.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        found.append(fieldpath.required("target.name"))
    return found


def _refusal(pod: Object, uid: str | None) -> str:
    metadata, spec = pod["metadata"], pod["spec"]
    name = metadata["name"]
    if uid and uid != metadata.get("uid"):
        return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata.get('uid')}"
    if metadata.get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _set_ephemeral(ctx: Context, stored: Object, body: Object) -> Object:
    containers = (body.get("spec") or {}).get("ephemeralContainers") or []
    for container in containers:
        default_container(container)
    stored["spec"] = {**stored["spec"], "ephemeralContainers": containers}
    if not containers:
        del stored["spec"]["ephemeralContainers"]
    return stored


def _validate_ephemeral(ctx: Context, new: Object, old: Object) -> list[FieldError]:
    spec = new["spec"]
    path = "spec.ephemeralContainers"
    others = {one.get("name") for part in ("containers", "initContainers") for one in spec.get(part) or ()}
    volumes = {volume.get("name") or "": volume for volume in spec.get("volumes") or ()}
    scope = scope_of(spec, volumes, is_pod=True)
    found = validate_ephemeral(spec, scope, path, {name for name in others if name})
    held = {one.get("name"): one for one in spec.get("ephemeralContainers") or ()}
    for one in old["spec"].get("ephemeralContainers") or ():
        name = one.get("name")
        if name not in held:
            found.append(fieldpath.forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif held[name] != one:
            found.append(fieldpath.forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n'))
    return found


def _resize(ctx: Context, stored: Object, body: Object) -> Object:
    """Of each container that exists, its resources and how it takes new ones; every other change is dropped unsaid."""
    default_pod(body)
    spec = stored["spec"] = dict(stored["spec"])
    for part in ("containers", "initContainers"):
        wanted = {one.get("name"): one for one in body["spec"].get(part) or ()}
        if part in spec:
            spec[part] = [_resized(one, wanted.get(one.get("name"), one)) for one in spec[part]]
    return stored


def _resized(container: Object, wanted: Object) -> Object:
    kept = {field: value for field, value in container.items() if field not in RESIZABLE}
    return {**kept, **{field: wanted[field] for field in RESIZABLE if field in wanted}}


def subresources(features: Gates) -> tuple[Subresource, ...]:
    """What a pod has besides its status; two features change what binding does."""
    labels = features.enabled("PodTopologyLabelsAdmission")
    denominate = features.enabled("ClearingNominatedNodeNameAfterBinding")
    binding = partial(bind, labels=labels, denominate=denominate)
    return (
        Subresource("binding", BINDING, ("create",), binding),
        Subresource("ephemeralcontainers", POD, ("get", "patch", "update"), _set_ephemeral, _validate_ephemeral),
        Subresource("resize", POD, ("get", "patch", "update"), _resize, validate_resize),
    )
