"""NodeRestriction: a kubelet writes its own Node, the pods bound to it, its lease, and tokens for those pods; nothing else."""

from typing import Any

from apimachinery import errors
from controlplane.apiserver.admission.interface import CREATE, DELETE, UPDATE, Attributes, Lookup, refuse
from controlplane.apiserver.admission.node_audiences import is_named
from controlplane.apiserver.authorization.interface import Attributes as Asked
from controlplane.apiserver.authorization.interface import Authorizer, Decision
from controlplane.apiserver.authorization.node import config_maps_of, secrets_of

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
_GROWTH = frozenset({"capacity", "conditions", "allocatedResources", "allocatedResourceStatuses", "modifyVolumeStatus"})
_FREE_PREFIXES = ("kubelet.kubernetes.io/", "node.kubernetes.io/")


class NodeRestriction:
    name = "NodeRestriction"

    def __init__(self, lookup: Lookup, authorizer: Authorizer | None = None, *, audiences: bool = True) -> None:
        """``audiences``: the gate ServiceAccountNodeAudienceRestriction; ``authorizer`` may allow more of them than pods name."""
        self._lookup, self._authorizer, self._audiences = lookup, authorizer, audiences

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
        elif attributes.resource == "podcertificaterequests":
            await self._certificate(attributes, node)
        elif attributes.resource == "leases":
            self._lease(attributes, node)
        elif attributes.resource == "csinodes":
            self._csi_node(attributes, node)
        elif attributes.resource == "persistentvolumeclaims":
            self._claim(attributes, node)
        elif attributes.resource == "resourceslices":
            self._slice(attributes, node)

    def _csi_node(self, attributes: Attributes, node: str) -> None:
        if (attributes.name or _name(attributes.obj)) != node:
            raise refuse(attributes, f'can only access CSINode with the same name as the requesting node "{node}"')

    def _slice(self, attributes: Attributes, node: str) -> None:
        """Devices of its own; whose a slice is cannot change, and by the authorizer it deletes no other's."""
        if attributes.operation == CREATE and ((attributes.obj or {}).get("spec") or {}).get("nodeName") != node:
            raise refuse(attributes, "can only create ResourceSlice with the same NodeName as the requesting node")

    def _claim(self, attributes: Attributes, node: str) -> None:
        """A kubelet tells how far a volume has grown, and nothing else about a claim."""
        if attributes.subresource != "status" or attributes.operation != UPDATE:
            raise refuse(attributes, f'unexpected operation "{attributes.operation}", node "{node}" can only update PVC status')
        if _without_growth(attributes.obj) != _without_growth(attributes.old):
            raise refuse(
                attributes, f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'
            )

    def _node(self, attributes: Attributes, node: str) -> None:
        name = attributes.name or _name(attributes.obj)
        if name != node:
            raise refuse(attributes, f'node "{node}" is not allowed to modify node "{name}"')
        if attributes.operation == UPDATE and attributes.obj is not None and not attributes.subresource:
            old = attributes.old or {}
            source = (attributes.obj.get("spec") or {}).get("configSource")
            if source is not None and source != (old.get("spec") or {}).get("configSource"):
                raise refuse(attributes, f'node "{node}" is not allowed to update configSource to a new non-nil value')
            if (attributes.obj.get("spec") or {}).get("taints") != (old.get("spec") or {}).get("taints"):
                raise refuse(attributes, f'node "{node}" is not allowed to modify taints')
        if attributes.operation == UPDATE and _owners(attributes.obj) != _owners(attributes.old):
            # the garbage collector would delete the node, which it may not do itself
            raise refuse(attributes, f'node "{node}" is not allowed to modify ownerReferences')
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
            await self._mirror(attributes, attributes.obj, node)
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
            if _labels(attributes.obj) != _labels(attributes.old):  # by labels a pod would join Services and budgets
                raise refuse(attributes, f'node "{node}" cannot update labels through pod status')
            if _claims_told(attributes.obj) != _claims_told(attributes.old):  # by them a node would read claims of others
                raise refuse(attributes, f'node "{node}" cannot update resource claim statuses')

    async def _mirror(self, attributes: Attributes, pod: dict[str, Any], node: str) -> None:
        """A mirror pod belongs to its node, and names nothing that the node could then read because a pod of its uses it."""
        owners = pod["metadata"].get("ownerReferences") or []
        problem = ""
        if len(owners) > 1:
            problem = "with a single owner reference set to itself"
        elif not owners or (owners[0].get("apiVersion"), owners[0].get("kind"), owners[0].get("name")) != ("v1", "Node", node):
            problem = "with an owner reference set to itself"
        elif not owners[0].get("controller"):
            problem = "with a controller owner reference set to itself"
        if problem:
            raise refuse(attributes, f'node "{node}" can only create pods {problem}')
        if owners[0].get("blockOwnerDeletion"):
            raise refuse(attributes, f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        held = await self._lookup("nodes", "", node)
        if held is None:
            raise errors.not_found("nodes", node)
        if owners[0].get("uid") != held["metadata"].get("uid"):
            expected, got = held["metadata"].get("uid"), owners[0].get("uid")
            raise refuse(attributes, f"node {node} UID mismatch: expected {expected} got {got}")
        named = references(pod)
        if named:
            raise refuse(attributes, f'node "{node}" can not create pods that reference {named}')

    def _bound_here(self, attributes: Attributes, pod: dict[str, Any], node: str, what: str) -> None:
        if ((pod.get("spec") or {}).get("nodeName") or "") != node:
            raise refuse(attributes, f'node "{node}" can only {what} pods with spec.nodeName set to itself')

    async def _token(self, attributes: Attributes, node: str) -> None:
        reference = ((attributes.obj or {}).get("spec") or {}).get("boundObjectRef") or {}
        if reference.get("kind") != "Pod" or not reference.get("name"):
            raise refuse(attributes, f'node "{node}" can only request tokens bound to a pod')
        if not reference.get("uid"):
            raise refuse(attributes, f'node "{node}" requested token with a pod binding without a uid')
        pod = await self._lookup("pods", attributes.namespace, reference["name"])
        if pod is None or ((pod.get("spec") or {}).get("nodeName") or "") != node:
            raise refuse(attributes, f'node "{node}" requested token bound to a pod scheduled on a different node')
        if self._audiences:
            await self._audience(attributes, pod)

    async def _audience(self, attributes: Attributes, pod: dict[str, Any]) -> None:
        """A token for somebody else is made only for a pod that hands it to them, or by an administrator's leave."""
        asked = ((attributes.obj or {}).get("spec") or {}).get("audiences") or [""]
        if len(asked) > 1:
            raise refuse(attributes, "node may only request 0 or 1 audiences")
        if await is_named(pod, asked[0], self._lookup):
            return
        user = attributes.user
        verb = "request-serviceaccounts-token-audience"
        question = Asked(user, verb, "", True, "", "v1", asked[0], "", attributes.namespace, attributes.name)
        if self._authorizer is None or (await self._authorizer.authorize(question))[0] is not Decision.ALLOW:
            missing = f'audience "{asked[0]}" not found in pod spec volume'
            raise refuse(attributes, f"{missing}, {user.name} is not authorized to request tokens for this audience")

    async def _certificate(self, attributes: Attributes, node: str) -> None:
        """A request is for a pod that runs here, as the account that it runs as, and says so truly: signers rely on it."""
        if attributes.operation != CREATE or attributes.subresource:
            raise refuse(attributes, f'node "{node}" can only create PodCertificateRequests')
        spec = (attributes.obj or {}).get("spec") or {}
        if spec.get("nodeName") != node:
            raise refuse(
                attributes, f'PodCertificateRequest.Spec.NodeName="{spec.get("nodeName")}", which is not the requesting node'
            )
        pod = await self._lookup("pods", attributes.namespace, spec.get("podName") or "")
        if pod is None:
            raise refuse(attributes, f'PodCertificateRequest for pod "{spec.get("podName")}" that does not exist')
        running = pod.get("spec") or {}
        if (pod["metadata"].get("uid"), running.get("nodeName") or "") != (spec.get("podUID"), node):
            raise refuse(attributes, f'PodCertificateRequest for pod "{spec.get("podName")}" of another node or uid')
        if MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or {}):
            raise refuse(attributes, "PodCertificateRequest for a mirror pod")
        if (running.get("serviceAccountName") or "default") != spec.get("serviceAccountName"):
            raise refuse(attributes, "PodCertificateRequest for a service account that the pod does not run as")
        account = await self._lookup("serviceaccounts", attributes.namespace, spec["serviceAccountName"])
        held = await self._lookup("nodes", "", node)
        for what, found, said in (("service account", account, "serviceAccountUID"), ("node", held, "nodeUID")):
            if found is None or found["metadata"].get("uid") != spec.get(said):
                raise refuse(attributes, f"PodCertificateRequest with the uid of another {what}")

    def _lease(self, attributes: Attributes, node: str) -> None:
        name = attributes.name or _name(attributes.obj)
        if attributes.namespace != _LEASE_NAMESPACE:
            raise refuse(attributes, f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace')
        if name != node:
            raise refuse(attributes, f'can only access node lease with the same name as the requesting node "{node}"')


def _name(obj: dict[str, Any] | None) -> str:
    return str(((obj or {}).get("metadata") or {}).get("name") or "")


def _without_growth(claim: dict[str, Any] | None) -> dict[str, Any]:
    """Of a claim what its node may not change; who wrote what, and in which version, follows from the rest."""
    claim = claim or {}
    metadata = {key: value for key, value in claim["metadata"].items() if key not in ("managedFields", "resourceVersion")}
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in _GROWTH}
    return {"metadata": metadata, "spec": claim.get("spec"), "status": status}


