import pytest

from apimachinery.meta import Object, annotations_of, clone, name_of
from controlplane.controllers.deployment import revisions

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}


def deployment(**annotations: str) -> Object:
    return {
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "annotations": annotations},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": clone(TEMPLATE)},
    }


def test_the_made_set_is_found_again() -> None:
    owner = deployment(note="x")
    made = revisions.new_replica_set(owner, 1, 2)
    digest = made["metadata"]["labels"]["pod-template-hash"]
    assert name_of(made) == f"web-{digest}"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert annotations_of(made) == {
        "note": "x",
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
    }
    assert revisions.find_new(owner, [made]) is made
    assert owner["spec"]["template"] == TEMPLATE


def test_a_collision_changes_the_hash() -> None:
    owner = deployment()
    first = name_of(revisions.new_replica_set(owner, 1, 2))
    owner["status"] = {"collisionCount": 1}
    assert name_of(revisions.new_replica_set(owner, 1, 2)) != first


def test_rolling_back_renumbers_and_keeps_the_history() -> None:
    owner = deployment()
    made = revisions.new_replica_set(owner, 1, 2)
    assert not revisions.annotate(made, owner, 1)
    assert revisions.annotate(made, owner, 3)
    assert revisions.annotate(made, owner, 7)
    assert annotations_of(made)["deployment.kubernetes.io/revision"] == "7"
    assert annotations_of(made)["deployment.kubernetes.io/revision-history"] == "1,3"


@pytest.mark.parametrize(("limit", "expected"), [(None, []), (2, []), (1, ["r1"]), (0, ["r1"])])
def test_surplus(limit: int | None, expected: list[str]) -> None:
    owner = deployment()
    owner["spec"]["revisionHistoryLimit"] = limit
    old = []
    for number, replicas in ((2, 1), (1, 0)):
        annotations = {"deployment.kubernetes.io/revision": str(number)}
        old.append({"metadata": {"name": f"r{number}", "annotations": annotations}, "spec": {"replicas": replicas}})
    assert [name_of(each) for each in revisions.surplus(owner, old)] == expected
