"""Static pods, wherever their manifests come from: manifest to pod, and which pod is to run when manifests change.

``static_files`` and ``static_url`` read manifests and hand them to :class:`StaticPods`, which feeds the pod manager like the API
source does. Names, uids and annotations are upstream's: the pod is called ``<name>-<node>``, its uid is a hash, so that an edited
manifest is another pod.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apimachinery.meta import key_of, uid_of
from node.kubelet.runtime.observed import ObservedPod

SOURCE_ANNOTATION = "kubernetes.io/config.source"
HASH_ANNOTATION = "kubernetes.io/config.hash"
SEEN_ANNOTATION = "kubernetes.io/config.seen"
_STATIC_UID = re.compile("[0-9a-f]{32}")

Pod = dict[str, Any]


def is_static(pod: Mapping[str, Any]) -> bool:
    """The pod comes from this node, not from the API."""
    source = (pod["metadata"].get("annotations") or {}).get(SOURCE_ANNOTATION)
    return source is not None and source != "api"


def former(pod: Pod, observed: Mapping[str, ObservedPod]) -> list[str]:
    """Uids of static pods in the runtime that bear the name of ``pod`` and are others. Pure."""
    key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    named = [uid for uid, each in observed.items() if (each.namespace, each.name) == key and uid != uid_of(pod)]
    return [uid for uid in named if _STATIC_UID.fullmatch(uid)]


class StaticPods:
    """The pods of one source. ``update`` and ``remove`` are the pod manager's; ``running(uid)`` says that something of a removed
    pod is still there: its successor, which may want the same ports and directories, waits for its end. ``replaced(pod)`` is
    asked for the same before a pod is started for the first time: what its manifest said while no kubelet ran may run still."""

    def __init__(
        self,
        update: Callable[[Pod], object],
        remove: Callable[[str], object],
        running: Callable[[str], bool],
        replaced: Callable[[Pod], bool] = lambda pod: False,
    ) -> None:
        self._update = update
        self._remove = remove
        self._running = running
        self._replaced = replaced
        self._pods: dict[str, Pod] = {}
        self._ending: dict[str, str] = {}  # uid to key, of pods whose manifest is gone
        self._waiting: dict[str, Pod] = {}

    def take(self, found: Mapping[str, Pod]) -> None:
        """These, by uid, are the pods of the source now."""
        for uid in [uid for uid in self._pods if uid not in found]:
            self._ending[uid] = key_of(self._pods[uid])
            self._remove(uid)
        self._waiting = {uid: pod for uid, pod in found.items() if uid in self._waiting or uid not in self._pods}
        self._pods = dict(found)

    def start_waiting(self) -> bool:
        """Hand on the pods that need not wait for another's end (any more); whether none is left that must."""
        self._ending = {uid: key for uid, key in self._ending.items() if self._running(uid)}
        for uid, pod in list(self._waiting.items()):
            if key_of(pod) not in self._ending.values() and not self._replaced(pod):
                del self._waiting[uid]
                self._update(pod)
        return not self._waiting


def static_pod(manifest: Any, text: str, origin: str, node_name: str, seen: str, source: str = "file") -> Pod:
    """The pod of a decoded manifest. ``text`` and ``origin`` (a path or a URL) make its identity.

    Raises ValueError that says what is wrong with it. Pure.
    """
    if not isinstance(manifest, dict) or (manifest.get("apiVersion"), manifest.get("kind")) != ("v1", "Pod"):
        raise ValueError("not a Pod of v1")
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    if not metadata.get("name") or not spec.get("containers"):
        raise ValueError("metadata.name and spec.containers are needed")
    if spec.get("ephemeralContainers"):
        raise ValueError("a static pod may have no ephemeral containers")
    if (resource := next(references(spec), None)) is not None:
        raise ValueError(f"static pods may not reference {resource}")
    digest = hashlib.md5(f"{node_name}{origin}{text}".encode(), usedforsecurity=False).hexdigest()
    own = {SOURCE_ANNOTATION: source, HASH_ANNOTATION: digest, SEEN_ANNOTATION: seen}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": f"{metadata['name']}-{node_name}",
            "namespace": metadata.get("namespace") or "default",
            "uid": digest,
            "annotations": {**(metadata.get("annotations") or {}), **own},
        },
        "spec": {**_defaulted(spec), "nodeName": node_name},
        "status": {"phase": "Pending"},
    }


def references(spec: Mapping[str, Any]) -> Iterator[str]:
    """The kinds of API objects that a pod spec names: a static pod, which has no credentials, can have none of them."""
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        yield "serviceaccounts"
    if spec.get("imagePullSecrets"):
        yield "secrets"
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        sources = [*(container.get("envFrom") or ()), *((each.get("valueFrom") or {}) for each in container.get("env") or ())]
        yield from (_OF_VARIABLES[field] for source in sources for field in _OF_VARIABLES if source.get(field))
    for volume in spec.get("volumes") or ():
        parts = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        yield from (_OF_VOLUMES[field] for part in parts for field in _OF_VOLUMES if part.get(field) is not None)


_OF_VARIABLES = {
    "secretKeyRef": "secrets",
    "secretRef": "secrets",
    "configMapKeyRef": "configmaps",
    "configMapRef": "configmaps",
}
_OF_VOLUMES = {
    "secret": "secrets",
    "configMap": "configmaps",
    "serviceAccountToken": "serviceaccounts",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificaterequests",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims",
    "csi": "csidrivers",
    "glusterfs": "endpoints",
}


def _defaulted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The API server's defaults that matter to a kubelet; static pods never pass through it."""
    tolerations = [*(spec.get("tolerations") or ()), {"operator": "Exists", "effect": "NoExecute"}]
    made: dict[str, Any] = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **spec,
        "tolerations": tolerations,
    }
    for field in ("containers", "initContainers"):
        if spec.get(field):
            made[field] = [_defaulted_container(each, host=bool(spec.get("hostNetwork"))) for each in spec[field]]
    return made


def _defaulted_container(container: Mapping[str, Any], *, host: bool) -> dict[str, Any]:
    image = str(container.get("image") or "")
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    ports = [{"protocol": "TCP", **port} for port in container.get("ports") or ()]
    if host:
        ports = [{**port, "hostPort": port.get("hostPort") or port["containerPort"]} for port in ports]
    return {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if latest and "@" not in image else "IfNotPresent",
        "resources": {},
        **container,
        **({"ports": ports} if ports else {}),
    }
