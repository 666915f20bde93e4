"""A write as an AdmissionRequest tells of it: webhooks get it with objects and a uid, expressions have it as ``request``."""

from apimachinery.gvk import GroupVersionKind, GroupVersionResource
from controlplane.apiserver.admission.interface import Attributes, Object

_OPTIONAL = ("subResource", "requestSubResource", "name", "namespace")


def request_of(attributes: Attributes, kind: GroupVersionKind, resource: GroupVersionResource) -> Object:
    """The request without uid and objects. ``kind`` and ``resource`` are those that a rule has matched."""
    user, part = attributes.user, attributes.subresource
    who = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    request: Object = {
        "kind": _kind(kind),
        "resource": _resource(resource),
        "subResource": part,
        "requestKind": _kind(attributes.kind),
        "requestResource": _resource(attributes.gvr),
        "requestSubResource": part,
        "name": attributes.name,
        "namespace": attributes.own_namespace,
        "operation": attributes.operation,
        "userInfo": {key: value for key, value in who.items() if value},
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    return {key: value for key, value in request.items() if value or key not in _OPTIONAL}


def _kind(kind: GroupVersionKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(resource: GroupVersionResource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}
