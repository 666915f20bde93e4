"""NodeRestriction: a kubelet writes its own Node, the pods bound to it, its lease, and tokens for those pods; nothing else."""

from typing import Any

from controlplane.apiserver.admission.interface import CREATE, DELETE, UPDATE, Attributes, Lookup, refuse

_PREFIX = "system:node:"
_GROUP = "system:nodes"
_LEASE_NAMESPACE = "kube-node-lease"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_FREE_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_FREE_PREFIXES = ("kubelet.kubernetes.io/", "node.kubernetes.io/")


class NodeRestriction:
    name = "NodeRestriction"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, attributes: Attributes) -> bool:
        return _GROUP in attributes.user.groups and attributes.user.name.startswith(_PREFIX)

    async def mutate(self, attributes: Attributes) -> None:
        """Changes nothing."""

    async def validate(self, attributes: Attributes) -> None:
        node = attributes.user.name.removeprefix(_PREFIX)
        if attributes.resource == "nodes":
            self._node(attributes, node)
        elif attributes.resource == "pods":
            await self._pod(attributes, node)
        elif attributes.resource == "serviceaccounts" and attributes.subresource == "token":
            await self._token(attributes, node)
        elif attributes.resource == "leases":
            self._lease(attributes, node)

    def _node(self, attributes: Attributes, node: str) -> None:
        name = attributes.name or _name(attributes.obj)
        if name != node:
            raise refuse(attributes, f'node "{node}" is not allowed to modify node "{name}"')
        if attributes.operation == UPDATE and attributes.obj is not None and not attributes.subresource:
            old = attributes.old or {}
            if (attributes.obj.get("spec") or {}).get("taints") != (old.get("spec") or {}).get("taints"):
                raise refuse(attributes, f'node "{node}" is not allowed to modify taints')
        before = _labels(attributes.old)
        changed = {key for key, value in _labels(attributes.obj).items() if before.get(key) != value}
        forbidden = sorted(key for key in changed if _restricted(key))
        if forbidden and attributes.operation in (CREATE, UPDATE):
            raise refuse(attributes, f"is not allowed to modify labels: {', '.join(forbidden)}")

    async def _pod(self, attributes: Attributes, node: str) -> None:
        if attributes.operation == CREATE and not attributes.subresource:
            assert attributes.obj is not None
            if MIRROR_ANNOTATION not in (attributes.obj["metadata"].get("annotations") or {}):
                raise refuse(
                    attributes, f"pod does not have {MIRROR_ANNOTATION!r} annotation, node {node!r} can only create mirror pods"
                )
            self._bound_here(attributes, attributes.obj, node, "create")
        elif attributes.operation == CREATE and attributes.subresource == "eviction":
            pod = await self._lookup("pods", attributes.namespace, attributes.name)
            if pod is not None:
                self._bound_here(attributes, pod, node, "evict")
        elif attributes.operation == DELETE:
            if attributes.old is not None:
                self._bound_here(attributes, attributes.old, node, "delete")
        elif attributes.operation == UPDATE:
            if attributes.subresource != "status":
                raise refuse(attributes, f"unexpected update of pod by node {node!r}")
            self._bound_here(attributes, attributes.old or {}, node, "update status of")

    def _bound_here(self, attributes: Attributes, pod: dict[str, Any], node: str, what: str) -> None:
        if ((pod.get("spec") or {}).get("nodeName") or "") != node:
            raise refuse(attributes, f'node "{node}" can only {what} pods with spec.nodeName set to itself')

    async def _token(self, attributes: Attributes, node: str) -> None:
        reference = ((attributes.obj or {}).get("spec") or {}).get("boundObjectRef") or {}
        if reference.get("kind") != "Pod" or not reference.get("name"):
            raise refuse(attributes, f'node "{node}" can only request tokens bound to a pod')
        pod = await self._lookup("pods", attributes.namespace, reference["name"])
        if pod is None or ((pod.get("spec") or {}).get("nodeName") or "") != node:
            raise refuse(attributes, f'node "{node}" requested token bound to a pod scheduled on a different node')

    def _lease(self, attributes: Attributes, node: str) -> None:
        name = attributes.name or _name(attributes.obj)
        if attributes.namespace != _LEASE_NAMESPACE:
            raise refuse(attributes, f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace')
        if name != node:
            raise refuse(attributes, f'can only access node lease with the same name as the requesting node "{node}"')


def _name(obj: dict[str, Any] | None) -> str:
    return str(((obj or {}).get("metadata") or {}).get("name") or "")


def _labels(obj: dict[str, Any] | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _restricted(key: str) -> bool:
    """Labels under kubernetes.io and k8s.io that steer scheduling are for administrators alone."""
    if key in _FREE_LABELS or key.startswith(_FREE_PREFIXES):
        return False
    prefix = key.partition("/")[0] if "/" in key else ""
    return prefix in ("kubernetes.io", "k8s.io") or prefix.endswith((".kubernetes.io", ".k8s.io"))
