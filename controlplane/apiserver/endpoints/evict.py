"""POST ``/eviction``: a deletion that asks PodDisruptionBudgets first, and takes what it uses from them.

Follows upstream's ``pkg/registry/core/pod/storage/eviction.go``. What is taken (``disruptionsAllowed``, ``disruptedPods``)
is written before the pod is marked, so that two evictions at once cannot both use the last one; the disruption controller
counts anew when it sees the pod go, and gives back what came to nothing.
"""

from typing import Any

from apimachinery import errors, labels
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import generation, is_deleting, name_of, resource_version, set_condition
from apimachinery.objects import pods
from apimachinery.times import format_time
from controlplane.apiserver.admission.interface import CREATE
from controlplane.apiserver.endpoints import managers
from controlplane.apiserver.endpoints.body import match_namespace, read_object
from controlplane.apiserver.endpoints.options import WriteOptions, delete_options, write_options
from controlplane.apiserver.endpoints.respond import note_stored, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.registry.deletion import check_preconditions
from controlplane.apiserver.registry.store import Deleted
from controlplane.apiserver.registry.strategy import Context
from controlplane.apiserver.registry.update import STATUS
from controlplane.apiserver.storage.interface import ListOptions
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]
EVICTION = GroupVersionKind("policy", "v1", "Eviction")
MANAGER = "kube-apiserver"
_BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."
_BUSY_SECONDS = 10
_TRIES = 20
_DISRUPTED_BOUND = 2_000  # evictions that the disruption controller may not have seen yet


async def evict(call: Call, scope: Scope, budgets: Scope) -> Reply:
    """``budgets`` is the scope of PodDisruptionBudgets."""
    options = write_options(call.query, "CreateOptions")
    body = await read_object(call, EVICTION, scope.schemas, options.field_validation)
    match_namespace(body, call.info.namespace)
    given = body["metadata"].get("name")
    if given and given != call.info.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    attributes = scope.attributes(call, CREATE, body, None, options.dry_run, EVICTION)
    await scope.admission.mutate(attributes)
    wish = delete_options(call.query, dict(body.get("deleteOptions") or {}))
    if options.dry_run:
        wish["dryRun"] = ["All"]
    await scope.admission.validate(attributes)
    deleted = await _let_go(call, scope, budgets, wish)
    note_stored(call, deleted.entry)
    return value_reply(call, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, status=201)


async def _let_go(call: Call, scope: Scope, budgets: Scope, wish: Object) -> Deleted:
    """Delete the pod if its budget allows; what may be ignored only while the pod stays as it is, is deleted as just seen."""
    for attempt in range(_TRIES):
        pod = (await scope.store.get(call.info.namespace, call.info.name)).decode()
        check_preconditions(wish, pod, lambda why: errors.conflict("Pod", call.info.name, why))
        budget = None if _costs_nothing(pod) else await _budget_of(pod, budgets)
        guarded = _may_become_healthy(pod) if budget is None else _is_free(pod, budget)
        if budget is not None and not guarded:
            await _take(call, budgets, pod, budget, bool(wish.get("dryRun")))
        try:
            return await _delete(call, scope, wish, pod if guarded and not _names_version(wish) else None)
        except StatusError as problem:
            if problem.code != 409 or not guarded or _names_version(wish) or attempt == _TRIES - 1:
                raise
            if budget is not None:
                raise _busy(name_of(budget)) from problem
    raise AssertionError("unreachable")


def _costs_nothing(pod: Object) -> bool:
    """Pods that have ended, not begun or are going anyway cost no budget."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending") or is_deleting(pod)


def _may_become_healthy(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Pending" and not is_deleting(pod)


def _is_free(pod: Object, budget: Object) -> bool:
    """An unready pod is not among the healthy ones, so its going costs nothing as long as there are enough of those."""
    if pods.is_ready(pod):
        return False
    status = budget.get("status") or {}
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    needed = int(status.get("desiredHealthy") or 0)
    return needed > 0 and int(status.get("currentHealthy") or 0) >= needed


def _names_version(wish: Object) -> bool:
    return bool((wish.get("preconditions") or {}).get("resourceVersion"))


async def _budget_of(pod: Object, budgets: Scope) -> Object | None:
    held = pod["metadata"].get("labels") or {}
    found = await budgets.store.list(pod["metadata"]["namespace"], ListOptions())
    everything = [entry.decode() for entry in found.entries]
    covering = [one for one in everything if labels.from_label_selector((one.get("spec") or {}).get("selector")).matches(held)]
    if len(covering) > 1:
        raise errors.internal("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
    return covering[0] if covering else None


async def _take(call: Call, budgets: Scope, pod: Object, budget: Object, dry_run: bool) -> None:
    """Count the eviction in the budget's status. Raises 429 or 403 when the budget does not allow it."""
    name = name_of(budget)

    async def change(new: Object) -> Object:
        old = dict(new)
        new["status"] = dict(new.get("status") or {})
        take(new, pod, call, budgets)
        await managers.track_update(budgets, old, new, MANAGER, STATUS.part, call.now)
        return new

    async def admit(new: Object, old: Object | None) -> None:
        """The server's own bookkeeping is nobody's request."""

    ctx = Context(call.user, budget["metadata"]["namespace"], name, "update", call.now, "status", dry_run, MANAGER, [])
    try:
        await budgets.store.update(ctx, change, admit, STATUS)
    except StatusError as problem:
        if problem.code == 404:  # it was deleted: nothing is asked any more
            return
        raise