def _labels(obj: dict[str, Any] | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _claims_told(pod: dict[str, Any] | None) -> tuple[Any, Any]:
    status = (pod or {}).get("status") or {}
    return status.get("resourceClaimStatuses") or [], status.get("extendedResourceClaimStatus") or {}


def _owners(obj: dict[str, Any] | None) -> list[Any]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []


def references(pod: dict[str, Any]) -> str:
    """The first kind of other API objects that a pod's spec refers to, as upstream names it; empty when there is none."""
    spec = pod.get("spec") or {}
    volumes = spec.get("volumes") or []
    sources = [source for volume in volumes for source in (volume.get("projected") or {}).get("sources") or []]
    if spec.get("serviceAccountName"):
        return "a service account"
    if secrets_of(pod):
        return "secrets"
    if config_maps_of(pod):
        return "configmaps"
    if any(source.get("clusterTrustBundle") for source in sources):
        return "clustertrustbundles"
    if any(source.get("serviceAccountToken") or source.get("podCertificate") for source in sources):
        return "a service account"
    if any(volume.get("persistentVolumeClaim") for volume in volumes):
        return "persistentvolumeclaims"
    return "resourceclaims" if spec.get("resourceClaims") else ""


def _restricted(key: str) -> bool:
    """Labels under kubernetes.io and k8s.io that steer scheduling are for administrators alone."""
    if key in _FREE_LABELS or key.startswith(_FREE_PREFIXES):
        return False
    prefix = key.partition("/")[0] if "/" in key else ""
    return prefix in ("kubernetes.io", "k8s.io") or prefix.endswith((".kubernetes.io", ".k8s.io"))
