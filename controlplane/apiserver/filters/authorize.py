"""May they? Asks the authorizers about the call; anything but a clear yes is a 403 with upstream's sentence."""

import time

from apimachinery import errors
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Authorizer, Decision
from controlplane.apiserver.filters.access_metrics import AccessMetrics
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.wire.call import Call

_READS = frozenset({"get", "list", "watch"})
_SELECTING = frozenset({"list", "watch", "deletecollection"})


def authorize(authorizer: Authorizer, verb: str = "", metrics: AccessMetrics | None = None) -> Filter:
    """A filter that raises 403 unless the authorizer allows. ``verb`` stands in for the request's own: see ``connect``."""

    metrics = metrics or AccessMetrics()

    async def step(call: Call) -> None:
        attributes = attributes_of(call, verb)
        begun, decision = time.perf_counter(), None
        try:
            decision, reason = await authorizer.authorize(attributes)
        finally:
            metrics.decided(decision, time.perf_counter() - begun)
        allowed = decision is Decision.ALLOW
        if attributes.verb not in _READS:  # for the audit log, which has no reads
            call.annotations["authorization.k8s.io/decision"] = "allow" if allowed else "forbid"
            call.annotations["authorization.k8s.io/reason"] = reason
        if not allowed:
            raise refused(attributes, reason)

    return step


def attributes_of(call: Call, verb: str = "") -> Attributes:
    info = call.info
    fields = labels = ""
    if info.verb in _SELECTING and call.query_string:
        fields, labels = call.query.get("fieldSelector", ""), call.query.get("labelSelector", "")
    return Attributes(
        call.user,
        verb or info.verb,
        info.path,
        info.is_resource,
        info.api_group,
        info.api_version,
        info.resource,
        info.subresource,
        info.namespace,
        info.name,
        fields,
        labels,
    )


def refused(attributes: Attributes, reason: str) -> errors.StatusError:
    """The 403 for attributes that nobody allowed."""
    sentence = describe(attributes)
    if not attributes.is_resource:
        return errors.forbidden(f"forbidden: {sentence}" + (f": {reason}" if reason else ""))
    qualified = f"{attributes.resource}.{attributes.api_group}" if attributes.api_group else attributes.resource
    name = f' "{attributes.name}"' if attributes.name else ""
    text = f"{qualified}{name} is forbidden: {sentence}" + (f": {reason}" if reason else "")
    return errors.forbidden(text, name=attributes.name, group=attributes.api_group, resource=attributes.resource)


def describe(attributes: Attributes) -> str:
    user: UserInfo = attributes.user
    if not attributes.is_resource:
        return f'User "{user.name}" cannot {attributes.verb} path "{attributes.path}"'
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {attributes.verb} resource "{resource}" in API group "{attributes.api_group}" {where}'
