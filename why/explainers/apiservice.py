"""APIServices that are not available: the Service behind them, its endpoints, or what the aggregator says."""

from apimachinery.meta import Object, get_condition, is_deleting, name_of
from why.cause import Cause, Explanation, State
from why.explainers import service as services
from why.explainers.deletion import terminating
from why.snapshot import Snapshot
from why.words import condition_text, subject


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    if is_deleting(obj):
        return terminating(obj)
    condition = get_condition(obj, "Available")
    if condition is not None and condition.get("status") == "True":
        return Explanation(subject(obj), "", State.WELL, f"available ({condition.get('reason') or 'no reason'})")
    if condition is None:
        step = "if this lasts, check that the API server's aggregator runs"
        return Explanation(subject(obj), "", State.WAITING, "not yet looked at", (Cause("no condition Available", step=step),))
    causes = backend_causes(snapshot, (obj.get("spec") or {}).get("service"))
    step = "" if causes else _step(obj, str(condition.get("reason") or ""))
    return Explanation(subject(obj), "", State.UNWELL, "unavailable", (Cause(
        f"the aggregator: {condition.get('reason')}", (condition_text(condition),), step, tuple(causes)
    ),))  # fmt: skip


def unavailable(snapshot: Snapshot) -> list[Cause]:
    """All APIServices that are not available, as causes of what needs them."""
    told = [explain(snapshot, each) for each in snapshot.all("APIService")]
    return [each.as_cause() for each in told if each.state is State.UNWELL]


def _step(obj: Object, reason: str) -> str:
    if reason == "FailedDiscoveryCheck":
        return "its server answers badly or not at all: check its certificate (caBundle), its log and the network to it"
    return f"if its server is gone for good: kubectl delete apiservice {name_of(obj)}"


def backend_causes(snapshot: Snapshot, reference: Object | None) -> list[Cause]:
    """What is wrong with the Service that an APIService or a webhook points to; nothing when it has ready endpoints."""
    if not reference:
        return []
    namespace, name = str(reference.get("namespace") or ""), str(reference.get("name") or "")
    found = snapshot.get("Service", name, namespace)
    if found is None:
        if not snapshot.is_missing("Service", name, namespace):
            return []
        return [
            Cause(f"service/{name} in {namespace} does not exist", step="install its server again, or delete what points to it")
        ]
    wanted = int(reference.get("port") or 443)
    ports = [int(each.get("port") or 0) for each in (found.get("spec") or {}).get("ports") or ()]
    if ports and wanted not in ports:
        there = ", ".join(str(each) for each in ports)
        return [Cause(f"service/{name} in {namespace} has no port {wanted}", (f"its ports: {there}",), "correct the port")]
    told = services.explain(snapshot, found)
    return [Cause(f"{told.where}: {told.summary}", causes=told.causes)] if told.state is State.UNWELL else []
