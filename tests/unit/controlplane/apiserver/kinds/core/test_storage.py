"""Persistent volumes and claims to them: defaults, what is refused, what may change, what kubectl shows."""

from typing import Any

import pytest

from apimachinery.meta import clone
from tests.support.kinds import NOW, context, created, problems, strategy, update_problems

Object = dict[str, Any]
VOLUMES, CLAIMS = strategy("persistentvolumes"), strategy("persistentvolumeclaims")
TERM = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]}


def volume(**spec: Any) -> Object:
    held = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}, **spec}
    return {"spec": {field: value for field, value in held.items() if value is not None}}


def claim(**spec: Any) -> Object:
    held = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"spec": {field: value for field, value in held.items() if value is not None}}


def asks(amount: str) -> Object:
    return {"requests": {"storage": amount}}


REFUSED: list[tuple[str, Object, str]] = [
    ("persistentvolumes", volume(capacity=None), "spec.capacity: Required value"),
    ("persistentvolumes", volume(capacity={"cpu": "1"}), "spec.capacity: Unsupported value"),
    (
        "persistentvolumes",
        volume(capacity={"storage": "0"}),
        'spec.capacity[storage]: Invalid value: "0": must be greater than zero',
    ),
    ("persistentvolumes", volume(accessModes=None), "spec.accessModes: Required value"),
    (
        "persistentvolumes",
        volume(accessModes=["Some"]),
        'spec.accessModes: Unsupported value: "Some": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"',
    ),
    ("persistentvolumes", volume(hostPath=None), "spec: Required value: must specify a volume type"),
    (
        "persistentvolumes",
        volume(nfs={"server": "s", "path": "/"}),
        "spec.nfs: Forbidden: may not specify more than 1 volume type",
    ),
    ("persistentvolumes", volume(hostPath={"path": "a/../b"}), "spec.hostPath.path: Invalid value"),
    (
        "persistentvolumes",
        volume(hostPath=None, local={"path": "/x"}),
        "spec.nodeAffinity: Required value: Local volume requires node affinity",
    ),
    (
        "persistentvolumes",
        volume(persistentVolumeReclaimPolicy="Keep"),
        'spec.persistentVolumeReclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Recycle", "Retain"',
    ),
    (
        "persistentvolumes",
        volume(hostPath={"path": "/"}, persistentVolumeReclaimPolicy="Recycle"),
        "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
    ),
    ("persistentvolumes", volume(volumeMode="Tape"), 'spec.volumeMode: Unsupported value: "Tape"'),
    ("persistentvolumes", volume(hostPath=None, csi={"driver": "d.io"}), "spec.csi.volumeHandle: Required value"),
    ("persistentvolumes", volume(nodeAffinity={}), "spec.nodeAffinity.required: Required value"),
    ("persistentvolumeclaims", claim(accessModes=None), "spec.accessModes: Required value: at least 1 access mode is required"),
    (
        "persistentvolumeclaims",
        claim(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
    ),
    ("persistentvolumeclaims", claim(resources=None), "spec.resources[storage]: Required value"),
    (
        "persistentvolumeclaims",
        claim(resources=asks("0")),
        'spec.resources[storage]: Invalid value: "0": must be greater than zero',
    ),
    (
        "persistentvolumeclaims",
        claim(resources=asks("-1")),
        'spec.resources[storage]: Invalid value: "-1": must be greater than or',
    ),
    ("persistentvolumeclaims", claim(storageClassName="A_B"), 'spec.storageClassName: Invalid value: "A_B"'),
    ("persistentvolumeclaims", claim(selector={"matchLabels": {"a b": "c"}}), "spec.selector.matchLabels: Invalid value"),
    (
        "persistentvolumeclaims",
        claim(dataSource={"kind": "Pod", "name": "p"}),
        "spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
    ),
    (
        "persistentvolumeclaims",
        claim(
            dataSource={"kind": "PersistentVolumeClaim", "name": "p"},
            dataSourceRef={"kind": "PersistentVolumeClaim", "name": "q"},
        ),
        'spec: Invalid value: "spec.dataSource": must match dataSourceRef',
    ),
]


@pytest.mark.parametrize(("plural", "obj", "message"), REFUSED)
def test_refused(plural: str, obj: Object, message: str) -> None:
    found = problems(strategy(plural), clone(obj))
    assert any(text.startswith(message) for text in found), found


def test_defaults() -> None:
    held = created(VOLUMES, volume())
    assert held["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert held["spec"]["volumeMode"] == "Filesystem"
    assert held["spec"]["hostPath"] == {"path": "/data", "type": ""}
    assert held["status"] == {"phase": "Pending", "lastPhaseTransitionTime": "2026-11-30T12:00:00Z"}
    asked = created(CLAIMS, claim(dataSource={"kind": "PersistentVolumeClaim", "name": "p"}, resources=asks("1024Mi")))
    assert asked["spec"]["dataSourceRef"] == {"kind": "PersistentVolumeClaim", "name": "p"}
    assert asked["spec"]["resources"] == asks("1Gi")
    assert asked["status"] == {"phase": "Pending"}
    assert "storageClassName" not in asked["spec"]
    assert created(CLAIMS, claim(storageClassName=""))["spec"]["storageClassName"] == ""


CHANGES: list[tuple[str, Object, Object, str | None]] = [
    ("persistentvolumes", volume(), {"capacity": {"storage": "2Gi"}}, None),
    ("persistentvolumes", volume(), {"nodeAffinity": {"required": {"nodeSelectorTerms": [TERM]}}}, None),
    ("persistentvolumes", volume(), {"hostPath": {"path": "/other", "type": ""}}, "spec.persistentvolumesource: Forbidden: spec"),
    ("persistentvolumes", volume(), {"volumeMode": "Block"}, "volumeMode: Invalid value"),
    (
        "persistentvolumes",
        volume(nodeAffinity={"required": {"nodeSelectorTerms": [TERM]}}),
        {"nodeAffinity": {"required": {"nodeSelectorTerms": [TERM, TERM]}}},
        "spec.nodeAffinity: Invalid value",
    ),
    ("persistentvolumeclaims", claim(), {"volumeName": "v"}, None),
    ("persistentvolumeclaims", claim(volumeName="v"), {"volumeName": "w"}, "spec: Forbidden: spec is immutable after creation"),
    ("persistentvolumeclaims", claim(), {"storageClassName": "fast"}, None),
    ("persistentvolumeclaims", claim(storageClassName="slow"), {"storageClassName": "fast"}, "spec: Forbidden: spec is"),
    ("persistentvolumeclaims", claim(), {"volumeAttributesClassName": "gold"}, None),
    ("persistentvolumeclaims", claim(), {"resources": asks("2Gi")}, "spec: Forbidden: spec is immutable after creation except"),
]


@pytest.mark.parametrize(("plural", "obj", "change", "message"), CHANGES)
def test_changes(plural: str, obj: Object, change: Object, message: str | None) -> None:
    kind = strategy(plural)
    old = created(kind, clone(obj))
    new = clone(old)
    new["spec"] |= change
    found = update_problems(kind, new, old)
    assert (not found) if message is None else any(text.startswith(message) for text in found), found


@pytest.mark.parametrize(("amount", "fine"), [("2Gi", True), ("1536Mi", False), ("1Gi", False)])
def test_a_bound_claim_may_grow_and_not_shrink_to_what_it_has(amount: str, fine: bool) -> None:
    old = created(CLAIMS, claim(volumeName="v", resources=asks("1700Mi")))
    old["status"] = {"phase": "Bound", "capacity": {"storage": "1536Mi"}}
    new = clone(old)
    new["spec"]["resources"] = asks(amount)
    assert (not update_problems(CLAIMS, new, old)) is fine


def test_rows() -> None:
    held = created(VOLUMES, volume(accessModes=["ReadWriteMany", "ReadWriteOnce"], storageClassName="slow"))
    held["metadata"]["creationTimestamp"] = "2026-11-30T11:59:00Z"
    held["spec"]["claimRef"] = {"namespace": "default", "name": "c"}
    held["status"] = {"phase": "Bound"}
    shown = ["x", "1Gi", "RWO,RWX", "Retain", "Bound", "default/c", "slow", "<unset>", "", "60s", "Filesystem"]
    assert VOLUMES.row(held, NOW) == shown
    asked = created(CLAIMS, claim())
    asked["metadata"]["creationTimestamp"] = "2026-11-30T11:59:00Z"
    assert CLAIMS.row(asked, NOW) == ["x", "Pending", "", "", "", "", "<unset>", "60s", "Filesystem"]
    asked["spec"]["volumeName"] = "v"
    asked["status"] = {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]}
    assert CLAIMS.row(asked, NOW)[1:5] == ["Bound", "v", "2Gi", "RWO"]
    asked["metadata"]["deletionTimestamp"] = "2026-11-30T11:59:30Z"
    assert CLAIMS.row(asked, NOW)[1] == "Terminating"


def test_a_volume_remembers_when_its_phase_changed() -> None:
    old = created(VOLUMES, volume())
    old["status"]["lastPhaseTransitionTime"] = "2026-11-30T11:00:00Z"
    new = clone(old)
    new["status"]["phase"] = "Available"
    VOLUMES.prepare_for_status_update(context("update"), new, old)
    assert new["status"]["lastPhaseTransitionTime"] == "2026-11-30T12:00:00Z"
