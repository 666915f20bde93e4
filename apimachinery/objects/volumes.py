"""PersistentVolumes and the claims on them: who belongs to whom, and which volume a claim should get. Pure.

The binder (controllers), the scheduler's VolumeBinding and the kubelet must give the same answers, so they ask here. The
rules are upstream's ``component-helpers/storage/volume``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery import labels as selectors
from apimachinery import quantity
from apimachinery.meta import annotations_of, is_deleting, labels_of, make_key, name_of, namespace_of, uid_of
from apimachinery.objects import affinity

Object = Mapping[str, Any]

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO = "pv.kubernetes.io/migrated-to"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

VOLUME_SOURCES = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "csi",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "glusterfs",
        "hostPath",
        "iscsi",
        "local",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    }
)


def class_of(obj: Object) -> str:
    """The storage class of a claim or a volume; the annotation from before there was a field goes first."""
    annotated = annotations_of(obj).get(_CLASS_ANNOTATION)
    return annotated if annotated is not None else str((obj.get("spec") or {}).get("storageClassName") or "")


def names_no_class(claim: Object) -> bool:
    """Whether the claim left its class open, which is other than asking for none (an empty name)."""
    return _CLASS_ANNOTATION not in annotations_of(claim) and (claim.get("spec") or {}).get("storageClassName") is None


def volume_of(claim: Object) -> str:
    return str((claim.get("spec") or {}).get("volumeName") or "")


def is_bound(claim: Object) -> bool:
    """Whether binding was completed from both sides: only then may a pod use it."""
    return bool(volume_of(claim)) and BIND_COMPLETED in annotations_of(claim)


def mode_of(obj: Object) -> str:
    return str((obj.get("spec") or {}).get("volumeMode") or "Filesystem")


def access_modes(obj: Object) -> frozenset[str]:
    return frozenset((obj.get("spec") or {}).get("accessModes") or ())


def claim_ref(volume: Object) -> Mapping[str, Any] | None:
    return (volume.get("spec") or {}).get("claimRef")


def claim_key(volume: Object) -> str:
    """``namespace/name`` of the claim that the volume is for; empty without one."""
    reference = claim_ref(volume)
    return make_key(reference.get("namespace"), str(reference.get("name") or "")) if reference else ""


def is_for(volume: Object, claim: Object) -> bool:
    """Whether the volume is bound, or reserved by an administrator, for this very claim."""
    reference = claim_ref(volume)
    if not reference or (reference.get("namespace"), reference.get("name")) != (namespace_of(claim), name_of(claim)):
        return False
    return not reference.get("uid") or reference["uid"] == uid_of(claim)


def requested_bytes(claim: Object) -> int:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return quantity.parse(requests.get("storage") or "0").value()


def capacity_bytes(volume: Object) -> int:
    return quantity.parse(((volume.get("spec") or {}).get("capacity") or {}).get("storage") or "0").value()


def accepts_node(volume: Object, node: Object) -> bool:
    """The volume's ``nodeAffinity``: local volumes exist on one node, others in one zone."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    return required is None or affinity.matches_node_selector(required, node)


