"""PersistentVolumes: released, failed, or kept by their claim."""

from apimachinery.meta import Object, is_deleting, name_of
from apimachinery.objects import volumes
from why.cause import Cause, Explanation, State
from why.explainers.deletion import remaining
from why.snapshot import Snapshot
from why.words import short, subject, warnings


def explain(snapshot: Snapshot, volume: Object) -> Explanation:
    state, summary, causes = _judge(snapshot, volume)
    return Explanation(subject(volume), "", state, summary, tuple(causes))


def _judge(snapshot: Snapshot, volume: Object) -> tuple[State, str, list[Cause]]:
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    holder = volumes.claim_key(volume)
    if is_deleting(volume):
        bound = [Cause(f"it is bound to claim {holder}", step=_delete_claim(holder))] if phase == "Bound" else []
        return State.UNWELL, "Terminating", bound or remaining(volume)
    policy = str(spec.get("persistentVolumeReclaimPolicy") or "Retain")
    match phase:
        case "Bound":
            return State.WELL, f"Bound to {holder}", []
        case "Available":
            return State.WELL, "Available: no claim has it yet", []
        case "Released" if policy == "Retain":
            step = (
                f'keep its data or, to offer it again: kubectl patch pv {name_of(volume)} -p \'{{"spec":{{"claimRef":null}}}}\''
            )
            return State.UNWELL, "Released", [Cause(f"its claim {holder} is gone, and its reclaim policy is Retain", step=step)]
        case "Released":
            says = f"its claim {holder} is gone, and it has not been deleted yet (reclaim policy {policy})"
            step = "check that its provisioner runs"
            return State.UNWELL, "Released", [Cause(says, warnings(snapshot, volume), step)]
    said = (short(status["message"]),) if status.get("message") else ()
    return (
        State.UNWELL,
        phase,
        [Cause(f"phase {phase}", (*said, *warnings(snapshot, volume)), f"kubectl describe pv {name_of(volume)}")],
    )


def _delete_claim(holder: str) -> str:
    namespace, _, name = holder.partition("/")
    return f"kubectl delete pvc {name} -n {namespace}"
