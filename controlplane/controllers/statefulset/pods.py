"""The pods and claims of a StatefulSet: names, ordinals, identity. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from apimachinery.meta import Object, clone, labels_of, name_of, namespace_of, owner_reference, owners_of, uid_of
from controlplane.controllers.lib.history import REVISION_LABEL
from controlplane.controllers.lib.pod_control import from_template

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
_NAME = re.compile(r"(.*)-(\d+)")


def ordinal(pod: Mapping[str, Any]) -> int:
    """The number at the end of the name; -1 for a pod that has none."""
    match = _NAME.fullmatch(name_of(pod))
    return int(match[2]) if match else -1


def is_member(owner: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    match = _NAME.fullmatch(name_of(pod))
    return match is not None and match[1] == name_of(owner)


def start_of(owner: Mapping[str, Any]) -> int:
    return int((owner["spec"].get("ordinals") or {}).get("start") or 0)


def replicas_of(owner: Mapping[str, Any]) -> int:
    number = owner["spec"].get("replicas")
    return 1 if number is None else int(number)


def revision_of(pod: Mapping[str, Any]) -> str:
    return labels_of(pod).get(REVISION_LABEL, "")


def new_pod(owner: Object, template: Mapping[str, Any], revision: str, number: int) -> Object:
    """The pod of one ordinal, from the template of one revision."""
    name = f"{name_of(owner)}-{number}"
    pod = from_template(template, namespace_of(owner), "", owner_reference(owner, "apps/v1", "StatefulSet"))
    del pod["metadata"]["generateName"]
    pod["metadata"]["name"] = name
    labels = dict(pod["metadata"].get("labels") or {})
    labels.update({POD_NAME_LABEL: name, INDEX_LABEL: str(number), REVISION_LABEL: revision})
    pod["metadata"]["labels"] = labels
    spec = {**pod["spec"], "hostname": name, "subdomain": owner["spec"].get("serviceName") or ""}
    claimed = {claim["metadata"]["name"] for claim in claim_templates(owner)}
    if claimed:
        kept = [volume for volume in spec.get("volumes") or () if volume.get("name") not in claimed]
        spec["volumes"] = [
            {"name": each, "persistentVolumeClaim": {"claimName": claim_name(each, name)}} for each in sorted(claimed)
        ] + kept
    pod["spec"] = spec
    return pod


def claim_templates(owner: Mapping[str, Any]) -> list[Object]:
    return list(owner["spec"].get("volumeClaimTemplates") or ())


def claim_name(template: str, pod: str) -> str:
    return f"{template}-{pod}"


def claims(owner: Mapping[str, Any], pod: Mapping[str, Any]) -> list[Object]:
    """The volume claims that must be there before the pod; they outlive it."""
    selected = dict(((owner["spec"].get("selector") or {}).get("matchLabels")) or {})
    made = []
    for template in claim_templates(owner):
        described = template.get("metadata") or {}
        metadata = {
            "name": claim_name(described["name"], name_of(pod)),
            "namespace": namespace_of(owner),
            "labels": {**(described.get("labels") or {}), **selected},
        }
        if described.get("annotations"):
            metadata["annotations"] = described["annotations"]
        made.append(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template.get("spec") or {}}
        )
    return made


def is_surplus(owner: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether the pod's ordinal is outside of what the StatefulSet wants."""
    start = start_of(owner)
    return not start <= ordinal(pod) < start + replicas_of(owner)


def with_retention(owner: Object, pod: Object, claim: Object) -> Object:
    """The claim with the owners that ``persistentVolumeClaimRetentionPolicy`` gives it, by which it is collected: the
    StatefulSet when that is deleted, the pod when it is scaled away. A claim that somebody else controls stays as it is."""
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    surplus = is_surplus(owner, pod)
    with_pod = policy.get("whenScaled") == "Delete" and surplus
    with_set = policy.get("whenDeleted") == "Delete" and not with_pod
    ours = {uid_of(owner), uid_of(pod)}
    others = [each for each in owners_of(claim) if each.get("uid") not in ours]
    if any(each.get("controller") for each in others):
        return claim
    wanted = [owner_reference(owner, "apps/v1", "StatefulSet")] if with_set else []
    wanted += [owner_reference(pod, "v1", "Pod")] if with_pod else []
    held = [each for each in owners_of(claim) if each.get("uid") in ours]
    if [each["uid"] for each in held] == [each["uid"] for each in wanted]:
        return claim
    changed = clone(claim)
    changed["metadata"]["ownerReferences"] = [*others, *wanted]
    if not changed["metadata"]["ownerReferences"]:
        del changed["metadata"]["ownerReferences"]
    return changed


def goes_with_another(claim: Mapping[str, Any], pod: str) -> bool:
    """Whether the claim is bound to go with an earlier pod of this name: its successor must wait for a new one."""
    return any((each.get("kind"), each.get("name")) == ("Pod", pod) for each in owners_of(claim))
