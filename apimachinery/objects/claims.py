"""Questions about ResourceClaims that scheduler, controllers and kubelet ask alike (``k8s.io/dynamic-resource-allocation``).

Objects are plain and never changed here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.meta import Object, controller_of, key_of, name_of, namespace_of, uid_of

GROUP = "resource.k8s.io"
FINALIZER = "resource.kubernetes.io/delete-protection"
"""Kept on a claim for as long as devices are allocated to it."""
POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On a claim made from a template: the name of the entry in the pod that it was made for."""
EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""On the claim that the scheduler makes for a pod's extended resources."""
IMPLICIT_EXTENDED_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every DeviceClass can be asked for as an extended resource of this domain."""
CONSUMERS_MAX = 256
RESULTS_MAX = 32
SUBREQUESTS_MAX = 8


class ClaimError(Exception):
    """The pod cannot use the claim, or there is none yet; the text is upstream's."""


class ClaimMissingError(ClaimError):
    """The claim for a template has not been made yet."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An entry of ``spec.resourceClaims``: the claim's name, and whether it must be the pod's own."""

    entry: str
    claim: str
    own: bool


def claim_of(pod: Object, entry: Mapping[str, Any]) -> Wanted | None:
    """The claim of one entry; None where it has been found that none is needed. Raises ClaimError."""
    name, where = str(entry.get("name") or ""), f'pod "{key_of(pod)}"'
    if entry.get("resourceClaimName") is not None:
        return Wanted(name, str(entry["resourceClaimName"]), own=False)
    if entry.get("resourceClaimTemplateName") is None:
        raise ClaimError(f'{where}, spec.resourceClaim "{name}": none of the supported fields are set')
    for made in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if made.get("name") == name:
            claim = made.get("resourceClaimName")
            return Wanted(name, str(claim), own=True) if claim else None
    raise ClaimMissingError(f"{where}: ResourceClaim not created yet")


def entries_of(pod: Object) -> list[dict[str, Any]]:
    """``spec.resourceClaims``."""
    return (pod.get("spec") or {}).get("resourceClaims") or []


def claims_of(pod: Object) -> Iterator[Wanted]:
    """The claims that the pod refers to and that exist as far as the pod knows, the one for extended resources last."""
    for entry in entries_of(pod):
        try:
            found = claim_of(pod, entry)
        except ClaimError:
            continue
        if found is not None:
            yield found
    if extended := extended_claim_of(pod):
        yield Wanted("", extended, own=True)


def extended_claim_of(pod: Object) -> str:
    """The claim that stands for the pod's extended resources; empty without one."""
    return str((((pod.get("status") or {}).get("extendedResourceClaimStatus")) or {}).get("resourceClaimName") or "")


def not_of_pod(pod: Object, claim: Object) -> str:
    """Why the claim is not the pod's own; empty if it is."""
    owner = controller_of(claim)
    if owner is not None and owner.get("uid") == uid_of(pod):
        return ""
    return f"ResourceClaim {key_of(claim)} was not created for pod {key_of(pod)} (pod is not owner)"


def allocation_of(claim: Object) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = (claim.get("status") or {}).get("allocation")
    return found


def results_of(claim: Object) -> list[dict[str, Any]]:
    """The devices that are allocated to the claim, one entry for each request."""
    return ((allocation_of(claim) or {}).get("devices") or {}).get("results") or []


def consumers_of(claim: Object) -> list[dict[str, Any]]:
    """``status.reservedFor``."""
    return (claim.get("status") or {}).get("reservedFor") or []


def is_reserved_for(pod: Object, claim: Object) -> bool:
    return any(each.get("uid") == uid_of(pod) for each in consumers_of(claim))


def can_be_reserved(claim: Object) -> bool:
    """Whether one more pod may use it."""
    return len(consumers_of(claim)) < CONSUMERS_MAX


def consumer(pod: Object) -> dict[str, str]:
    """The entry for ``status.reservedFor``."""
    return {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}


def owning_pod(claim: Object) -> tuple[str, str]:
    """Name and uid of the pod that a claim was made for; empty for the claims of people."""
    owner = controller_of(claim)
    if owner is None or owner.get("apiVersion") != "v1" or owner.get("kind") != "Pod":
        return "", ""
    return str(owner.get("name") or ""), str(owner.get("uid") or "")


def needs_admin(spec: Mapping[str, Any]) -> bool:
    """Whether a ``ResourceClaimSpec`` asks for devices that others use."""
    return any(asked.get("adminAccess") for _, asked in requests_of(spec))


def requests_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(``request`` or ``request/subrequest``, what is asked) of a ``ResourceClaimSpec``, in order."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        name = str(request.get("name") or "")
        if request.get("exactly") is not None:
            yield name, request["exactly"]
        for choice in request.get("firstAvailable") or ():
            yield f"{name}/{choice.get('name') or ''}", choice


def pool_key(result: Mapping[str, Any]) -> tuple[str, str, str]:
    """Driver, pool and name of a device in an allocation or a status."""
    return str(result.get("driver") or ""), str(result.get("pool") or ""), str(result.get("device") or "")


def binding_problem(claim: Object) -> str | None:
    """Whether the devices are ready for the pod to be bound: None if they are, empty while they are not, or why they failed.

    Conditions that drivers write to ``status.devices`` answer for those named in the allocation (KEP-5007).
    """
    if allocation_of(claim) is None:
        return ""
    told = {pool_key(each): each.get("conditions") or () for each in (claim.get("status") or {}).get("devices") or ()}
    for result in results_of(claim):
        if not result.get("bindingConditions"):
            continue
        conditions = {each.get("type"): each for each in told.get(pool_key(result), ())}
        for kind in result.get("bindingFailureConditions") or ():
            failed = conditions.get(kind)
            if failed is not None and failed.get("status") == "True":
                reason, message = failed.get("reason") or "", failed.get("message") or ""
                return f'claim {name_of(claim)} binding failed: reason={reason}, message="{message}"'
        if any((conditions.get(kind) or {}).get("status") != "True" for kind in result["bindingConditions"]):
            return ""
    return None


def has_binding_conditions(claim: Object) -> bool:
    return any(result.get("bindingConditions") for result in results_of(claim))


def key(claim: Object) -> str:
    """``namespace/name``."""
    return f"{namespace_of(claim)}/{name_of(claim)}"
