"""Volumes, claims and classes for tests, in as few words as possible."""

from typing import Any

from apimachinery.meta import Object


def make_claim(
    name: str = "c", size: str = "1Gi", *, storage_class: str | None = "", namespace: str = "default", **more: Any
) -> Object:
    """``annotations``, ``uid`` and ``phase`` are known; everything else goes into the spec."""
    metadata = {"name": name, "namespace": "default", "annotations": more.pop("annotations", {})}
    if uid := more.pop("uid", ""):
        metadata["uid"] = uid
    phase = more.pop("phase", "")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return {**made, "status": {"phase": phase}} if phase else made


def make_volume(name: str = "v", size: str = "1Gi", *, storage_class: str = "", **more: Any) -> Object:
    """``annotations``, ``labels``, ``phase``, ``node`` (the only one it is on) and ``claim`` (reserved for it) are known."""
    metadata = {"name": name, "annotations": more.pop("annotations", {}), "labels": more.pop("labels", {})}
    phase = more.pop("phase", "")
    if node := more.pop("node", ""):
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
        more["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if claim := more.pop("claim", None):
        named = claim["metadata"]
        more["claimRef"] = {key: named[key] for key in ("namespace", "name", "uid") if key in named}
    if not {"hostPath", "local", "csi", "nfs"} & set(more):
        more["hostPath"] = {"path": f"/tmp/volumes/{name}"}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, **more}
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    return {**made, "status": {"phase": phase}} if phase else made


def make_class(name: str, provisioner: str = "kubernetes.io/no-provisioner", *, default: bool = False, **more: Any) -> Object:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, "provisioner": provisioner, **more}


def claim_volume(name: str, claim: str) -> Object:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}
