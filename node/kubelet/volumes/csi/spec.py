"""What a CSI driver is told, worked out of claim, volume, pod and CSIDriver. Pure; ``plugin`` acts on it."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.objects import volumes
from node.kubelet.interface import Pod, VolumeError, VolumeStats
from node.kubelet.volumes.contract import VolumeRequest
from node.kubelet.volumes.csi.api import csi_v1_pb2 as pb

Object = Mapping[str, Any]
_Mode = pb.VolumeCapability.AccessMode
_MODES = {
    "ReadWriteOnce": _Mode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": _Mode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": _Mode.MULTI_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_WRITER,
}
_FINER_MODES = {"ReadWriteOnce": _Mode.SINGLE_NODE_MULTI_WRITER, "ReadWriteOncePod": _Mode.SINGLE_NODE_SINGLE_WRITER}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One volume for one pod. ``secrets`` name what staging and publishing need: (namespace, name) or None."""

    driver: str
    handle: str
    name: str
    ephemeral: bool
    read_only: bool
    is_block: bool
    fs_type: str
    mount_flags: Sequence[str]
    modes: Sequence[str]
    attributes: Mapping[str, str]
    stage_secret: tuple[str, str] | None = None
    publish_secret: tuple[str, str] | None = None
    expand_secret: tuple[str, str] | None = None


def wanted(request: VolumeRequest) -> Wanted:
    """Raises VolumeError for a source that no driver could serve."""
    source, persistent = request.source, request.persistent
    driver = str(source.get("driver") or "")
    attributes = dict(source.get("volumeAttributes") or {})
    fs_type, read_only = str(source.get("fsType") or ""), bool(source.get("readOnly")) or request.read_only
    if persistent is None:
        uid = request.pod["metadata"]["uid"]
        handle = f"csi-{hashlib.sha256(f'{uid}{request.name}'.encode()).hexdigest()}"
        modes = ("ReadWriteOnce",)
        secret = _secret({"namespace": request.namespace, **(source.get("nodePublishSecretRef") or {})})
        return Wanted(driver, handle, request.name, True, read_only, False, fs_type, (), modes, attributes, publish_secret=secret)
    handle = str(source.get("volumeHandle") or "")
    if not driver or not handle:
        raise VolumeError("the PersistentVolume names no CSI driver or no volumeHandle")
    return Wanted(
        driver,
        handle,
        persistent.name,
        False,
        read_only,
        persistent.is_block,
        fs_type,
        tuple(request.mount_options),
        tuple(persistent.volume["spec"].get("accessModes") or ()),
        attributes,
        _secret(source.get("nodeStageSecretRef")),
        _secret(source.get("nodePublishSecretRef")),
        _secret(source.get("nodeExpandSecretRef")),
    )


def _secret(reference: Object | None) -> tuple[str, str] | None:
    return (str(reference.get("namespace") or ""), str(reference["name"])) if reference and reference.get("name") else None


def check_life_cycle(wanted: Wanted, driver: Object | None) -> None:
    """An inline volume needs a driver that says it can. Raises VolumeError, in upstream's words."""
    mode = "Ephemeral" if wanted.ephemeral else "Persistent"
    if driver is None:
        if wanted.ephemeral:
            raise VolumeError(f'volume mode "{mode}" not supported by driver {wanted.driver} (no CSIDriver object)')
        return
    supported = (driver.get("spec") or {}).get("volumeLifecycleModes") or ["Persistent"]
    if mode not in supported:
        listed = " ".join(f'"{each}"' for each in supported)
        raise VolumeError(f'volume mode "{mode}" not supported by driver {wanted.driver} (only supports [{listed}])')


def capability(wanted: Wanted, abilities: Collection[int], mount_group: str = "") -> pb.VolumeCapability:
    """``abilities`` are the driver's; ``mount_group`` goes to drivers that apply it themselves."""
    first = wanted.modes[0] if wanted.modes else "ReadWriteOnce"
    mode = _MODES.get(first, _Mode.UNKNOWN)
    if pb.NodeServiceCapability.RPC.SINGLE_NODE_MULTI_WRITER in abilities:
        mode = _FINER_MODES.get(first, mode)
    access = _Mode(mode=mode)
    if wanted.is_block:
        return pb.VolumeCapability(block=pb.VolumeCapability.BlockVolume(), access_mode=access)
    mount = pb.VolumeCapability.MountVolume(
        fs_type=wanted.fs_type, mount_flags=list(wanted.mount_flags), volume_mount_group=mount_group
    )
    return pb.VolumeCapability(mount=mount, access_mode=access)


def pod_info(pod: Pod, *, ephemeral: bool) -> dict[str, str]:
    """What drivers with ``podInfoOnMount`` are told of the pod."""
    metadata = pod["metadata"]
    return {
        "csi.storage.k8s.io/pod.name": metadata["name"],
        "csi.storage.k8s.io/pod.namespace": metadata.get("namespace", "default"),
        "csi.storage.k8s.io/pod.uid": metadata["uid"],
        "csi.storage.k8s.io/serviceAccount.name": pod["spec"].get("serviceAccountName") or "default",
        "csi.storage.k8s.io/ephemeral": "true" if ephemeral else "false",
    }


def kubelet_sets_group(wanted: Wanted, driver: Object | None) -> bool:
    """``fsGroupPolicy``: whether ownership is changed from here."""
    policy = ((driver or {}).get("spec") or {}).get("fsGroupPolicy") or "ReadWriteOnceWithFSType"
    if wanted.read_only or policy == "None":
        return False
    if policy == "File":
        return True
    return bool(wanted.fs_type) and bool({"ReadWriteOnce", "ReadWriteOncePod"} & set(wanted.modes))


def size_to_reach(persistent_volume: Object, claim: Object) -> int:
    """Bytes that the node must still make of the volume; 0 when there is nothing to do."""
    has = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
    target = volumes.capacity_bytes(persistent_volume)
    return target if has is not None and volumes.capacity_bytes({"spec": {"capacity": {"storage": has}}}) < target else 0


def stats(answer: pb.NodeGetVolumeStatsResponse, name: str, claim: tuple[str, str] | None) -> VolumeStats:
    """A driver's numbers as ours."""
    numbers: dict[str, int] = {}
    for usage in answer.usage:
        if usage.unit == pb.VolumeUsage.BYTES:
            numbers |= {"capacity": usage.total, "available": usage.available, "used": usage.used}
        elif usage.unit == pb.VolumeUsage.INODES:
            numbers |= {"inodes": usage.total, "inodes_free": usage.available, "inodes_used": usage.used}
    abnormal = bool(answer.volume_condition.abnormal) if answer.HasField("volume_condition") else None
    return VolumeStats(name, claim, **numbers, abnormal=abnormal)
