"""What all workloads share: pods that cannot be created, pods that are not well, and how many there should be."""

from collections.abc import Iterable, Sequence

from apimachinery.meta import Object, conditions_of, name_of, namespace_of
from why.cause import Cause, Explanation, State
from why.explainers import pod as pod_explainer
from why.snapshot import Snapshot, event_time
from why.words import condition_text, few, flag, for_time, short, told

_CREATES = ("FailedCreate",)
_SHOWN = 4


def create_failures(snapshot: Snapshot, owner: Object, condition_type: str = "ReplicaFailure") -> list[Cause]:
    """Pods that the API server does not accept, by the event of the controller and by the condition it sets."""
    said = snapshot.events(owner, *_CREATES)
    failing = [each for each in conditions_of(owner) if each.get("type") == condition_type and each.get("status") == "True"]
    made = snapshot.events(owner, "SuccessfulCreate")
    if said and made and not failing and event_time(made[0]) >= event_time(said[0]):
        said = []  # it could not, and now it can
    if not said and not failing:
        return []
    message = str(said[0].get("message") if said else failing[0].get("message") or "")
    says, step, below = _refusal(snapshot, owner, message)
    return [Cause(says, (told(snapshot, said[0]) if said else condition_text(failing[0]),), step, below)]


def _refusal(snapshot: Snapshot, owner: Object, message: str) -> tuple[str, str, tuple[Cause, ...]]:
    """What refused, by the words of the API server's own messages."""
    text = message.lower()
    if "exceeded quota" in text or "failed quota" in text:
        step = f"raise the quota, free some of it, or lower the requests: kubectl describe quota{flag(owner)}"
        return "its pods are refused by a ResourceQuota", step, tuple(quotas(snapshot, owner, message))
    if "failed calling webhook" in text:
        step = "mend the webhook's Service, or its configuration (failurePolicy); pybernetes why --all -A names dead ones"
        return "its pods are refused because an admission webhook does not answer", step, ()
    if "admission webhook" in text and "denied" in text:
        return "its pods are refused by an admission webhook", "change the pod template as the webhook's message asks", ()
    if "violates podsecurity" in text:
        step = f"meet the standard in the template's securityContext, or relabel the namespace {namespace_of(owner)}"
        return "its pods are refused by Pod Security admission", step, ()
    if "serviceaccount" in text and "not found" in text:
        return "its service account does not exist", f"kubectl create serviceaccount NAME{flag(owner)}", ()
    if "limitrange" in text or "usage per" in text:
        return "its pods are refused by a LimitRange", f"kubectl describe limitrange{flag(owner)}", ()
    if "priorityclass" in text:
        return "its pods name a PriorityClass that does not exist", "kubectl get priorityclasses", ()
    if "validatingadmissionpolicy" in text:
        return "its pods are refused by a ValidatingAdmissionPolicy", "change the pod template as the policy's message asks", ()
    if "is invalid" in text:
        return (
            "its pod template makes invalid pods",
            f"kubectl edit {str(owner.get('kind')).lower()} {name_of(owner)}{flag(owner)}",
            (),
        )
    return "its pods cannot be created", f"kubectl describe {str(owner.get('kind')).lower()} {name_of(owner)}{flag(owner)}", ()


def quotas(snapshot: Snapshot, owner: Object, message: str) -> list[Cause]:
    """The quotas that the message names, with what is used of them."""
    found = []
    for quota in snapshot.all("ResourceQuota", namespace_of(owner)):
        if name_of(quota) not in message:
            continue
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        told_of = tuple(f"{name}: {used.get(name, '0')} of {limit} used" for name, limit in sorted(hard.items()))
        found.append(Cause(f"resourcequota/{name_of(quota)}", told_of))
    return found


def pod_causes(snapshot: Snapshot, pods: Iterable[Object]) -> tuple[list[Cause], bool]:
    """One cause for all pods that are unwell alike, the most first; and whether any is broken rather than on its way."""
    groups: dict[tuple[str, ...], list[Explanation]] = {}
    broken = False
    for pod in pods:
        told_of = pod_explainer.explain(snapshot, pod)
        if told_of.state is State.WELL:
            continue
        broken |= told_of.state is not State.WAITING
        key = tuple(each.says.replace(name_of(pod), "") for each in told_of.walk())
        groups.setdefault(key, []).append(told_of)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [_alike(group) for group in ordered[:_SHOWN]], broken


def _alike(group: Sequence[Explanation]) -> Cause:
    first = group[0].as_cause()
    if len(group) == 1:
        return first
    others = few(each.subject.partition("/")[2] for each in group[1:])
    return Cause(first.says, (*first.evidence, f"{len(group) - 1} more alike: {others}"), first.step, first.causes, first.about)


def not_observed(snapshot: Snapshot, obj: Object) -> list[Cause]:
    """A controller that has not seen the latest change does not run, or is far behind."""
    metadata, status = obj.get("metadata") or {}, obj.get("status") or {}
    wanted, seen = int(metadata.get("generation") or 0), int(status.get("observedGeneration") or 0)
    if seen >= wanted:
        return []
    age = for_time(snapshot, metadata.get("creationTimestamp")) if not seen else ""
    says = f"its controller has not seen its latest change{age} (generation {wanted}, seen {seen})"
    return [Cause(says, step="check that the controller manager runs: kubectl -n kube-system get lease kube-controller-manager")]


def condition_causes(obj: Object, bad: Iterable[tuple[str, str]]) -> list[Cause]:
    """Conditions in one of the given (type, status) as causes of their own."""
    wanted = set(bad)
    return [Cause(short(condition_text(each))) for each in conditions_of(obj) if (each.get("type"), each.get("status")) in wanted]
