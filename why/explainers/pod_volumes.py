"""Pods on a node whose containers cannot start yet: volumes that do not mount, and sandboxes that are not made."""

from collections.abc import Iterator, Mapping
from typing import Any

from apimachinery.meta import Object, namespace_of
from apimachinery.objects import pods, volumes
from why.cause import Cause, State
from why.explainers import persistentvolumeclaim
from why.explainers.pod_containers import missing
from why.snapshot import Snapshot
from why.words import flag, short, told

_MOUNTING = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")


def volume_causes(snapshot: Snapshot, pod: Object) -> list[Cause]:
    """Missing sources and claims first; what the kubelet says of the rest."""
    found = []
    for volume in pods.spec_of(pod).get("volumes") or ():
        found += [_absent(kind, name, pod, volume) for kind, name in _sources(volume) if _is_absent(snapshot, kind, name, pod)]
        claim = volumes.claim_name(pod, volume)
        if claim:
            found += _claim(snapshot, pod, claim, str(volume.get("name")))
    said = snapshot.events(pod, *_MOUNTING)
    if not said:
        return found
    evidence = tuple(told(snapshot, event) for event in said[:2])
    attached = _attachments(snapshot, pod)
    step = "" if found or attached else f"look at the CSI driver's or kubelet's log on node {pods.node_name(pod)}"
    return [Cause("its volumes are not mounted", evidence, step, (*found, *attached))]


def _sources(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """ConfigMaps and Secrets that must exist for the volume."""
    listed = [volume, *((volume.get("projected") or {}).get("sources") or ())]
    for each in listed:
        for field, kind, key in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
            source = each.get(field) or {}
            name = source.get(key) or source.get("name")
            if name and not source.get("optional"):
                yield kind, str(name)


def _is_absent(snapshot: Snapshot, kind: str, name: str, pod: Object) -> bool:
    return snapshot.is_missing(kind, name, namespace_of(pod))


def _absent(kind: str, name: str, pod: Object, volume: Mapping[str, Any]) -> Cause:
    return missing(kind, name, pod, f"used by volume {volume.get('name')}")


def _claim(snapshot: Snapshot, pod: Object, name: str, volume: str) -> list[Cause]:
    claim = snapshot.get("PersistentVolumeClaim", name, namespace_of(pod))
    if claim is None:
        if not snapshot.is_missing("PersistentVolumeClaim", name, namespace_of(pod)):
            return []
        return [Cause(f"persistentvolumeclaim/{name} does not exist (volume {volume})", step=f"create it{flag(pod)}")]
    told_of = persistentvolumeclaim.explain(snapshot, claim, asked_by=pod)
    return [] if told_of.state is State.WELL else [told_of.as_cause()]


def _attachments(snapshot: Snapshot, pod: Object) -> list[Cause]:
    """VolumeAttachments that report an error, or hold the volume on another node."""
    bound = set()
    for volume in pods.spec_of(pod).get("volumes") or ():
        name = volumes.claim_name(pod, volume)
        claim = snapshot.get("PersistentVolumeClaim", name, namespace_of(pod)) if name else None
        if claim is not None:
            bound.add(volumes.volume_of(claim))
    found = []
    for each in snapshot.all("VolumeAttachment"):
        spec, status = each.get("spec") or {}, each.get("status") or {}
        volume = (spec.get("source") or {}).get("persistentVolumeName")
        if volume not in bound:
            continue
        error = (status.get("attachError") or {}).get("message")
        if spec.get("nodeName") != pods.node_name(pod) and status.get("attached"):
            step = f"wait for its pods on {spec.get('nodeName')} to end: kubectl get volumeattachments"
            found.append(Cause(f"persistentvolume/{volume} is still attached to node {spec.get('nodeName')}", step=step))
        elif error:
            step = f"look at the log of the CSI driver {spec.get('attacher')}"
            found.append(Cause(f"persistentvolume/{volume} cannot be attached", (short(error),), step))
    return found


def sandbox_causes(snapshot: Snapshot, pod: Object) -> list[Cause]:
    """The runtime cannot make the pod's sandbox: most often its network."""
    said = snapshot.events(pod, "FailedCreatePodSandBox", "NetworkNotReady")
    if not said:
        return []
    text = str(said[0].get("message")).lower()
    step = f"look at the kubelet's and containerd's logs on {pods.node_name(pod)}"
    if "cni" in text or "network" in text:
        step = f"check the CNI plugin on {pods.node_name(pod)}: its pods, /etc/cni/net.d, and free addresses of the pod CIDR"
    elif "runtimeclass" in text or "runtime handler" in text:
        step = f"runtimeClassName {pods.spec_of(pod).get('runtimeClassName')} needs a handler in containerd's configuration"
    return [Cause("its sandbox cannot be made", (told(snapshot, said[0]),), step)]
