"""What expressions of admission see: the types of their variables for the checker, and the values of one request. Pure.

Called by ``expressions`` (types) and by whoever evaluates: policies, and webhooks for their match conditions.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery.cel import shapes
from apimachinery.cel.library import authz
from apimachinery.cel.shapes import ANY, BOOL, INT, STRING, TIMESTAMP, list_of, map_of, object_of
from apimachinery.cel.values import moment
from controlplane.apiserver.admission.interface import Attributes, Object
from controlplane.apiserver.admission.request import request_of as request_of

_TEXTS, _LABELS = list_of(STRING), map_of(STRING)
_KIND = object_of("GroupVersionKind", {"group": STRING, "version": STRING, "kind": STRING})
_RESOURCE = object_of("GroupVersionResource", {"group": STRING, "version": STRING, "resource": STRING})
_USER = object_of("UserInfo", {"username": STRING, "uid": STRING, "groups": _TEXTS, "extra": map_of(_TEXTS)})
REQUEST = object_of(
    "AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": ANY,
    },
)
_METADATA = object_of(
    "NamespaceMetadata",
    {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": _LABELS,
        "annotations": _LABELS,
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _TEXTS,
    },
)
_CONDITION = object_of(
    "NamespaceCondition",
    {"status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING, "reason": STRING},
)
NAMESPACE = object_of(
    "Namespace",
    {
        "metadata": _METADATA,
        "spec": object_of("NamespaceSpec", {"finalizers": _TEXTS}),
        "status": object_of("NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": STRING}),
    },
)
"""Upstream's hand-made types, the name of the field ``UID`` included."""
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
    fields = _METADATA.fields
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
