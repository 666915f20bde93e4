"""The pod that a log or stream request is about, and which of its containers. Pure but for the look-up."""

from collections.abc import Mapping
from typing import Any

from apimachinery import errors
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.wire.call import Call

Object = Mapping[str, Any]


async def pod_of(call: Call, lookup: Lookup) -> Object:
    """Raises StatusError 404."""
    pod = await lookup("pods", call.info.namespace, call.info.name)
    if pod is None:
        raise errors.not_found("pods", call.info.name)
    return pod


def container_of(pod: Object, wanted: str) -> str:
    """The container asked for, or the only one. Raises StatusError 400, naming the choices, as upstream."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers = [item["name"] for item in spec.get("containers") or ()]
    inits = [item["name"] for item in spec.get("initContainers") or ()]
    if wanted:
        ephemeral = [item["name"] for item in spec.get("ephemeralContainers") or ()]
        if wanted not in (*containers, *inits, *ephemeral):
            raise errors.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(containers) == 1:
        return str(containers[0])
    text = f"a container name must be specified for pod {name}"
    if containers:
        text += f", choose one of: [{' '.join(containers)}]"
    if inits:
        text += f" or one of the init containers: [{' '.join(inits)}]"
    raise errors.bad_request(text)


def node_of(pod: Object) -> str:
    """Raises StatusError 400 for a pod that no scheduler has placed yet."""
    node = pod["spec"].get("nodeName")
    if not node:
        raise errors.bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    return str(node)
