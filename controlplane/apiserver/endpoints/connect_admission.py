"""Admission of CONNECT: exec, attach, port-forward and proxy, which send no object but say in the URL what they want.

``assembly.resources`` puts it before the endpoints of ``connect``. Plugins see the options as an object, as upstream's do.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.interface import CONNECT
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import is_true
from controlplane.apiserver.wire.reply import Answer

Endpoint = Callable[[Call], Awaitable[Answer]]
_FLAGS = ("stdin", "stdout", "stderr", "tty")
_KINDS = {
    ("pods", "exec"): "PodExecOptions",
    ("pods", "attach"): "PodAttachOptions",
    ("pods", "portforward"): "PodPortForwardOptions",
    ("pods", "proxy"): "PodProxyOptions",
    ("services", "proxy"): "ServiceProxyOptions",
    ("nodes", "proxy"): "NodeProxyOptions",
}


def admitted(scope: Scope, endpoints: Mapping[tuple[str, str], Endpoint]) -> dict[tuple[str, str], Endpoint]:
    """The endpoints of a resource by (subresource, verb), those that connect behind admission."""
    kinds = {sub: kind for (resource, sub), kind in _KINDS.items() if resource == scope.info.plural}
    return {
        (sub, verb): _admitted(scope, GroupVersionKind("", "v1", kinds[sub]), endpoint) if sub in kinds else endpoint
        for (sub, verb), endpoint in endpoints.items()
    }


def _admitted(scope: Scope, kind: GroupVersionKind, endpoint: Endpoint) -> Endpoint:
    async def run(call: Call) -> Answer:
        options = {"kind": kind.kind, "apiVersion": kind.api_version, **options_of(call, call.info.subresource)}
        attributes = scope.attributes(call, CONNECT, options, None, kind=kind)
        await scope.admission.mutate(attributes)
        await scope.admission.validate(attributes)
        return await endpoint(call)

    return run


def options_of(call: Call, subresource: str) -> dict[str, Any]:
    """What is not asked for is left out."""
    query = call.query
    if subresource == "proxy":
        return {"path": call.info.tail} if call.info.tail else {}
    if subresource == "portforward":
        ports = [int(port) for port in call.query_all("ports") if port.isdecimal()]
        return {"ports": ports} if ports else {}
    options: dict[str, Any] = {flag: True for flag in _FLAGS if is_true(query.get(flag))}
    if query.get("container"):
        options["container"] = query["container"]
    if subresource == "exec" and (command := call.query_all("command")):
        options["command"] = command
    return options
