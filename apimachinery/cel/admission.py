"""The types of what expressions of admission see beside the objects: the request, and the namespace it is about.

Used by the API server, which judges writes, and by the controller that checks the types of policies. Upstream:
``plugin/cel/compile.go`` (``BuildRequestType``, ``BuildNamespaceType``), whose hand-made types these are, the name of the field
``UID`` included.
"""

from apimachinery.cel.shapes import ANY, BOOL, INT, STRING, TIMESTAMP, list_of, map_of, object_of

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
NAMESPACE_METADATA = object_of(
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
        "metadata": NAMESPACE_METADATA,
        "spec": object_of("NamespaceSpec", {"finalizers": _TEXTS}),
        "status": object_of("NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": STRING}),
    },
)
