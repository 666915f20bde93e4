"""local_path: makes a volume in a directory of the node that a pod was given, and takes it away when its claim is gone.

The provisioner behind the StorageClass ``local-path``, which is made here unless it exists. The directories themselves are
the kubelets' (``node.kubelet.volumes.local_path``); how the two speak is in ``apimachinery.objects.local_path``.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath

from apimachinery import errors
from apimachinery.meta import (
    Object,
    annotations_of,
    clone,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    remove_annotation,
    remove_finalizer,
    uid_of,
)
from apimachinery.objects import local_path, volumes
from apimachinery.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from controlplane.controllers.controller import Environment, Loop

CLASS_NAME = "local-path"
FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
_CLAIM, _VOLUME, _NODE = "claim:", "volume:", "node:"
_NAME_MAX = 255
_BY_NODE = "local-path-node"
_HOSTNAME = "kubernetes.io/hostname"
_MODES = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


class ProvisionError(Exception):
    """The claim cannot be served as it is."""


class LocalPathProvisioner:
    name = "local-path-provisioner"

    def __init__(self, env: Environment, root: PurePosixPath, workers: int = 4) -> None:
        self._client, self._root = env.client, root
        self._recorder = env.recorders(local_path.PROVISIONER)
        self._claims, self._volumes = env.watch(PERSISTENT_VOLUME_CLAIMS), env.watch(PERSISTENT_VOLUMES)
        self._classes, self._nodes = env.watch(STORAGE_CLASSES), env.watch(NODES)
        self._volumes.add_index(_BY_NODE, _node_labels)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._claims.add_handler(on_add=self._claim_seen, on_update=lambda old, new: self._claim_seen(new))
        seen = self._volume_seen
        self._volumes.add_handler(on_add=seen, on_update=lambda old, new: seen(new), on_delete=seen)
        self._nodes.add_handler(on_add=self._look_at_volumes, on_update=self._node_seen, on_delete=self._look_at_volumes)

    def _claim_seen(self, claim: Object) -> None:
        if annotations_of(claim).get(volumes.PROVISIONER) == local_path.PROVISIONER and not volumes.volume_of(claim):
            self._loop.add(_CLAIM + key_of(claim))

    def _volume_seen(self, volume: Object) -> None:
        if local_path.is_ours(volume):
            self._loop.add(_VOLUME + name_of(volume))
            if (node := self._node_of(volume)) is not None:
                self._loop.add(_NODE + name_of(node))

    def _node_seen(self, old: Object, new: Object) -> None:
        """What the kubelet has deleted, and what somebody did to our list."""
        if any(local_path.listed(old, key) != local_path.listed(new, key) for key in (local_path.DELETE, local_path.DELETED)):
            self._look_at_volumes(new)

    def _look_at_volumes(self, node: Object) -> None:
        self._loop.add(_NODE + name_of(node))
        for volume in self._volumes.lister.by_index(_BY_NODE, local_path.node_label(name_of(node))):
            self._loop.add(_VOLUME + name_of(volume))

    async def run(self) -> None:
        if self._classes.lister.get(CLASS_NAME) is None:
            try:
                await self._client.create(STORAGE_CLASSES, storage_class())
            except errors.StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        if key.startswith(_CLAIM):
            claim = self._claims.lister.get_key(key.removeprefix(_CLAIM))
            if claim is not None and not is_deleting(claim) and not volumes.volume_of(claim):
                await self._provision(claim)
            return None
        if key.startswith(_NODE):
            node = self._nodes.lister.get(key.removeprefix(_NODE))
            if node is not None:
                await self._ask(node)
            return None
        volume = self._volumes.lister.get_key(key.removeprefix(_VOLUME))
        if volume is not None:
            await self._release(volume)
        return None

    async def _provision(self, claim: Object) -> None:
        kind = self._classes.lister.get(volumes.class_of(claim))
        chosen = annotations_of(claim).get(volumes.SELECTED_NODE)
        if kind is None or kind.get("provisioner") != local_path.PROVISIONER or (volumes.waits_for_pod(kind) and not chosen):
            return
        wanted = volume_name(claim)
        if self._volumes.lister.get(wanted) is not None:
            return
        node = self._nodes.lister.get(chosen) if chosen else None
        if chosen and node is None:
            changed = clone(claim)  # let the scheduler choose again
            remove_annotation(changed, volumes.SELECTED_NODE)
            await self._client.update(PERSISTENT_VOLUME_CLAIMS, changed)
            return
        self._tell(claim, "Normal", "Provisioning", f'External provisioner is provisioning volume for claim "{key_of(claim)}"')
        try:
            made = volume_for(claim, kind, node, self._root)
            await self._client.create(PERSISTENT_VOLUMES, made)
        except errors.StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        except ProvisionError as error:
            text = f'failed to provision volume with StorageClass "{name_of(kind)}": {error}'
            self._tell(claim, "Warning", "ProvisioningFailed", text)
            return
        self._tell(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {wanted}")

    async def _ask(self, node: Object) -> None:
        """Have the node's kubelet delete the directories of volumes that nobody may want any more."""
        mine = self._volumes.lister.by_index(_BY_NODE, local_path.node_label(name_of(node)))
        wanted = {local_path.directory(volume) for volume in mine if local_path.is_ours(volume) and is_over(volume)}
        if wanted != local_path.listed(node, local_path.DELETE):
            body = {"metadata": {"annotations": {local_path.DELETE: local_path.joined(wanted)}}}
            await self._client.patch(NODES, name_of(node), body)

    async def _release(self, volume: Object) -> None:
        """Let a volume go once its directory is gone, or if that stays, or if its node is no more."""
        if volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete":
            if is_deleting(volume):
                await self._let_go(volume)  # what is retained stays on the disk
            return
        node = self._node_of(volume)
        if not is_over(volume) or (node is not None and not _is_deleted(volume, node)):
            return  # the node's annotation will wake us
        if not is_deleting(volume):
            await self._client.delete(PERSISTENT_VOLUMES, name_of(volume), preconditions={"uid": uid_of(volume)})
            return
        await self._let_go(volume)

    def _node_of(self, volume: Object) -> Object | None:
        label = labels_of(volume).get(local_path.NODE_LABEL)
        return next((node for node in self._nodes.lister.list() if local_path.node_label(name_of(node)) == label), None)

    async def _let_go(self, volume: Object) -> None:
        changed = clone(volume)
        if remove_finalizer(changed, FINALIZER):
            await self._client.update(PERSISTENT_VOLUMES, changed)

    def _tell(self, claim: Object, kind: str, reason: str, text: str) -> None:
        self._recorder.event(claim, kind, reason, text)


