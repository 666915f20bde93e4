"""What expressions of admission see: the values of one request. Pure.

Called by whoever evaluates: policies, and webhooks for their match conditions.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery.cel import shapes
from apimachinery.cel.admission import NAMESPACE, NAMESPACE_METADATA, REQUEST
from apimachinery.cel.library import authz
from apimachinery.cel.values import moment
from controlplane.apiserver.admission.interface import Attributes, Object
from controlplane.apiserver.admission.request import request_of as request_of

POOL = shapes.pool_of(REQUEST, NAMESPACE)


def values_of(
    attributes: Attributes, request: Object, namespace: Object | None, obj: Object | None, old: Object | None
) -> Object:
    """The variables that every expression has; ``params`` and composed ones come from a policy."""
    asked = authz.Question(
        group=attributes.gvr.group,
        resource=attributes.resource,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
    return {
        "object": obj,
        "oldObject": old,
        "request": request,
        "namespaceObject": _namespace(namespace) if namespace is not None else None,
        "authorizer": authz.authorizer(),
        "authorizer.requestResource": authz.resource_check(asked),
    }


def _present(**given: Any) -> Object:
    return {key: held for key, held in given.items() if held}


def _namespace(namespace: Mapping[str, Any]) -> Object:
    """The fields that the type has, and moments as such."""
    fields = NAMESPACE_METADATA.fields
    meta = namespace["metadata"]
    kept: Object = {key: held for key, held in meta.items() if key in fields or key == "uid"}
    for key in ("creationTimestamp", "deletionTimestamp"):
        if isinstance(kept.get(key), str):
            kept[key] = moment(kept[key])
    status = dict(namespace.get("status") or {})
    if status.get("conditions"):
        status["conditions"] = [
            {**each, "lastTransitionTime": moment(each["lastTransitionTime"])} if each.get("lastTransitionTime") else each
            for each in status["conditions"]
        ]
    return {"metadata": kept, "spec": namespace.get("spec") or {}, "status": status}
