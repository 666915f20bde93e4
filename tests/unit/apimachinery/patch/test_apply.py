"""Server-side apply: ownership, conflicts, removal, lists; and the record that other writes leave."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apimachinery import schema
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from apimachinery.patch import apply, compare, fieldset

Object = dict[str, Any]

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SCHEMAS = schema.load()
DEPLOYMENT = SCHEMAS.of(GroupVersionKind("apps", "v1", "Deployment"))
CONFIG_MAP = SCHEMAS.of(GroupVersionKind("", "v1", "ConfigMap"))
SERVICE = SCHEMAS.of(GroupVersionKind("", "v1", "Service"))
POD = SCHEMAS.of(GroupVersionKind("", "v1", "Pod"))


def config_map(**data: str) -> Object:
    obj: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}
    return {**obj, "data": data} if data else obj


def deployment(**spec: Any) -> Object:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec}


def containers(*items: Object) -> Object:
    return deployment(template={"spec": {"containers": list(items)}})


def service(*ports: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": list(ports)}}


def run(live: Object | None, config: Object, manager: str, struct: schema.StructSchema, **more: Any) -> Object:
    return apply.apply(live, config, manager, more.pop("force", False), struct, more.pop("now", NOW), **more)


def track(old: Object | None, new: Object, manager: str, struct: schema.StructSchema, **more: Any) -> Object:
    new = copy.deepcopy(new)
    if old:
        new["metadata"].setdefault("managedFields", copy.deepcopy(old["metadata"].get("managedFields", [])))
    apply.track_update(old, new, manager, "Update", struct, more.pop("now", NOW), **more)
    return new


def owned(obj: Object) -> dict[str, list[str]]:
    """Manager (with its operation) to the paths it holds."""
    entries = obj["metadata"].get("managedFields", [])
    return {f"{each['manager']}:{each['operation']}": list(fieldset.paths(each["fieldsV1"])) for each in entries}


# Ordinary writes


def test_a_create_owns_what_it_set() -> None:
    obj = containers({"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {}})
    obj["spec"] |= {"replicas": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    obj["metadata"]["labels"] = {"a": "b"}
    new = track(None, obj, "kubectl-create", DEPLOYMENT)
    (entry,) = new["metadata"]["managedFields"]
    assert {key: value for key, value in entry.items() if key != "fieldsV1"} == {
        "manager": "kubectl-create",
        "operation": "Update",
        "apiVersion": "apps/v1",
        "time": "2026-11-30T12:00:00Z",
        "fieldsType": "FieldsV1",
    }
    port = 'k:{"containerPort":80,"protocol":"TCP"}'
    assert entry["fieldsV1"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
            "f:template": {
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {
                            ".": {},
                            "f:image": {},
                            "f:name": {},
                            "f:ports": {".": {}, port: {".": {}, "f:containerPort": {}}},
                            "f:resources": {},
                        }
                    }
                }
            },
        },
    }


def test_an_update_takes_what_it_changes_and_frees_what_it_removes() -> None:
    first = track(None, config_map(a="1", b="2", c="3"), "one", CONFIG_MAP)
    second = track(first, config_map(a="1", b="changed"), "two", CONFIG_MAP, now=NOW + timedelta(seconds=1))
    assert owned(second) == {"one:Update": [".data", ".data.a"], "two:Update": [".data.b"]}
    assert [each["time"][-3:] for each in second["metadata"]["managedFields"]] == ["00Z", "01Z"]


def test_an_update_without_a_change_keeps_the_record() -> None:
    first = track(None, config_map(a="1"), "one", CONFIG_MAP)
    second = track(first, config_map(a="1"), "two", CONFIG_MAP, now=NOW + timedelta(seconds=1))
    assert second["metadata"]["managedFields"] == first["metadata"]["managedFields"]


def test_status_is_an_entry_of_its_own() -> None:
    first = track(None, deployment(replicas=1), "kubectl", DEPLOYMENT)
    new = {**copy.deepcopy(first), "status": {"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]}}
    second = track(first, new, "controller", DEPLOYMENT, subresource="status")
    entry = second["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["subresource"]) == ("controller", "status")
    key = 'k:{"type":"Available"}'
    assert entry["fieldsV1"] == {
        "f:status": {"f:conditions": {".": {}, key: {".": {}, "f:status": {}, "f:type": {}}}, "f:replicas": {}}
    }


def test_ignored_fields_are_not_recorded() -> None:
    obj = {**deployment(replicas=1), "status": {"replicas": 5}}
    assert owned(track(None, obj, "m", DEPLOYMENT, ignored={"status"})) == {"m:Update": [".spec.replicas"]}


def test_clients_may_reset_or_edit_the_record() -> None:
    first = track(None, config_map(a="1"), "one", CONFIG_MAP)
    reset = copy.deepcopy(first)
    reset["metadata"]["managedFields"] = [{}]
    assert "managedFields" not in track(first, reset, "two", CONFIG_MAP)["metadata"]
    lost = copy.deepcopy(first)
    lost["metadata"]["managedFields"] = []
    assert owned(track(first, lost, "two", CONFIG_MAP)) == owned(first)
    nonsense = copy.deepcopy(first)
    nonsense["metadata"]["managedFields"] = [{"operation": "Dance"}]
    assert owned(track(first, nonsense, "two", CONFIG_MAP)) == owned(first)
    renamed = copy.deepcopy(first)
    renamed["metadata"]["managedFields"][0]["manager"] = "three"
    assert list(owned(track(first, renamed, "two", CONFIG_MAP))) == ["three:Update"]


@pytest.mark.parametrize("fields", [{"f:data": 5}, {"data": {}}, {"k:{": {}}, {"k:5": {}}, {"f:data": {"x:y": {}}}, {"i:x": {}}])
def test_what_is_no_field_set_is_not_believed(fields: Any) -> None:
    first = track(None, config_map(a="1"), "one", CONFIG_MAP)
    edited = copy.deepcopy(first)
    edited["metadata"]["managedFields"][0]["fieldsV1"] = fields
    edited["data"]["a"] = "2"
    assert owned(track(first, edited, "two", CONFIG_MAP)) == {"one:Update": [".data"], "two:Update": [".data.a"]}


def test_an_object_without_a_record_stays_without_one() -> None:
    assert "managedFields" not in track(config_map(a="1"), config_map(a="2"), "m", CONFIG_MAP)["metadata"]


def test_old_updaters_are_folded_together() -> None:
    obj = track(None, config_map(a0="x"), "m0", CONFIG_MAP)
    for number in range(1, 15):
        new = copy.deepcopy(obj)
        new["data"][f"a{number}"] = "x"
        obj = track(obj, new, f"m{number}", CONFIG_MAP, now=NOW + timedelta(seconds=number))
    managers = owned(obj)
    assert len(managers) == 10
    assert managers["ancient-changes:Update"] == [".data", *sorted(f".data.a{number}" for number in range(6))]


# Apply


def test_apply_creates_and_owns_only_its_leaves() -> None:
    obj = run(None, config_map(a="1"), "me", CONFIG_MAP)
    assert obj["data"] == {"a": "1"}
    assert owned(obj) == {"me:Apply": [".data.a"]}
    assert obj["metadata"]["name"] == "c"


def test_what_is_no_longer_stated_goes_unless_others_hold_it() -> None:
    first = run(None, config_map(a="1", b="2"), "me", CONFIG_MAP)
    shared = run(first, config_map(b="2"), "you", CONFIG_MAP)
    assert owned(shared) == {"me:Apply": [".data.a", ".data.b"], "you:Apply": [".data.b"]}
    less = run(shared, config_map(), "me", CONFIG_MAP)
    assert less["data"] == {"b": "2"}
    assert owned(less) == {"you:Apply": [".data.b"]}


def test_metadata_survives_the_removal_of_all_labels() -> None:
    config = config_map(a="1")
    config["metadata"]["labels"] = {"x": "y"}
    first = run(None, config, "me", CONFIG_MAP)
    second = run(first, config_map(a="1"), "me", CONFIG_MAP)
    assert second["metadata"]["name"] == "c"
    assert "labels" not in second["metadata"]


def test_a_field_somebody_changed_since_is_a_conflict() -> None:
    first = run(None, deployment(replicas=1, paused=False), "me", DEPLOYMENT)
    scaled = copy.deepcopy(first)
    scaled["spec"]["replicas"] = 3
    scaled = track(first, scaled, "hpa", DEPLOYMENT)
    with pytest.raises(StatusError) as caught:
        run(scaled, deployment(replicas=1, paused=False), "me", DEPLOYMENT)
    status = caught.value.status
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "hpa" using apps/v1: .spec.replicas'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "hpa" using apps/v1', "field": ".spec.replicas"}
    ]
    forced = run(scaled, deployment(replicas=1, paused=False), "me", DEPLOYMENT, force=True)
    assert forced["spec"]["replicas"] == 1
    assert owned(forced) == {"me:Apply": [".spec.paused", ".spec.replicas"]}


def test_several_conflicts_are_listed_by_manager() -> None:
    first = run(None, containers({"name": "c", "image": "1"}), "one", DEPLOYMENT)
    second = run(first, deployment(replicas=1), "two", DEPLOYMENT, subresource="scale")
    wanted = containers({"name": "c", "image": "2"})
    wanted["spec"]["replicas"] = 2
    with pytest.raises(StatusError) as caught:
        run(second, wanted, "three", DEPLOYMENT)
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.template.spec.containers[name="c"].image\n'
        'conflicts with "two" with subresource "scale":\n- .spec.replicas'
    )


def test_the_same_value_is_shared_not_fought_over() -> None:
    first = run(None, deployment(replicas=1), "one", DEPLOYMENT)
    second = run(first, deployment(replicas=1), "two", DEPLOYMENT)
    assert owned(second) == {"one:Apply": [".spec.replicas"], "two:Apply": [".spec.replicas"]}


def test_list_elements_belong_to_those_who_state_them() -> None:
    first = run(None, containers({"name": "a", "image": "1"}), "one", DEPLOYMENT)
    second = run(first, containers({"name": "b", "image": "2"}), "two", DEPLOYMENT)
    names = [each["name"] for each in second["spec"]["template"]["spec"]["containers"]]
    assert names == ["a", "b"]
    third = run(second, deployment(paused=True), "one", DEPLOYMENT)
    assert third["spec"]["template"]["spec"]["containers"] == [{"name": "b", "image": "2"}]


def test_ports_with_one_number_and_two_protocols_are_two_elements() -> None:
    tcp, udp = {"port": 53, "protocol": "TCP", "name": "tcp"}, {"port": 53, "protocol": "UDP", "name": "udp"}
    first = run(None, service(tcp, udp), "me", SERVICE)
    assert first["spec"]["ports"] == [tcp, udp]
    second = run(first, service(udp), "me", SERVICE)
    assert second["spec"]["ports"] == [udp]


def test_a_key_left_out_means_its_default() -> None:
    first = run(None, service({"port": 80, "protocol": "TCP"}), "me", SERVICE)
    second = run(first, service({"port": 80, "targetPort": 8080}), "me", SERVICE)
    assert second["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 8080}] or second["spec"]["ports"] == [
        {"port": 80, "targetPort": 8080}
    ]
    assert len(second["spec"]["ports"]) == 1


def test_atomic_lists_and_structs_change_as_a_whole() -> None:
    config = deployment(selector={"matchLabels": {"a": "b"}})
    first = run(None, config, "me", DEPLOYMENT)
    assert owned(first) == {"me:Apply": [".spec.selector"]}
    second = run(first, deployment(selector={"matchLabels": {"c": "d"}}), "me", DEPLOYMENT)
    assert second["spec"]["selector"] == {"matchLabels": {"c": "d"}}


def test_sets_of_scalars() -> None:
    config = {**config_map(), "metadata": {"name": "c", "finalizers": ["x/a"]}}
    other = {**config_map(), "metadata": {"name": "c", "finalizers": ["x/b"]}}
    both = run(run(None, config, "one", CONFIG_MAP), other, "two", CONFIG_MAP)
    assert both["metadata"]["finalizers"] == ["x/a", "x/b"]
    assert owned(both)["two:Apply"] == ['.metadata.finalizers[="x/b"]']
    left = run(both, {**config_map(), "metadata": {"name": "c"}}, "one", CONFIG_MAP)
    assert left["metadata"]["finalizers"] == ["x/b"]


@pytest.mark.parametrize(
    ("live", "config", "result"),
    [
        ("abc", "ca", "bca"),
        ("abc", "xa", "xabc"),
        ("abc", "ab", "abc"),
        ("ab", "abx", "abx"),
        ("abc", "cba", "cba"),
        ("", "ab", "ab"),
        ("xaybz", "ab", "xaybz"),
    ],
)
def test_the_order_of_merged_lists(live: str, config: str, result: str) -> None:
    def named(names: str) -> Object:
        return containers(*[{"name": name} for name in names])

    before = track(None, named(live), "one", DEPLOYMENT)
    after = run(before, named(config), "two", DEPLOYMENT)
    assert "".join(each["name"] for each in after["spec"]["template"]["spec"]["containers"]) == result


def test_an_object_nobody_kept_a_record_of() -> None:
    with pytest.raises(StatusError) as caught:
        run(config_map(a="1"), config_map(a="2"), "me", CONFIG_MAP)
    assert caught.value.message.endswith('conflict with "before-first-apply" using v1: .data.a')


def test_kubectl_takes_over_from_client_side_apply() -> None:
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}'
    live = config_map(a="1", b="2")
    live["metadata"]["annotations"] = {apply.LAST_APPLIED: last}
    live = track(None, live, "kubectl-client-side-apply", CONFIG_MAP)
    with pytest.raises(StatusError):
        run(live, config_map(a="2"), "someone", CONFIG_MAP)
    with pytest.raises(StatusError):
        run(live, config_map(b="3"), "kubectl", CONFIG_MAP)
    taken = run(live, config_map(a="2"), "kubectl", CONFIG_MAP)
    assert taken["data"] == {"a": "2", "b": "2"}
    assert '"a":"2"' in taken["metadata"]["annotations"][apply.LAST_APPLIED]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (deployment(foo=1), ".spec.foo: field not declared in schema"),
        (deployment(replicas="x"), ".spec.replicas: expected numeric (int or float), got string"),
        (
            containers({"name": "a", "image": 5}),
            '.spec.template.spec.containers[name="a"].image: expected string, got &value.valueUnstructured{Value:5}',
        ),
        (deployment(template=[1, "x"]), ".spec.template: expected map, got &{[1 x]}"),
        (
            containers({"name": "a"}, {"name": "a"}),
            '.spec.template.spec.containers: duplicate entries for key [name="a"]',
        ),
    ],
)
def test_configurations_that_do_not_fit(config: Object, problem: str) -> None:
    with pytest.raises(StatusError) as caught:
        run(None, config, "me", DEPLOYMENT)
    assert caught.value.message == f"failed to create typed patch object (n/d; apps/v1, Kind=Deployment): {problem}"


@pytest.mark.parametrize("metadata", [5, "x", [{}]])
def test_metadata_that_is_no_object(metadata: Any) -> None:
    with pytest.raises(StatusError, match="expected map"):
        apply.check_types({**config_map(), "metadata": metadata}, CONFIG_MAP)


def test_managed_fields_in_the_configuration_are_refused() -> None:
    config = config_map()
    config["metadata"]["managedFields"] = [{"manager": "x"}]
    with pytest.raises(StatusError, match=r"metadata.managedFields must be nil"):
        run(None, config, "me", CONFIG_MAP)


def test_reapplying_changes_nothing_but_the_time() -> None:
    first = run(None, config_map(a="1"), "me", CONFIG_MAP)
    second = run(first, config_map(a="1"), "me", CONFIG_MAP, now=NOW + timedelta(hours=1))
    assert second != first
    assert apply.same_but_for_times(first, second)
    assert not apply.same_but_for_times(first, run(first, config_map(a="1"), "you", CONFIG_MAP))


def test_arguments_are_left_alone() -> None:
    live = run(None, config_map(a="1", b="1"), "one", CONFIG_MAP)
    config = config_map(a="1", c="2")
    before = copy.deepcopy((live, config))
    run(live, config, "two", CONFIG_MAP)
    run(live, config, "one", CONFIG_MAP)
    assert (live, config) == before


def test_changes_are_empty_for_equal_objects() -> None:
    obj = containers({"name": "c"})
    assert compare.changes(obj, copy.deepcopy(obj), DEPLOYMENT) == ({}, {}, {})
