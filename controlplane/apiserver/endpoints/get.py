"""GET of one object: the cached bytes, as they are."""

from controlplane.apiserver.endpoints.respond import compress, object_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply


async def get(call: Call, scope: Scope) -> Reply:
    info = call.info
    version = call.query.get("resourceVersion", "") if call.query_string else ""
    entry = await scope.store.get(info.namespace, info.name, version)
    return compress(call, scope, object_reply(call, scope, entry))
