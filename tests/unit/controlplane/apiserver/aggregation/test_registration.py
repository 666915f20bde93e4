"""Which APIServices are made, mended and removed while the server runs."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apimachinery.gvk import GroupVersion
from controlplane.apiserver.aggregation.registration import Step, Version, plan
from controlplane.apiserver.kinds.apiregistration.apiservice import AUTOMANAGED, local, managed

WIDGETS = Version(GroupVersion("things.example", "v1"), 1000, 100)
METRICS = Version(GroupVersion("metrics.k8s.io", "v1beta1"), 100, 100, yields=True)


def stored(version: Version, label: str | None = "true", **spec: Any) -> dict[str, Any]:
    obj = local(version.version, version.group_priority, version.version_priority, "true")
    obj["metadata"]["labels"] = {AUTOMANAGED: label} if label else {}
    obj["spec"].update(spec)
    return obj


def verbs(wanted: Version, held: dict[str, Any] | None) -> list[str]:
    return [step.verb for step in plan({wanted.name: wanted}, {wanted.name: held} if held else {})]


def test_one_is_made_mended_and_removed() -> None:
    assert verbs(WIDGETS, None) == ["create"]
    assert verbs(WIDGETS, stored(WIDGETS)) == []
    assert verbs(WIDGETS, stored(WIDGETS, versionPriority=7)) == ["update"]
    assert plan({}, {WIDGETS.name: stored(WIDGETS)}) == [Step("delete", WIDGETS.name)]


def test_one_without_the_label_is_somebodys_own() -> None:
    assert verbs(WIDGETS, stored(WIDGETS, None, versionPriority=7)) == []
    assert plan({}, {WIDGETS.name: stored(WIDGETS, None), "v1.apps": stored(WIDGETS, "onstart")}) == []


def test_a_metrics_server_keeps_the_place_it_took() -> None:
    service = {"namespace": "kube-system", "name": "metrics-server", "port": 443}
    assert verbs(METRICS, stored(METRICS, service=service)) == []
    assert verbs(WIDGETS, stored(WIDGETS, service=service)) == ["update"]


names = st.sampled_from(["a.example", "b.example", "c.example"])
versions = names.map(lambda group: Version(GroupVersion(group, "v1"), 1000, 100))
objects = st.builds(stored, versions, st.sampled_from(["true", "onstart", "no", None]), versionPriority=st.sampled_from([100, 5]))


@given(st.lists(versions), st.lists(objects))
def test_what_the_plan_leaves_is_what_is_wanted(listed: list[Version], found: list[dict[str, Any]]) -> None:
    """Carried out, it has nothing more to do, and has touched nothing of others."""
    wanted = {one.name: one for one in listed}
    held = {obj["metadata"]["name"]: obj for obj in found}
    after = dict(held)
    for step in plan(wanted, held):
        if step.wanted is None:
            del after[step.name]
        else:
            after[step.name] = {**after.get(step.name, step.wanted), "spec": step.wanted["spec"]}
    assert plan(wanted, after) == []
    assert wanted.keys() <= after.keys()
    assert {name: obj for name, obj in held.items() if not managed(obj)} == {
        name: obj for name, obj in after.items() if name in held and not managed(obj)
    }
