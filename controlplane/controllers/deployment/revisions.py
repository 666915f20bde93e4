"""Which ReplicaSet is the new one, and the numbered history that ``kubectl rollout history`` and ``undo`` read. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery.meta import Object, annotations_of, clone, generation, is_deleting, name_of, owner_reference
from apimachinery.objects.pods import TEMPLATE_HASH_LABEL
from controlplane.controllers.deployment.facts import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    NO_LIMIT,
    REVISION,
    REVISION_HISTORY,
    Deployment,
    max_surge,
    oldest_first,
    reported,
    wanted,
)
from controlplane.controllers.lib.hashing import template_hash

# The Deployment's own bookkeeping, and what kubectl last applied to it, say nothing about a ReplicaSet.
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)
_HISTORY_LIMIT = 2000  # characters


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Equal but for the hash label and for empty fields."""
    return bool(_bare(one) == _bare(other))


def _bare(template: Mapping[str, Any]) -> Any:
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {key: text for key, text in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH_LABEL}
    return _without_empty({**template, "metadata": metadata})


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if (kept := _without_empty(item)) not in (None, {}, [])}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value


def find_new(deployment: Deployment, sets: Sequence[Object]) -> Object | None:
    """The oldest set whose template is the Deployment's."""
    template = deployment["spec"]["template"]
    return next((each for each in oldest_first(sets) if same_template(each["spec"]["template"], template)), None)


def revision(obj: Mapping[str, Any]) -> int:
    text = annotations_of(obj).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def next_revision(old: Sequence[Object]) -> int:
    return max((revision(each) for each in old), default=0) + 1


def new_replica_set(deployment: Object, number: int, replicas: int) -> Object:
    """The ReplicaSet of the Deployment's present template."""
    spec = deployment["spec"]
    template = clone(spec["template"])
    digest = template_hash(template, (deployment.get("status") or {}).get("collisionCount"))
    labels = {**(template.setdefault("metadata", {}).get("labels") or {}), TEMPLATE_HASH_LABEL: digest}
    template["metadata"]["labels"] = labels
    selector = clone(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), TEMPLATE_HASH_LABEL: digest}
    made: Object = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name_of(deployment)}-{digest}",
            "namespace": deployment["metadata"]["namespace"],
            "labels": dict(labels),
            "ownerReferences": [owner_reference(deployment, "apps/v1", "Deployment")],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }
    if spec.get("minReadySeconds"):
        made["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    annotate(made, deployment, number)
    annotate_sizes(made, deployment)
    return made


def annotate(replica_set: Object, deployment: Deployment, number: int) -> bool:
    """Copy the Deployment's annotations and number the set; a set that comes back gets a new number and a history."""
    held = annotations_of(replica_set)
    copied = {key: text for key, text in annotations_of(deployment).items() if key not in _NOT_COPIED}
    wanted_annotations = {**held, **copied}
    before = revision(replica_set)
    if before < number:
        wanted_annotations[REVISION] = str(number)
        if REVISION in held:
            wanted_annotations[REVISION_HISTORY] = _history(held.get(REVISION_HISTORY, ""), before)
    if wanted_annotations == held:
        return False
    replica_set["metadata"]["annotations"] = wanted_annotations
    return True


def _history(text: str, number: int) -> str:
    entries = [*filter(None, text.split(",")), str(number)]
    while len(",".join(entries)) > _HISTORY_LIMIT and len(entries) > 1:
        entries.pop(0)
    return ",".join(entries)


def size_annotations(deployment: Deployment) -> dict[str, str]:
    size = wanted(deployment)
    return {DESIRED_REPLICAS: str(size), MAX_REPLICAS: str(size + max_surge(deployment))}


def annotate_sizes(replica_set: Object, deployment: Deployment) -> bool:
    """Record what the set was last sized for; ``rollout.is_scaling`` compares."""
    sizes = size_annotations(deployment)
    held = annotations_of(replica_set)
    if all(held.get(key) == text for key, text in sizes.items()):
        return False
    replica_set["metadata"]["annotations"] = {**held, **sizes}
    return True


def surplus(deployment: Deployment, old: Sequence[Object]) -> list[Object]:
    """Old sets beyond ``revisionHistoryLimit``, lowest revision first; only those that are empty and settled."""
    limit = (deployment.get("spec") or {}).get("revisionHistoryLimit")
    if limit is None or limit == NO_LIMIT:
        return []
    living = sorted((each for each in old if not is_deleting(each)), key=revision)
    return [each for each in living[: max(0, len(living) - limit)] if _is_settled_empty(each)]


def _is_settled_empty(each: Object) -> bool:
    return wanted(each) == 0 and reported(each, "replicas") == 0 and reported(each, "observedGeneration") >= generation(each)
