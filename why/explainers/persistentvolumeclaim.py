"""PersistentVolumeClaims: unbound, lost, resizing, or kept by who uses them."""

from apimachinery import quantity
from apimachinery.meta import Object, annotations_of, conditions_of, finalizers_of, is_deleting, name_of, namespace_of
from apimachinery.objects import pods, volumes
from why.cause import Cause, Explanation, State
from why.explainers.deletion import remaining
from why.snapshot import Snapshot
from why.words import condition_text, few, flag, for_time, latest, subject, warnings

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_SELECTED = "volume.kubernetes.io/selected-node"
_PROTECTION = "kubernetes.io/pvc-protection"


def explain(snapshot: Snapshot, claim: Object, asked_by: Object | None = None) -> Explanation:
    """``asked_by`` is the pod in whose chain the claim stands: it is a consumer, whether or not it has a node."""
    state, summary, causes = _judge(snapshot, claim, asked_by)
    return Explanation(subject(claim), namespace_of(claim), state, summary, tuple(causes))


def _judge(snapshot: Snapshot, claim: Object, asked_by: Object | None) -> tuple[State, str, list[Cause]]:
    status = claim.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    if is_deleting(claim):
        return State.UNWELL, "Terminating", _kept(snapshot, claim)
    if phase == "Lost":
        says = f"its volume {volumes.volume_of(claim)} does not exist any more"
        return State.UNWELL, "Lost", [Cause(says, step="restore the volume, or delete the claim and make it anew")]
    if phase == "Bound":
        resizing = [each for each in conditions_of(claim) if each.get("status") == "True"]
        size = (status.get("capacity") or {}).get("storage")
        if resizing:
            causes = [Cause(condition_text(each), warnings(snapshot, claim), _resize_step(claim, each)) for each in resizing]
            return State.WAITING, f"Bound to {volumes.volume_of(claim)} ({size}), being resized", causes
        return State.WELL, f"Bound to {volumes.volume_of(claim)} ({size})", []
    age = for_time(snapshot, (claim.get("metadata") or {}).get("creationTimestamp"))
    state, cause = _unbound(snapshot, claim, asked_by)
    return state, f"{phase}{age}: bound to no volume", [cause]


def _resize_step(claim: Object, condition: Object) -> str:
    if condition.get("type") == "FileSystemResizePending":
        return "the file system grows when a pod mounts it next"
    return f"kubectl describe pvc {name_of(claim)}{flag(claim)}"


def _kept(snapshot: Snapshot, claim: Object) -> list[Cause]:
    users = [name_of(pod) for pod in _users(snapshot, claim)]
    if _PROTECTION in finalizers_of(claim) and users:
        step = f"delete these pods, or have them use another claim: kubectl delete pod {users[0]}{flag(claim)}"
        return [Cause(f"in use by {few(users)}", (f"finalizer {_PROTECTION}",), step)]
    return remaining(claim)


def _users(snapshot: Snapshot, claim: Object) -> list[Object]:
    name = name_of(claim)
    return [
        pod
        for pod in snapshot.all("Pod", namespace_of(claim))
        if not pods.is_terminal(pod)
        and any(volumes.claim_name(pod, each) == name for each in pods.spec_of(pod).get("volumes") or ())
    ]


def _unbound(snapshot: Snapshot, claim: Object, asked_by: Object | None) -> tuple[State, Cause]:
    wanted = volumes.volume_of(claim)
    if wanted:
        return State.UNWELL, _named_volume(snapshot, claim, wanted)
    name = volumes.class_of(claim)
    if not name:
        return State.UNWELL, _without_class(snapshot, claim)
    found = snapshot.get("StorageClass", name)
    if found is None:
        if not snapshot.is_missing("StorageClass", name):
            return State.UNWELL, Cause(f"class {name}, which may not be read here", warnings(snapshot, claim))
        there = few(sorted(name_of(each) for each in snapshot.all("StorageClass"))) or "none"
        step = "a claim's class cannot be changed: delete the claim and make it with a class that exists"
        fitting = _volumes(snapshot, claim)
        if fitting:
            return State.WAITING, fitting
        return State.UNWELL, Cause(f"storageclass/{name} does not exist", (f"there are: {there}",), step)
    if volumes.waits_for_pod(found) and _SELECTED not in annotations_of(claim):
        users = _users(snapshot, claim) or ([asked_by] if asked_by is not None else [])
        says = f"class {name} binds only when a pod that uses the claim is scheduled (volumeBindingMode WaitForFirstConsumer)"
        if not users:
            return State.WAITING, Cause(says, ("no pod uses it",), "create a pod that uses the claim")
        if asked_by is not None:
            return State.WELL, Cause(says)
        first = users[0]
        step = f"pybernetes why pod/{name_of(first)}{flag(first)}"
        return State.WAITING, Cause(says, (f"used by {few(name_of(each) for each in users)}",), step)
    return _to_provision(snapshot, claim, found)


