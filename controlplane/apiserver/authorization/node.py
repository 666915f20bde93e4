"""The Node authorizer: a kubelet may do what it must for the pods that are bound to it, and little else.

Secrets, config maps, claims, volumes and accounts are granted object by object, by following what the node's own pods refer to;
leases and CSINodes by name; pods and nodes by the node's own. The rest is alike for all nodes: the rules handed in, which are
``bootstrap_policy.NODE``. Upstream's ``plugin/pkg/auth/authorizer/node``, its reasons included.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from apimachinery import fields
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.rules import Rule, allowed_by

Object = dict[str, Any]
PodsOn = Callable[[str], Awaitable[Sequence[Object]]]
"""``await pods_on(node)``: the pods bound to it."""
Lookup = Callable[[str, str, str], Awaitable[Object | None]]
"""``await lookup("secrets", namespace, name)``: the object, or None when there is none."""
Verdict = tuple[Decision, str]

_PREFIX, _GROUP = "system:node:", "system:nodes"
_READS = frozenset({"get", "list", "watch"})
_OWN = frozenset({"get", "create", "update", "patch", "delete"})
_LEASES = "kube-node-lease"
_ALLOW: Verdict = (Decision.ALLOW, "")


def no_opinion(reason: str) -> Verdict:
    return Decision.NO_OPINION, reason


def node_of(user: UserInfo) -> str | None:
    """The node a user is; empty for one that cannot be told, None for users that are no nodes."""
    if _GROUP not in user.groups:
        return None
    return user.name.removeprefix(_PREFIX) if user.name.startswith(_PREFIX) else ""


class NodeAuthorizer:
    def __init__(self, pods_on: PodsOn, lookup: Lookup, rules: Sequence[Rule]) -> None:
        self._pods_on, self._lookup, self._rules = pods_on, lookup, tuple(rules)
        self._special: dict[tuple[str, str], Callable[[str, Attributes], Awaitable[Verdict]]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("", "serviceaccounts"): self._account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("certificates.k8s.io", "podcertificaterequests"): self._certificate,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("coordination.k8s.io", "leases"): self._lease,
        }

    def unlisted(self, user: UserInfo) -> str:
        """What a node may depends on its pods: no list of rules says it."""
        return "node authorizer does not support user rule resolution" if node_of(user) else ""

    async def authorize(self, attributes: Attributes) -> Verdict:
        node = node_of(attributes.user)
        if node is None:
            return no_opinion("")
        if not node:
            return no_opinion(f'unknown node for user "{attributes.user.name}"')
        if attributes.is_resource:
            judge = self._special.get((attributes.api_group, attributes.resource))
            if judge is not None:
                return await judge(node, attributes)
        return _ALLOW if allowed_by(self._rules, attributes) else no_opinion("")

    async def _read(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb not in _READS:
            return no_opinion("can only read resources of this type")
        if asked.subresource:
            return no_opinion("cannot read subresource")
        if not asked.namespace:
            return no_opinion("can only read namespaced object of this type")
        return await self._related(node, asked)

    async def _get(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb != "get":
            return no_opinion("can only get individual resources of this type")
        if asked.subresource:
            return no_opinion("cannot get subresource")
        return await self._related(node, asked)

    async def _claim(self, node: str, asked: Attributes) -> Verdict:
        if asked.subresource != "status":
            return await self._get(node, asked)
        if asked.verb not in ("update", "patch"):
            return no_opinion("can only get/update/patch this type")
        return await self._related(node, asked)

    async def _account(self, node: str, asked: Attributes) -> Verdict:
        if not asked.subresource:
            return await self._get(node, asked)
        if asked.verb != "create" or not asked.name:
            return no_opinion("can only create tokens for individual service accounts")
        if asked.subresource != "token":
            return no_opinion("can only create token subresource of serviceaccount")
        return await self._related(node, asked)

    async def _lease(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb not in _OWN:
            return no_opinion("can only get, create, update, patch, or delete a node lease")
        if asked.namespace != _LEASES:
            return no_opinion(f'can only access leases in the "{_LEASES}" system namespace')
        if asked.verb != "create" and asked.name != node:  # the name of a new one is NodeRestriction's to see
            return no_opinion("can only access node lease with the same name as the requesting node")
        return _ALLOW

    async def _csi_node(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb not in _OWN:
            return no_opinion("can only get, create, update, patch, or delete a CSINode")
        if asked.subresource:
            return no_opinion("cannot authorize CSINode subresources")
        if asked.verb != "create" and asked.name != node:
            return no_opinion("can only access CSINode with the same name as the requesting node")
        return _ALLOW

    async def _certificate(self, node: str, asked: Attributes) -> Verdict:
        """A kubelet asks for certificates of its pods: for which ones, NodeRestriction sees."""
        if asked.subresource:
            return no_opinion(f"nodes may not access the {asked.subresource} subresource of podcertificaterequests")
        if asked.verb == "create":
            return _ALLOW
        if asked.verb == "get":
            return await self._related(node, asked)
        if asked.verb in ("list", "watch") and _selects(asked.field_selector, "spec.nodeName", node):
            return _ALLOW
        return no_opinion("can only create, get, and list/watch podcertificaterequests with a spec.nodeName field selector")

    async def _slice(self, node: str, asked: Attributes) -> Verdict:
        if asked.subresource:
            return no_opinion("cannot authorize ResourceSlice subresources")
        if asked.verb == "create":
            return _ALLOW
        if asked.verb in ("get", "update", "patch", "delete"):
            return await self._related(node, asked)
        if asked.verb in ("watch", "list", "deletecollection"):
            if _selects(asked.field_selector, "spec.nodeName", node) or _selects(asked.field_selector, "nodeName", node):
                return _ALLOW
            return no_opinion("can only list/watch/deletecollection resourceslices with nodeName field selector")
        verbs = "get, watch, list, create, update, patch, delete, deletecollection"
        return no_opinion(f"only the following verbs are allowed for a ResourceSlice: {verbs}")

    async def _node(self, node: str, asked: Attributes) -> Verdict:
        if asked.subresource == "status" and asked.verb in ("update", "patch"):
            return _ALLOW
        if asked.subresource:
            return no_opinion("")
        if asked.verb in ("create", "update", "patch"):
            return _ALLOW
        if asked.verb not in _READS:
            return no_opinion("")
        if asked.name == node:
            return _ALLOW
        what = f"'{asked.name}'" if asked.name else "all nodes"
        return no_opinion(f"node '{node}' cannot read {what}, only its own Node object")

    async def _pod(self, node: str, asked: Attributes) -> Verdict:
        if asked.subresource == "status":
            return _ALLOW if asked.verb in ("update", "patch") else no_opinion("")
        if asked.subresource == "eviction":
            return _ALLOW if asked.verb == "create" else no_opinion("")
        if asked.subresource:
            return no_opinion("")
        if asked.verb == "get":
            return await self._get(node, asked)
        if asked.verb in ("list", "watch"):
            if _selects(asked.field_selector, "spec.nodeName", node):
                return _ALLOW
            if asked.name:
                return await self._related(node, asked)
            return no_opinion("can only list/watch pods with spec.nodeName field selector")
        return _ALLOW if asked.verb in ("create", "delete") else no_opinion("")

    async def _related(self, node: str, asked: Attributes) -> Verdict:
        if not asked.name:
            return no_opinion("No Object name found")
        if await self._uses(node, asked):
            return _ALLOW
        return no_opinion(f"no relationship found between node '{node}' and this object")

    async def _uses(self, node: str, asked: Attributes) -> bool:
        """Whether the object is the node's own, or one of its pods leads to it."""
        if asked.resource == "podcertificaterequests":
            found = await self._lookup("podcertificaterequests.certificates.k8s.io", asked.namespace, asked.name) or {}
            return bool((found.get("spec") or {}).get("nodeName") == node)
        if asked.resource == "volumeattachments":
            found = await self._lookup("volumeattachments.storage.k8s.io", "", asked.name) or {}
            return bool((found.get("spec") or {}).get("nodeName") == node)
        if asked.resource == "resourceslices":
            found = await self._lookup("resourceslices.resource.k8s.io", "", asked.name) or {}
            return bool((found.get("spec") or {}).get("nodeName") == node)
        namespace, name = asked.namespace, asked.name
        if asked.resource == "persistentvolumes":
            volume = await self._lookup("persistentvolumes", "", name) or {}
            claim = (volume.get("spec") or {}).get("claimRef") or {}
            return bool(claim) and await self._has_claim(node, claim.get("namespace", ""), claim.get("name", ""), name)
        if asked.resource == "pods":
            pod = await self._lookup("pods", namespace, name) or {}
            return bool((pod.get("spec") or {}).get("nodeName") == node)
        mine = await self._pods_on(node)
        here = [pod for pod in mine if pod["metadata"].get("namespace") == namespace]
        if asked.resource == "serviceaccounts":
            return any(_account_of(pod) == name for pod in here)
        find = _FINDERS[asked.resource]
        if any(name in find(pod) for pod in here):
            return True
        return asked.resource == "secrets" and await self._by_volume(mine, namespace, name)

    async def _has_claim(self, node: str, namespace: str, name: str, volume: str) -> bool:
        """A pod of the node uses the claim, and the claim agrees that it is bound to the volume."""
        for pod in await self._pods_on(node):
            if pod["metadata"].get("namespace") == namespace and name in claims_of(pod):
                claim = await self._lookup("persistentvolumeclaims", namespace, name) or {}
                return bool((claim.get("spec") or {}).get("volumeName") == volume)
        return False

    async def _by_volume(self, pods: Sequence[Object], namespace: str, secret: str) -> bool:
        """Whether a volume that one of the pods claims names the secret. The volume must agree that it is theirs: a claim says
        what its author likes."""
        for pod in pods:
            home = pod["metadata"].get("namespace", "")
            for claim_name in claims_of(pod):
                claim = await self._lookup("persistentvolumeclaims", home, claim_name) or {}
                volume = await self._lookup("persistentvolumes", "", (claim.get("spec") or {}).get("volumeName") or "") or {}
                holder = (volume.get("spec") or {}).get("claimRef") or {}
                mutual = (holder.get("namespace"), holder.get("name")) == (home, claim_name)
                if mutual and (namespace, secret) in volume_secrets(volume, home):
                    return True
        return False


