"""Writes that are lost only to changes that matter: a status while the spec moves, a spec while the status moves.

A controller that replaces a whole object loses the race against everybody who touched it since its cache did, though they
touched another half. These patch the half that is the controller's own; ``freshness`` sees to it that the cache has shown
the controller's own last write before it decides on the next.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery import errors
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, generation, name_of, namespace_of, uid_of
from client.rest import JSON, Client

Operations = list[dict[str, Any]]


async def write_status(client: Client, resource: GroupVersionResource, held: Object, status: Mapping[str, Any]) -> Object:
    """Make ``status`` the status of the object, whatever its spec is by now. Only for whom nobody else writes status.

    Raises a 409 when another object has its name by now.
    """
    gone = dict.fromkeys((held.get("status") or {}).keys() - status.keys())
    body = {"metadata": {"uid": uid_of(held)}, "status": {**gone, **status}}
    try:
        return await client.patch(resource, name_of(held), body, namespace=namespace_of(held) or None, subresource="status")
    except StatusError as error:
        if not errors.is_another(error):
            raise
        raise errors.conflict(resource.resource, name_of(held), errors.OPTIMISTIC_LOCK, resource.group) from error


async def write_spec(client: Client, resource: GroupVersionResource, held: Object, changed: Object) -> Object:
    """Carry over what ``changed`` has other than ``held`` in spec and annotations, if the spec is still that of ``held``.

    Raises a 409 when it is not.
    """
    operations: Operations = [
        {"op": "test", "path": "/metadata/uid", "value": uid_of(held)},
        {"op": "test", "path": "/metadata/generation", "value": generation(held)},
        *_annotations(held, changed),
        *_members("/spec", held["spec"], changed["spec"]),
    ]
    try:
        return await client.patch(resource, name_of(held), operations, JSON, namespace=namespace_of(held) or None)
    except StatusError as error:
        if error.code != 422 or error.status.get("details"):
            raise
        raise errors.conflict(resource.resource, name_of(held), errors.OPTIMISTIC_LOCK, resource.group) from error


def _annotations(held: Object, changed: Object) -> Operations:
    before, after = (obj["metadata"].get("annotations") for obj in (held, changed))
    if not before:
        return [{"op": "add", "path": "/metadata/annotations", "value": after}] if after else []
    return _members("/metadata/annotations", before, after or {})


def _members(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Operations:
    added = [
        {"op": "add", "path": f"{path}/{_escaped(name)}", "value": value}
        for name, value in after.items()
        if name not in before or before[name] != value
    ]
    return added + [{"op": "remove", "path": f"{path}/{_escaped(name)}"} for name in before if name not in after]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