def _named_volume(snapshot: Snapshot, claim: Object, name: str) -> Cause:
    volume = snapshot.get("PersistentVolume", name)
    if volume is None:
        return Cause(
            f"it names persistentvolume/{name}, which does not exist", step="create the volume, or correct spec.volumeName"
        )
    why_not = volumes.mismatch(volume, claim)
    reference = volumes.claim_ref(volume)
    if why_not:
        return Cause(f"it names persistentvolume/{name}, which does not fit: {why_not}", step="make claim and volume agree")
    if reference is not None and not volumes.is_for(volume, claim):
        holder = f"{reference.get('namespace')}/{reference.get('name')}"
        return Cause(f"it names persistentvolume/{name}, which belongs to claim {holder}", step="choose another volume")
    return Cause(f"it names persistentvolume/{name}, and the binder has not bound it yet", warnings(snapshot, claim),
                 "if this lasts, check that the controller manager runs")  # fmt: skip


def _without_class(snapshot: Snapshot, claim: Object) -> Cause:
    fitting = _volumes(snapshot, claim)
    if fitting is not None:
        return fitting
    default = volumes.default_class(snapshot.all("StorageClass"))
    if volumes.names_no_class(claim) and not default:
        there = few(sorted(name_of(each) for each in snapshot.all("StorageClass"))) or "none"
        step = "name a storageClassName, or mark a class as default (storageclass.kubernetes.io/is-default-class=true)"
        return Cause("it names no class, and no class is the default", (f"classes: {there}",), step)
    return Cause("it wants a volume without a class, and none is free that fits", _near(snapshot, claim),
                 "create such a PersistentVolume, or name a storageClassName")  # fmt: skip


def _volumes(snapshot: Snapshot, claim: Object) -> Cause | None:
    fitting = volumes.candidates(claim, snapshot.all("PersistentVolume"))
    if not fitting:
        return None
    return Cause(f"persistentvolume/{name_of(fitting[0])} fits, and the binder has not bound it yet",
                 step="if this lasts, check that the controller manager runs")  # fmt: skip


def _near(snapshot: Snapshot, claim: Object) -> tuple[str, ...]:
    """Volumes of the same class, and why each does not do."""
    said = []
    for volume in snapshot.all("PersistentVolume"):
        if volumes.class_of(volume) != volumes.class_of(claim):
            continue
        reference = volumes.claim_ref(volume)
        taken = f"belongs to {reference.get('namespace')}/{reference.get('name')}" if reference else ""
        phase = (volume.get("status") or {}).get("phase")
        why_not = (
            taken or volumes.mismatch(volume, claim) or (f"is {phase}" if phase != "Available" else "its labels are not selected")
        )
        said.append(f"persistentvolume/{name_of(volume)}: {why_not}")
    wanted = quantity.of(volumes.requested_bytes(claim), "BinarySI")
    modes = ",".join(sorted(volumes.access_modes(claim)))
    return (f"wanted: {wanted} {modes}", *said[:5])


def _to_provision(snapshot: Snapshot, claim: Object, found: Object) -> tuple[State, Cause]:
    name, provisioner = name_of(found), str(found.get("provisioner") or "")
    fitting = _volumes(snapshot, claim)
    if fitting is not None:
        return State.WAITING, fitting
    if provisioner == _NO_PROVISIONER:
        return State.UNWELL, Cause(f"class {name} makes no volumes (provisioner {_NO_PROVISIONER}), and no free one fits",
                                   _near(snapshot, claim), "create a PersistentVolume of this class")  # fmt: skip
    failed = latest(snapshot, claim, "ProvisioningFailed")
    if failed:
        return State.UNWELL, Cause(
            f"provisioner {provisioner} of class {name} fails", failed, f"look at the log of {provisioner}"
        )
    waiting = latest(snapshot, claim, "ExternalProvisioning", "Provisioning", "WaitForPodScheduled")
    drivers = {name_of(each) for each in snapshot.all("CSIDriver")}
    evidence = [*waiting]
    if snapshot.covers("CSIDriver") and provisioner not in drivers and "/" not in provisioner:
        evidence.append(f"no CSIDriver is called {provisioner}; there are: {few(sorted(drivers)) or 'none'}")
    says = f"provisioner {provisioner} of class {name} has not made a volume"
    return State.UNWELL, Cause(says, tuple(evidence), f"check that the pods of {provisioner} run, and read their log")
