"""POST ``/eviction``: a deletion that asks PodDisruptionBudgets first."""

from typing import Any

from apimachinery import errors, labels
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.interface import CREATE, Listing
from controlplane.apiserver.endpoints.body import match_namespace, read_object
from controlplane.apiserver.endpoints.delete import carry_out
from controlplane.apiserver.endpoints.options import write_options
from controlplane.apiserver.endpoints.respond import note_stored, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]
EVICTION = GroupVersionKind("policy", "v1", "Eviction")
_BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS = 10


async def evict(call: Call, scope: Scope, listing: Listing) -> Reply:
    options = write_options(call.query, "CreateOptions")
    body = await read_object(call, EVICTION, scope.schemas, options.field_validation)
    match_namespace(body, call.info.namespace)
    given = body["metadata"].get("name")
    if given and given != call.info.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    wish: Object = dict(body.get("deleteOptions") or {})
    if options.dry_run:
        wish["dryRun"] = ["All"]
    await scope.admission.validate(scope.attributes(call, CREATE, body, None, options.dry_run))
    pod = (await scope.store.get(call.info.namespace, call.info.name)).decode()
    if _counts(pod):
        await _respect(pod, await listing("poddisruptionbudgets.policy", call.info.namespace))
    deleted = await carry_out(call, scope, wish)
    note_stored(call, deleted.entry)
    return value_reply(call, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, status=201)


def _counts(pod: Object) -> bool:
    """Pods that have ended, not begun or are going anyway cost no budget."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed", "Pending") and not pod["metadata"].get("deletionTimestamp")


async def _respect(pod: Object, budgets: list[Object]) -> None:
    held = pod["metadata"].get("labels") or {}
    covering = [one for one in budgets if labels.from_label_selector((one.get("spec") or {}).get("selector")).matches(held)]
    if len(covering) > 1:
        raise errors.internal("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
    for budget in covering:
        status = budget.get("status") or {}
        if (status.get("disruptionsAllowed") or 0) > 0:
            continue
        name = budget["metadata"]["name"]
        healthy, needed = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
        text = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        refusal = errors.too_many_requests(_BLOCKED, _RETRY_SECONDS)
        refusal.status["details"]["causes"] = [{"reason": "DisruptionBudget", "message": text}]
        raise refusal