def is_over(volume: Object) -> bool:
    """Whether the data of a volume shall go: its claim is gone, or never was, and the policy says so. Pure."""
    if volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete":
        return False
    phase = (volume.get("status") or {}).get("phase")
    return phase == "Released" or (is_deleting(volume) and phase != "Bound")


def _is_deleted(volume: Object, node: Object) -> bool:
    """Deleted because we asked: an answer that is older than the question does not count."""
    name = local_path.directory(volume)
    return name in local_path.listed(node, local_path.DELETE) and name in local_path.listed(node, local_path.DELETED)


def volume_name(claim: Object) -> str:
    return f"pvc-{uid_of(claim)}"


def volume_for(claim: Object, kind: Object, node: Object | None, root: PurePosixPath) -> Object:
    """The volume that serves a claim. Raises ProvisionError. Pure."""
    modes = list(claim["spec"].get("accessModes") or ())
    if node is None:
        raise ProvisionError("configuration error, no node was specified")
    if claim["spec"].get("selector") is not None:
        raise ProvisionError("claim.Spec.Selector is not supported")
    if not set(modes) <= _MODES:
        raise ProvisionError("NodePath only supports ReadWriteOnce and ReadWriteOncePod access modes")
    if volumes.mode_of(claim) != "Filesystem":
        raise ProvisionError("only volumeMode Filesystem is supported")
    name = volume_name(claim)
    hostname = labels_of(node).get(_HOSTNAME) or name_of(node)
    term = {"matchExpressions": [{"key": _HOSTNAME, "operator": "In", "values": [hostname]}]}
    spec = {
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "accessModes": modes,
        "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": kind.get("reclaimPolicy") or "Delete",
        "storageClassName": name_of(kind),
        "local": {"path": str(root / f"{name}_{namespace_of(claim)}_{name_of(claim)}"[:_NAME_MAX])},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": namespace_of(claim),
            "name": name_of(claim),
            "uid": uid_of(claim),
        },
    }
    if kind.get("mountOptions"):
        spec["mountOptions"] = list(kind["mountOptions"])
    metadata = {
        "name": name,
        "labels": {local_path.NODE_LABEL: local_path.node_label(name_of(node))},
        "annotations": {volumes.PROVISIONED_BY: local_path.PROVISIONER},
        "finalizers": [FINALIZER],
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def storage_class() -> Object:
    """The class that a cluster has from the start, and that claims get which name none."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS_NAME, "annotations": {volumes.DEFAULT_CLASS[0]: "true"}},
        "provisioner": local_path.PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": volumes.WAIT_FOR_FIRST_CONSUMER,
    }


def _node_labels(volume: Object) -> Iterable[str]:
    if label := labels_of(volume).get(local_path.NODE_LABEL):
        yield label