def take(budget: Object, pod: Object, call: Call, budgets: Scope) -> None:
    """The budget after the eviction of ``pod``, in place."""
    name, status = name_of(budget), budget["status"]
    allowed, disrupted = int(status.get("disruptionsAllowed") or 0), dict(status.get("disruptedPods") or {})
    if int(status.get("observedGeneration") or 0) < generation(budget):
        raise _busy(name)
    problem = ""
    if allowed < 0:
        problem = "pdb disruptions allowed is negative"
    elif len(disrupted) > _DISRUPTED_BOUND:
        problem = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    if problem:
        group = budgets.info.gvk.group
        text = f'poddisruptionbudget.{group} "{name}" is forbidden: {problem}'
        raise errors.forbidden(text, name=name, group=group, resource="poddisruptionbudget")
    if allowed == 0:
        healthy, needed = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
        raise _refused(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently", 0)
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**disrupted, name_of(pod): format_time(call.now)}
    if allowed == 1:
        status["conditions"] = [dict(one) for one in status.get("conditions") or []]
        stamps: Any = {"observedGeneration": status.get("observedGeneration")}
        set_condition(budget, "DisruptionAllowed", "False", now=call.now, reason="InsufficientPods", stamps=stamps)


def _busy(name: str) -> StatusError:
    return _refused(f"The disruption budget {name} is still being processed by the server.", _BUSY_SECONDS)


def _refused(why: str, retry_seconds: int) -> StatusError:
    refusal = errors.too_many_requests(_BLOCKED, retry_seconds)
    refusal.status.setdefault("details", {})["causes"] = [{"reason": "DisruptionBudget", "message": why}]
    return refusal


async def _delete(call: Call, scope: Scope, wish: Object, seen: Object | None) -> Deleted:
    """Say on the pod why it goes, then delete it; ``seen`` is the only state in which it may be."""
    dry_run = bool(wish.get("dryRun"))
    if not dry_run:
        version = await _tell(call, scope, wish, seen)
        if seen is not None or _names_version(wish):
            wish = {**wish, "preconditions": {**(wish.get("preconditions") or {}), "resourceVersion": version}}
    elif seen is not None:
        wish = {**wish, "preconditions": {**(wish.get("preconditions") or {}), "resourceVersion": resource_version(seen)}}

    async def admit(obj: Object, old: Object | None) -> None:
        """Admission has been asked about the eviction, which is all that upstream asks."""

    call.dry_run = dry_run
    return await scope.store.delete(scope.context(call, WriteOptions(dry_run)), wish, admit)


async def _tell(call: Call, scope: Scope, wish: Object, seen: Object | None) -> str:
    """The condition DisruptionTarget; gives the pod's new resourceVersion."""
    name = call.info.name

    async def change(new: Object) -> Object:
        old = dict(new)
        check_preconditions(wish, old, lambda why: errors.conflict("Pod", name, why))
        if seen is not None and resource_version(old) != resource_version(seen):
            raise errors.conflict("Pod", name, errors.OPTIMISTIC_LOCK)
        status = new["status"] = dict(new.get("status") or {})
        status["conditions"] = [dict(one) for one in status.get("conditions") or []]
        set_condition(
            new, "DisruptionTarget", "True", now=call.now, reason="EvictionByEvictionAPI", message="Eviction API: evicting"
        )
        await managers.track_update(scope, old, new, MANAGER, STATUS.part, call.now)
        return new

    async def admit(new: Object, old: Object | None) -> None:
        """The server's own note is nobody's request."""

    entry, _ = await scope.store.update(scope.context(call, WriteOptions()), change, admit, STATUS)
    return str(entry.revision)
