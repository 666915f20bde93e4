"""Whether a server has a resource: asked before a daemon watches what an older server, or ``--runtime-config``, leaves out."""

import json

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from client.rest import Client
from component import logs

_PAUSE = 0.2
_log = logs.get(__name__)


async def serves(client: Client, resource: GroupVersionResource) -> bool:
    """False only if the server says that it has no such resource. Waits for a server that does not answer yet: daemons start
    together with it."""
    path = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    complained = False
    while True:
        try:
            listed = json.loads(await client.raw("GET", path))
        except StatusError as error:
            return error.code != 404
        except ConnectionError as error:
            if not complained:
                _log.info("Waiting for the server", err=error)
                complained = True
            await client.clock.sleep(_PAUSE)
        else:
            return any(each.get("name") == resource.resource for each in listed.get("resources") or ())