def mismatch(volume: Object, claim: Object) -> str:
    """Why a claim cannot have the volume it names; empty when it can. Upstream's words, as events show them."""
    if capacity_bytes(volume) < requested_bytes(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _attributes_class(volume) != _attributes_class(claim):
        return "VolumeAttributesClassName does not match"
    if mode_of(volume) != mode_of(claim):
        return "incompatible volumeMode"
    if not access_modes(claim) <= access_modes(volume):
        return "incompatible accessMode"
    return ""


def best_match(
    claim: Object,
    volumes: Iterable[dict[str, Any]],
    *,
    node: Object | None = None,
    taken: frozenset[str] = frozenset(),
    delayed: bool = False,
) -> dict[str, Any] | None:
    """The volume that the claim should be bound to, or None: see :func:`candidates` and :func:`first_for`."""
    return first_for(candidates(claim, volumes, delayed=delayed and node is None), node, taken)


def candidates(claim: Object, volumes: Iterable[dict[str, Any]], *, delayed: bool = False) -> list[dict[str, Any]]:
    """The volumes that would do for the claim on some node, the best first.

    One that is reserved for the claim is the only one. Of the others those with the fewest access modes beyond those asked
    for come first, then the smallest. ``delayed``: the claim's class waits for a pod, so nothing but a reserved one will do.
    """
    size, wanted, mode = requested_bytes(claim), access_modes(claim), mode_of(claim)
    wanted_class, attributes = class_of(claim), _attributes_class(claim)
    selector = (claim.get("spec") or {}).get("selector")
    selects = selectors.from_label_selector(selector) if selector is not None else None
    found: list[tuple[tuple[int, int, str], dict[str, Any]]] = []
    for volume in volumes:
        mine = False
        if claim_ref(volume) is not None:
            mine = is_for(volume, claim)
            if not mine:
                continue
        elif delayed or class_of(volume) != wanted_class or (volume.get("status") or {}).get("phase") != "Available":
            continue
        if is_deleting(volume) or not wanted <= access_modes(volume) or mode_of(volume) != mode:
            continue
        if capacity_bytes(volume) < size or _attributes_class(volume) != attributes:
            continue
        if mine:
            return [volume]
        if selects is None or selects.matches(labels_of(volume)):
            found.append(((len(access_modes(volume)), capacity_bytes(volume), name_of(volume)), volume))
    return [volume for _, volume in sorted(found, key=lambda entry: entry[0])]


def first_for(
    ordered: Iterable[dict[str, Any]], node: Object | None, taken: frozenset[str] = frozenset()
) -> dict[str, Any] | None:
    """The first of the candidates that can be used on the node. ``taken`` are names of volumes meant for other claims."""
    for volume in ordered:
        if name_of(volume) not in taken and (node is None or accepts_node(volume, node)):
            return volume
    return None


def source_of(volume: Object) -> tuple[str, Mapping[str, Any]]:
    """(kind of source such as ``csi``, its fields) of a PersistentVolume; ("", {}) if it has none that is known."""
    spec = volume.get("spec") or {}
    kind = next((field for field in spec if field in VOLUME_SOURCES and spec[field] is not None), "")
    return kind, spec.get(kind) or {}


def claim_name(pod: Object, volume: Object) -> str:
    """The claim behind an entry of a pod's ``volumes``; empty for volumes that need none."""
    if volume.get("persistentVolumeClaim"):
        return str(volume["persistentVolumeClaim"].get("claimName") or "")
    return f"{name_of(pod)}-{volume.get('name', '')}" if volume.get("ephemeral") is not None else ""


def not_of_pod(pod: Object, claim: Object) -> str:
    """Why the claim of a generic ephemeral volume is not the pod's own; empty if it is. Upstream's words."""
    owners = (claim.get("metadata") or {}).get("ownerReferences") or ()
    if any(owner.get("controller") and owner.get("uid") == uid_of(pod) for owner in owners):
        return ""
    theirs, ours = (make_key(namespace_of(obj), name_of(obj)) for obj in (claim, pod))
    return f"PVC {theirs} was not created for pod {ours} (pod is not owner)"


def default_class(classes: Iterable[Object]) -> str:
    """The newest of the storage classes that are marked as default, by name; empty without one."""
    marked = [each for each in classes if any(annotations_of(each).get(key) == "true" for key in DEFAULT_CLASS)]
    marked.sort(key=name_of)
    marked.sort(key=lambda each: str(each["metadata"].get("creationTimestamp") or ""), reverse=True)
    return name_of(marked[0]) if marked else ""


def waits_for_pod(storage_class: Object | None) -> bool:
    """Whether claims of the class are bound only when a pod that uses them is scheduled."""
    return storage_class is not None and storage_class.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER


def _attributes_class(obj: Object) -> str:
    return str((obj.get("spec") or {}).get("volumeAttributesClassName") or "")
