"""Validation of Pods: what a new one must be, and the little that may change later."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.objects import pods
from controlplane.apiserver.kinds.core.pod_template import validate_pod_spec
from controlplane.apiserver.kinds.shared.differences import change_text

Object = dict[str, Any]

_UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_ONLY_UPDATABLE = f"pod updates may not change fields other than {','.join(_UPDATABLE)}"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod(pod: Object) -> list[FieldError]:
    spec = pod.get("spec") or {}
    found = validate_pod_spec(spec, "spec", is_pod=True)
    if not spec.get("serviceAccountName"):
        found += _tokens_of_nobody(spec)
    return found


def _tokens_of_nobody(spec: Object) -> list[FieldError]:
    found: list[FieldError] = []
    for position, volume in enumerate(spec.get("volumes") or ()):
        for at, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                path = f"spec.volumes[{position}].projected.sources[{at}].serviceAccountToken"
                found.append(fieldpath.forbidden(path, "must not be specified when serviceAccountName is not set"))
    return found


def validate_new_pod(pod: Object) -> list[FieldError]:
    """Rules for creation alone."""
    spec = pod.get("spec") or {}
    found = validate_pod(pod)
    if spec.get("ephemeralContainers"):
        text = "cannot be set on create"
        found.append(fieldpath.forbidden("spec.ephemeralContainers", text))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        found.append(fieldpath.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return found


def validate_pod_update(pod: Object, old: Object) -> list[FieldError]:
    """Images, a shorter deadline, more tolerations, fewer scheduling gates: nothing else of the spec may change."""
    spec, previous = pod.get("spec") or {}, old.get("spec") or {}
    if spec == previous:
        return []
    found = validate_pod(pod)
    for part in ("containers", "initContainers"):
        if len(spec.get(part) or ()) != len(previous.get(part) or ()):
            text = "pod updates may not add or remove containers"
            return [*found, fieldpath.forbidden(f"spec.{part}", text)]
    found += _deadline(spec, previous) + _tolerations(spec, previous) + _gates(spec, previous)
    if previous.get("schedulingGates"):
        found += _choice_of_nodes(spec, previous)
    allowed = _with_allowed_changes(spec, previous)
    if allowed != previous:
        text = f"{_ONLY_UPDATABLE}{change_text(previous, allowed)}"
        found.append(fieldpath.forbidden("spec", text))
    return found


def _deadline(spec: Object, previous: Object) -> list[FieldError]:
    new, old = spec.get("activeDeadlineSeconds"), previous.get("activeDeadlineSeconds")
    if old is None or new == old:
        return []
    if new is None:
        text = "must not update from a positive integer to nil value"
    elif new > old:
        text = "must be less than or equal to previous value"
    else:
        return []
    return [fieldpath.invalid("spec.activeDeadlineSeconds", new, text)]


def _tolerations(spec: Object, previous: Object) -> list[FieldError]:
    """Every old toleration must still be there; only its seconds may differ."""

    def without_seconds(toleration: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    held = [without_seconds(one) for one in spec.get("tolerations") or ()]
    for one in previous.get("tolerations") or ():
        if without_seconds(one) not in held:
            text = "existing toleration can not be modified except its tolerationSeconds"
            return [fieldpath.forbidden("spec.tolerations", text)]
    return []


def _gates(spec: Object, previous: Object) -> list[FieldError]:
    held = {gate.get("name") for gate in previous.get("schedulingGates") or ()}
    return [
        fieldpath.forbidden(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for position, gate in enumerate(spec.get("schedulingGates") or ())
        if gate.get("name") not in held
    ]


def _with_allowed_changes(spec: Object, previous: Object) -> Object:
    """The new spec with every permitted change undone: it must then equal the old one."""
    result = dict(spec)
    for part in ("containers", "initContainers"):
        if part in spec:
            pairs = zip(spec[part], previous.get(part) or (), strict=False)
            result[part] = [{**new, "image": old.get("image")} for new, old in pairs]
    fields = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if (previous.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        fields.append("terminationGracePeriodSeconds")
    if previous.get("schedulingGates"):
        fields += ["nodeSelector", "affinity"]  # judged by themselves
    for field in fields:
        if field in previous:
            result[field] = previous[field]
        else:
            result.pop(field, None)
    return result


def _choice_of_nodes(spec: Object, previous: Object) -> list[FieldError]:
    """While a pod is gated it may ask for more of its node, and never for less (KEP-3838)."""
    found: list[FieldError] = []
    wanted, held = spec.get("nodeSelector") or {}, previous.get("nodeSelector") or {}
    if not held.items() <= wanted.items():
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        found.append(fieldpath.invalid("spec.nodeSelector", wanted, text))
    new, old = spec.get("affinity") or {}, previous.get("affinity") or {}
    if {**new, "nodeAffinity": None} != {**old, "nodeAffinity": None}:
        found.append(fieldpath.forbidden("spec", f"{_ONLY_UPDATABLE}{change_text(old, new)}"))
    terms, earlier = _node_terms(new), _node_terms(old)
    where = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if earlier and len(terms) != len(earlier):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [*found, fieldpath.invalid(where, terms, text)]
    for position, (term, before) in enumerate(zip(terms, earlier, strict=False)):
        if not all(_begins_with(term.get(part) or [], before.get(part) or []) for part in ("matchExpressions", "matchFields")):
            text = "only additions are allowed (no mutations or deletions)"
            found.append(fieldpath.invalid(f"{where}[{position}]", term, text))
    return found


def _node_terms(affinity: Object) -> list[Object]:
    return ((affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _begins_with(items: list[Any], start: list[Any]) -> bool:
    return items[: len(start)] == start


def validate_pod_status_update(pod: Object, old: Object) -> list[FieldError]:
    status, previous = pod.get("status") or {}, old.get("status") or {}
    found: list[FieldError] = []
    if previous.get("qosClass") and status.get("qosClass") not in (None, "", previous["qosClass"]):
        found.append(fieldpath.invalid("status.qosClass", status["qosClass"], "field is immutable"))
    if (old.get("spec") or {}).get("restartPolicy") != "Always" and not pods.may_restart_all(old):
        found += _restarted(old, status, previous)
    return found


def _restarted(pod: Object, status: Object, previous: Object) -> list[FieldError]:
    """A container that ended for good, by the pod's policy or by its own, stays ended."""
    going_on = {
        one.get("name") for one in status.get("containerStatuses") or () if not (one.get("state") or {}).get("terminated")
    }
    containers = {each.get("name"): each for each in pods.containers(pod)}
    found = []
    for position, one in enumerate(previous.get("containerStatuses") or ()):
        name, terminated = one.get("name"), (one.get("state") or {}).get("terminated")
        if terminated is None or name not in going_on:
            continue
        if name not in containers or not pods.restarts_after(pod, containers[name], int(terminated.get("exitCode") or 0)):
            where = f"status.containerStatuses[{position}].state"
            found.append(fieldpath.forbidden(where, "may not be transitioned to non-terminated state"))
    return found