def _selects(selector: str, field: str, value: str) -> bool:
    """Whether a field selector demands that ``field`` is ``value``."""
    if not selector:
        return False
    try:
        return (field, value) in fields.parse(selector).equals()
    except ValueError:
        return False


def _account_of(pod: Object) -> str:
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


def claims_of(pod: Object) -> set[str]:
    """Names of the claims that a pod mounts; a generic ephemeral volume's claim is named after pod and volume."""
    found = set()
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            found.add(volume["persistentVolumeClaim"].get("claimName", ""))
        elif volume.get("ephemeral"):
            found.add(f"{pod['metadata'].get('name', '')}-{volume.get('name', '')}")
    return found - {""}


def resource_claims_of(pod: Object) -> set[str]:
    """Names of the resource claims of a pod: given, or made for it and noted in its status, which no node may change."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    given = {one.get("resourceClaimName", "") for one in spec.get("resourceClaims") or []}
    made = {one.get("resourceClaimName", "") for one in status.get("resourceClaimStatuses") or []}
    made.add((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName", ""))
    return (given | made) - {"", None}


def volume_secrets(volume: Object, namespace: str) -> set[tuple[str, str]]:
    """Namespace and name of the secrets that a volume refers to; without a namespace of its own it is the claim's."""
    found: set[tuple[str, str]] = set()
    for source in (volume.get("spec") or {}).values():
        if not isinstance(source, dict):
            continue
        for key in ("secretRef", "nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"):
            reference = source.get(key)
            if reference and reference.get("name"):
                found.add((reference.get("namespace") or namespace, reference["name"]))
        if source.get("secretName"):
            found.add((source.get("secretNamespace") or namespace, source["secretName"]))
    return found


_FINDERS: dict[str, Callable[[Object], set[str]]] = {
    "secrets": secrets_of,
    "configmaps": config_maps_of,
    "persistentvolumeclaims": claims_of,
    "resourceclaims": resource_claims_of,
}
