"""Whether a server has a resource: asked before a daemon watches what an older server, or ``--runtime-config``, leaves out."""

import json

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from client.rest import Client


async def serves(client: Client, resource: GroupVersionResource) -> bool:
    """False only if the server says that it has no such resource. Raises ConnectionError."""
    path = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    try:
        listed = json.loads(await client.raw("GET", path))
    except StatusError as error:
        return error.code != 404
    return any(each.get("name") == resource.resource for each in listed.get("resources") or ())
