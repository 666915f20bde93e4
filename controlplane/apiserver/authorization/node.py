"""The Node authorizer: a kubelet reads the secrets and config maps that its own pods use, and asks tokens for their accounts.

What every kubelet may do alike is in ``components.NODE``; this adds what depends on the pods that are bound to it.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from controlplane.apiserver.authorization.interface import Attributes, Decision

Object = dict[str, Any]
PodsOn = Callable[[str], Awaitable[Sequence[Object]]]
"""``await pods_on(node)``: the pods bound to it."""

_PREFIX, _GROUP = "system:node:", "system:nodes"
_READS = frozenset({"get", "list", "watch"})


class NodeAuthorizer:
    def __init__(self, pods_on: PodsOn) -> None:
        self._pods_on = pods_on

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        user = attributes.user
        if not attributes.is_resource or attributes.api_group or _GROUP not in user.groups or not user.name.startswith(_PREFIX):
            return Decision.NO_OPINION, ""
        node = user.name.removeprefix(_PREFIX)
        if attributes.resource in ("secrets", "configmaps") and not attributes.subresource and attributes.verb in _READS:
            if not attributes.name or not attributes.namespace:
                return Decision.NO_OPINION, "node: can only read resources of this type by name"
            if await self._uses(node, attributes):
                return Decision.ALLOW, ""
            kind = attributes.resource
            return Decision.NO_OPINION, f"no relationship found between node {node!r} and this object in {kind}"
        if (attributes.resource, attributes.subresource, attributes.verb) == ("serviceaccounts", "token", "create"):
            for pod in await self._pods_on(node):
                if pod["metadata"].get("namespace") == attributes.namespace and _account(pod) == attributes.name:
                    return Decision.ALLOW, ""
            return Decision.NO_OPINION, f"no relationship found between node {node!r} and this object"
        return Decision.NO_OPINION, ""

    async def _uses(self, node: str, attributes: Attributes) -> bool:
        find = secrets_of if attributes.resource == "secrets" else config_maps_of
        for pod in await self._pods_on(node):
            if pod["metadata"].get("namespace") == attributes.namespace and attributes.name in find(pod):
                return True
        return False


def _account(pod: Object) -> str:
    return (pod.get("spec") or {}).get("serviceAccountName") or "default"


def _containers(spec: Object) -> Iterator[Object]:
    for group in ("containers", "initContainers", "ephemeralContainers"):
        yield from spec.get(group) or []


def secrets_of(pod: Object) -> set[str]:
    """Names of the secrets that a pod's spec refers to."""
    spec = pod.get("spec") or {}
    found = {one.get("name", "") for one in spec.get("imagePullSecrets") or []}
    for container in _containers(spec):
        found |= {((one.get("valueFrom") or {}).get("secretKeyRef") or {}).get("name", "") for one in container.get("env") or []}
        found |= {(one.get("secretRef") or {}).get("name", "") for one in container.get("envFrom") or []}
    for volume in spec.get("volumes") or []:
        found.add((volume.get("secret") or {}).get("secretName", ""))
        for source in (volume.get("projected") or {}).get("sources") or []:
            found.add((source.get("secret") or {}).get("name", ""))
        for driver in volume.values():  # volume drivers name their secret in one of these two ways
            if isinstance(driver, dict):
                found.add((driver.get("secretRef") or {}).get("name", ""))
                found.add((driver.get("nodePublishSecretRef") or {}).get("name", ""))
    return found - {""}


def config_maps_of(pod: Object) -> set[str]:
    """Names of the config maps that a pod's spec refers to."""
    spec = pod.get("spec") or {}
    found: set[str] = set()
    for container in _containers(spec):
        found |= {
            ((one.get("valueFrom") or {}).get("configMapKeyRef") or {}).get("name", "") for one in container.get("env") or []
        }
        found |= {(one.get("configMapRef") or {}).get("name", "") for one in container.get("envFrom") or []}
    for volume in spec.get("volumes") or []:
        found.add((volume.get("configMap") or {}).get("name", ""))
        for source in (volume.get("projected") or {}).get("sources") or []:
            found.add((source.get("configMap") or {}).get("name", ""))
    return found - {""}
