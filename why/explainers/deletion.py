"""Objects that are being deleted and are still there: whoever holds them by a finalizer. Called by all explainers."""

from apimachinery.meta import Object, finalizers_of, name_of, namespace_of
from why.cause import Cause, Explanation, State
from why.words import flag, subject


def terminating(obj: Object) -> Explanation:
    """For kinds that have no other story of their end."""
    return Explanation(subject(obj), namespace_of(obj), State.UNWELL, "Terminating", tuple(remaining(obj)))


def remaining(obj: Object) -> list[Cause]:
    return held_by_finalizers(obj) or [Cause("nothing holds it: it is about to go")]


def held_by_finalizers(obj: Object) -> list[Cause]:
    """Each finalizer of an object is somebody who has not finished with it."""
    kind = str(obj.get("kind") or "object").lower()
    return [
        Cause(
            f"finalizer {each} is not removed by its owner",
            step=_finalizer_step(each, f"{kind} {name_of(obj)}{flag(obj)}"),
        )
        for each in finalizers_of(obj)
    ]


def _finalizer_step(finalizer: str, what: str) -> str:
    known = {
        "kubernetes.io/pvc-protection": "it goes when no pod uses the claim",
        "kubernetes.io/pv-protection": "it goes when the volume is bound to no claim",
        "foregroundDeletion": "it goes when everything that it owns is gone",
        "orphan": "it goes when the garbage collector has released what it owns",
        "batch.kubernetes.io/job-tracking": "it goes when the job controller has counted the pod",
        "service.kubernetes.io/load-balancer-cleanup": "it goes when the cloud's balancer is gone",
    }
    if finalizer in known:
        return known[finalizer]
    return f"check that its controller runs; if it is gone for good, kubectl edit {what} and take the finalizer out"
