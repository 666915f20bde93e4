"""What to do about one claim or one volume: pure functions from what is known to the next step. ``controller`` takes it.

The rules are upstream's ``pv_controller.go``: binding is written from both sides, volume first, and every half-way state
leads on to the same end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from apimachinery.meta import Object, annotations_of, clone, name_of, namespace_of, set_annotation, uid_of
from apimachinery.objects import volumes

AVAILABLE, BOUND, RELEASED, FAILED, PENDING, LOST = "Available", "Bound", "Released", "Failed", "Pending", "Lost"
NORMAL, WARNING = "Normal", "Warning"


class Told(NamedTuple):
    """An event."""

    type: str
    reason: str
    message: str


class Do(Enum):
    """What happens to a claim."""

    BIND = auto()
    WAIT = auto()
    PROVISION = auto()
    SET_CLASS = auto()
    LOSE = auto()


@dataclass(frozen=True, slots=True)
class ClaimStep:
    do: Do
    volume: Object | None = None
    told: Told | None = None
    storage_class: str = ""


@dataclass(frozen=True, slots=True)
class Around:
    """What else counts for a claim. ``named`` is the volume that it names; ``pods`` use it."""

    named: Object | None
    candidates: Callable[[], Iterable[Object]]
    delayed: bool = False
    default_class: str = ""
    pods: Sequence[Object] = ()


def next_for_claim(claim: Object, around: Around) -> ClaimStep:
    """The step for a claim in any state."""
    if volumes.BIND_COMPLETED in annotations_of(claim):
        return _bound_claim(claim, around.named)
    if volumes.volume_of(claim):
        return _naming_claim(claim, around.named)
    found = volumes.best_match(claim, around.candidates(), delayed=around.delayed)
    if found is not None:
        return ClaimStep(Do.BIND, found)
    if volumes.names_no_class(claim) and around.default_class:
        return ClaimStep(Do.SET_CLASS, storage_class=around.default_class)
    if around.delayed and not annotations_of(claim).get(volumes.SELECTED_NODE):
        return ClaimStep(Do.WAIT, told=_waiting_for(around.pods))
    if volumes.class_of(claim):
        return ClaimStep(Do.PROVISION)
    text = "no persistent volumes available for this claim and no storage class is set"
    return ClaimStep(Do.WAIT, told=Told(NORMAL, "FailedBinding", text))


def _bound_claim(claim: Object, volume: Object | None) -> ClaimStep:
    if not volumes.volume_of(claim):
        text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return ClaimStep(Do.LOSE, told=Told(WARNING, "ClaimLost", text))
    if volume is None:
        return ClaimStep(
            Do.LOSE, told=Told(WARNING, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        )
    reference = volumes.claim_ref(volume)
    if not reference or reference.get("uid") == uid_of(claim):
        return ClaimStep(Do.BIND, volume)
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    return ClaimStep(Do.LOSE, told=Told(WARNING, "ClaimMisbound", text))


def _naming_claim(claim: Object, volume: Object | None) -> ClaimStep:
    """Somebody named the volume: an administrator, or a binding that was cut short."""
    if volume is None:
        return ClaimStep(Do.WAIT)
    if volumes.claim_ref(volume) is None:
        if why := volumes.mismatch(volume, claim):
            text = f'Cannot bind to requested volume "{name_of(volume)}": {why}'
            return ClaimStep(Do.WAIT, told=Told(WARNING, "VolumeMismatch", text))
        return ClaimStep(Do.BIND, volume)
    if volumes.is_for(volume, claim):
        return ClaimStep(Do.BIND, volume)
    text = f'volume "{name_of(volume)}" already bound to a different claim.'
    return ClaimStep(Do.WAIT, told=Told(WARNING, "FailedBinding", text))


def _waiting_for(pods: Sequence[Object]) -> Told:
    unscheduled = [name_of(pod) for pod in pods if not (pod.get("spec") or {}).get("nodeName")]
    if not unscheduled:
        return Told(NORMAL, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    plural = "s" if len(unscheduled) > 1 else ""
    return Told(NORMAL, "WaitForPodScheduled", f"waiting for pod{plural} {','.join(unscheduled)} to be scheduled")


class On(Enum):
    """What happens to a volume, beside its phase."""

    NOTHING = auto()
    LOOK_AT_CLAIM = auto()
    RECLAIM = auto()
    UNBIND = auto()


@dataclass(frozen=True, slots=True)
class VolumeStep:
    phase: str = ""
    then: On = On.NOTHING
    told: Told | None = None
    told_claim: Told | None = None


def next_for_volume(volume: Object, claim: Object | None) -> VolumeStep:
    """The step for a volume. ``claim`` is the object of the name that the volume is for, of whatever uid."""
    reference = volumes.claim_ref(volume)
    if not reference or not reference.get("uid"):
        return VolumeStep(AVAILABLE)
    if claim is None or uid_of(claim) != reference["uid"]:
        return VolumeStep(_released(volume), On.RECLAIM)
    named = volumes.volume_of(claim)
    if not named:
        if volumes.mode_of(claim) != volumes.mode_of(volume):
            text = "to requested PersistentVolumeClaim"
            why = f'"{name_of(claim)}" due to incompatible volumeMode.'
            return VolumeStep(
                told=Told(WARNING, "VolumeMismatch", f"Cannot bind PersistentVolume {text} {why}"),
                told_claim=Told(WARNING, "VolumeMismatch", f'Cannot bind PersistentVolume "{name_of(volume)}" {text} {why}'),
            )
        return VolumeStep(then=On.LOOK_AT_CLAIM)
    if named == name_of(volume):
        return VolumeStep(BOUND)
    if volumes.PROVISIONED_BY in annotations_of(volume) and reclaim_policy(volume) == "Delete":
        return VolumeStep(_released(volume), On.RECLAIM)  # made for a claim that meanwhile got another
    return VolumeStep(then=On.UNBIND)


def reclaim_policy(volume: Object) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain")


def phase_of(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase") or "")


def _released(volume: Object) -> str:
    return "" if phase_of(volume) in (RELEASED, FAILED) else RELEASED


# The two halves of a binding, and its end


def volume_for_claim(volume: Object, claim: Object) -> Object | None:
    """The volume with its half of the binding; None if it has it already."""
    reference = volumes.claim_ref(volume) or {}
    wanted = (namespace_of(claim), name_of(claim), uid_of(claim))
    if (reference.get("namespace"), reference.get("name"), reference.get("uid")) == wanted:
        return None
    changed = clone(volume)
    if not volumes.is_for(volume, claim):
        set_annotation(changed, volumes.BOUND_BY_CONTROLLER, "yes")
    changed["spec"]["claimRef"] = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
        "resourceVersion": claim["metadata"].get("resourceVersion", ""),
    }
    return changed


def claim_for_volume(claim: Object, volume: Object) -> Object | None:
    """The claim with its half; None if it has it already."""
    changed = clone(claim)
    if volumes.volume_of(claim) != name_of(volume):
        changed["spec"]["volumeName"] = name_of(volume)
        set_annotation(changed, volumes.BOUND_BY_CONTROLLER, "yes")
    if volumes.BIND_COMPLETED not in annotations_of(claim):
        set_annotation(changed, volumes.BIND_COMPLETED, "yes")
    return changed if changed != claim else None


def claim_status(claim: Object, volume: Object) -> Object:
    """What the status of a bound claim must say. The capacity is set once: later on it belongs to who resizes."""
    status = claim.get("status") or {}
    wanted: Object = {"phase": BOUND, "accessModes": list(volume["spec"].get("accessModes") or ())}
    if phase_of(claim) != BOUND or not status.get("capacity"):
        wanted["capacity"] = dict(volume["spec"].get("capacity") or {})
    if attributes := volume["spec"].get("volumeAttributesClassName"):
        wanted.setdefault("currentVolumeAttributesClassName", status.get("currentVolumeAttributesClassName") or attributes)
    return {field: value for field, value in wanted.items() if status.get(field) != value}


def unbound(volume: Object) -> Object:
    """The volume without its claim; of a reservation by an administrator only the uid goes."""
    changed = clone(volume)
    annotations = changed["metadata"].get("annotations") or {}
    if annotations.pop(volumes.BOUND_BY_CONTROLLER, None) is not None:
        del changed["spec"]["claimRef"]
        if not annotations:
            del changed["metadata"]["annotations"]
    elif changed["spec"].get("claimRef"):
        changed["spec"]["claimRef"].pop("uid", None)
        changed["spec"]["claimRef"].pop("resourceVersion", None)
    return changed
