"""What feature gates do to kinds: which are served, and which fields are taken."""

from typing import Any

import pytest

from apimachinery import schema
from apimachinery.meta import clone
from apimachinery.schema.types import ListSchema
from component.features import FEATURES, from_flag
from controlplane.apiserver.kinds import gated_fields
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.served import select
from controlplane.apiserver.registry.disabled_fields import DisabledFields
from tests.support.kinds import context, created, problems, strategy, update_problems

Object = dict[str, Any]
EVERYTHING = {"api/all": "true"}
GATED = {  # kind: the gates that it takes beside --runtime-config
    "clustertrustbundles": "ClusterTrustBundle=true",
    "podcertificaterequests": "PodCertificateRequest=true",
    "leasecandidates": "CoordinatedLeaderElection=true",
    "storageversions": "StorageVersionAPI=true",
    "podgroups": "GenericWorkload=true",
    "workloads": "GenericWorkload=true",
    "resourcepoolstatusrequests": "DRAResourcePoolStatus=true",
}


def gates(text: str) -> Any:
    return from_flag(dict(pair.split("=") for pair in text.split(",") if pair))


def served(runtime_config: dict[str, str], text: str = "") -> set[str]:
    features = gates(text)
    return {one.info.plural for one in select(strategies(KindsConfig(features=features)), runtime_config, features)}


@pytest.mark.parametrize("plural", GATED)
def test_a_gated_kind_takes_both_the_gate_and_the_version(plural: str) -> None:
    assert plural not in served({}, GATED[plural])
    assert plural not in served(EVERYTHING)
    assert plural in served(EVERYTHING, GATED[plural])


def test_every_gated_kind_is_in_this_table() -> None:
    assert {one.info.plural for one in strategies(KindsConfig()) if one.gates} == set(GATED)


def test_a_gate_that_is_off_takes_a_kind_away() -> None:
    assert "storageversions" not in served(EVERYTHING, "AllAlpha=true,AllBeta=true,StorageVersionAPI=false")


@pytest.mark.parametrize("resource", [*gated_fields.POD_SPECS, *gated_fields.KINDS])
def test_every_gated_field_is_one_that_the_schema_has(resource: str) -> None:
    plural, _, group = resource.partition(".")
    kinds = [one for one in strategies(KindsConfig()) if (one.info.plural, one.info.gvk.group) == (plural, group)]
    names = {feature.name for feature in FEATURES if feature.here}
    for path, gate in gated_fields.of(resource):
        assert gate in names
        assert any(has_field(schema.load().of(kind.info.gvk), path) for kind in kinds), path


def has_field(kind: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if name == gated_fields.EACH:
            kind = kind.element if isinstance(kind, ListSchema) else kind.value
        else:
            if name not in kind.fields:
                return False
            kind = kind.fields[name].schema
    return True


@pytest.mark.parametrize(
    ("obj", "old", "after"),
    [
        ({"a": [{"b": 1, "c": 2}, {"c": 3}]}, None, {"a": [{"c": 2}, {"c": 3}]}),
        ({"a": [{"b": 1}]}, {"a": [{"c": 1}]}, {"a": [{}]}),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, {"a": [{"b": 1}]}),
        ({"a": [{}]}, {"a": [{"b": 2}]}, {"a": [{}]}),
        ({"a": None}, None, {"a": None}),
        ({"a": "text"}, None, {"a": "text"}),
        ({"a": {"x": {"b": 1}, "y": {"c": 1}}}, None, {"a": {"x": {}, "y": {"c": 1}}}),
        ({}, None, {}),
    ],
)
def test_dropping(obj: Object, old: Object | None, after: Object) -> None:
    DisabledFields([("a", "*", "b")]).drop(obj, old)
    assert obj == after


@pytest.mark.parametrize(("text", "least", "refused"), [("", 0, True), ("HPAScaleToZero=true", 0, False), ("", 1, False)])
def test_scaling_to_zero(text: str, least: int, refused: bool) -> None:
    kind = strategy("horizontalpodautoscalers", KindsConfig(features=gates(text)))
    metric = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}}
    target = {"kind": "Deployment", "name": "d"}
    spec = {"minReplicas": least, "maxReplicas": 2, "scaleTargetRef": target, "metrics": [metric]}
    found = [one for one in problems(kind, {"spec": spec}) if "minReplicas" in one]
    assert found == (["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"] if refused else [])


OFF = "MutableSchedulingDirectivesForSuspendedJobs=false,MutablePodResourcesForSuspendedJobs=false"
NEVER: Object = {}
RAN: Object = {"startTime": "2026-11-30T11:00:00Z"}
ENDED = {**RAN, "conditions": [{"type": "Suspended", "status": "True"}]}
WHERE = {"nodeSelector": {"disk": "ssd"}}
HOW_MUCH = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}


@pytest.mark.parametrize(
    ("text", "suspended", "status", "change", "refused"),
    [
        ("", True, NEVER, WHERE, False),
        ("", True, NEVER, HOW_MUCH, False),
        ("", True, NEVER, {**WHERE, **HOW_MUCH}, False),
        ("", True, ENDED, WHERE, False),
        ("", True, ENDED, HOW_MUCH, False),
        ("", True, {**ENDED, "active": 1}, WHERE, True),
        ("", True, {**ENDED, "active": 1}, HOW_MUCH, True),
        ("", True, RAN, HOW_MUCH, True),
        ("", False, NEVER, WHERE, True),
        ("", False, NEVER, HOW_MUCH, True),
        ("", True, NEVER, {"containers": [{"name": "c", "image": "other"}]}, True),
        (OFF, True, NEVER, WHERE, False),
        (OFF, True, NEVER, HOW_MUCH, True),
        (OFF, True, ENDED, WHERE, True),
    ],
)
def test_templates_of_suspended_jobs(text: str, suspended: bool, status: Object, change: Object, refused: bool) -> None:
    kind = strategy("jobs", KindsConfig(features=gates(text)))
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    old = created(kind, {"spec": {"suspend": suspended, "template": {"spec": pod}}})
    old["status"] = status
    new = clone({**old, "spec": {**old["spec"], "template": {**old["spec"]["template"], "spec": {**pod, **change}}}})
    assert [problem.partition(":")[0] for problem in update_problems(kind, new, old)] == (["spec.template"] if refused else [])


BASIC: Object = {"basic": {}}
NEW_KINDS: list[tuple[str, Object, list[str]]] = [
    ("podgroups", {"schedulingPolicy": BASIC}, []),
    ("podgroups", {"schedulingPolicy": {"gang": {"minCount": 3}}}, []),
    ("podgroups", {}, ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`']),
    (
        "podgroups",
        {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
        ['spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'],
    ),
    ("podgroups", {"schedulingPolicy": {"gang": {}}}, ["spec.schedulingPolicy.gang.minCount: Required value"]),
    (
        "podgroups",
        {"schedulingPolicy": BASIC, "podGroupTemplateRef": {"workload": {"workloadName": "w"}}},
        ["spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value"],
    ),
    (
        "podgroups",
        {"schedulingPolicy": BASIC, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
    ),
    ("workloads", {"podGroupTemplates": [{"name": "a", "schedulingPolicy": BASIC}]}, []),
    ("workloads", {}, ["spec.podGroupTemplates: Required value: must have at least one item"]),
    (
        "workloads",
        {"podGroupTemplates": [{"name": "a", "schedulingPolicy": BASIC}] * 2},
        ['spec.podGroupTemplates[1]: Duplicate value: "a"'],
    ),
    (
        "workloads",
        {"podGroupTemplates": [{"name": f"a{n}", "schedulingPolicy": BASIC} for n in range(9)]},
        ["spec.podGroupTemplates: Too many: 9: must have at most 8 items"],
    ),
    (
        "workloads",
        {"podGroupTemplates": [{"name": "a", "schedulingPolicy": BASIC}], "controllerRef": {"kind": "Job"}},
        ["spec.controllerRef.name: Required value"],
    ),
    ("resourcepoolstatusrequests", {"driver": "gpu.example.com"}, []),
    ("resourcepoolstatusrequests", {}, ["spec.driver: Required value"]),
    (
        "resourcepoolstatusrequests",
        {"driver": "gpu.example.com", "limit": 2000},
        ["spec.limit: Invalid value: 2000: must be less than or equal to 1000"],
    ),
    ("resourcepoolstatusrequests", {"driver": "gpu.example.com", "poolName": ""}, ["spec.poolName: Required value"]),
]


@pytest.mark.parametrize(("plural", "spec", "expected"), NEW_KINDS)
def test_validation_of_the_alpha_kinds(plural: str, spec: Object, expected: list[str]) -> None:
    assert problems(strategy(plural), {"spec": spec}) == expected


@pytest.mark.parametrize(
    ("plural", "before", "after", "field"),
    [
        ("podgroups", {"schedulingPolicy": BASIC}, {"schedulingPolicy": {"gang": {"minCount": 2}}}, "spec.schedulingPolicy"),
        (
            "workloads",
            {"podGroupTemplates": [{"name": "a", "schedulingPolicy": BASIC}]},
            {"podGroupTemplates": [{"name": "b", "schedulingPolicy": BASIC}]},
            "spec.podGroupTemplates",
        ),
        ("resourcepoolstatusrequests", {"driver": "a.example"}, {"driver": "b.example"}, "spec"),
    ],
)
def test_specs_of_the_alpha_kinds_stay(plural: str, before: Object, after: Object, field: str) -> None:
    kind = strategy(plural)
    old = created(kind, {"spec": before})
    (problem,) = update_problems(kind, {"metadata": dict(old["metadata"]), "spec": after}, old)
    assert problem.startswith(f"{field}: Invalid value: ")
    assert problem.endswith("field is immutable")


def reported(server: str, encoding: str, *more: str) -> Object:
    versions = [encoding, *more]
    return {"apiServerID": server, "encodingVersion": encoding, "decodableVersions": versions, "servedVersions": versions}


@pytest.mark.parametrize(
    ("servers", "common", "expected"),
    [
        ([reported("a", "apps/v1"), reported("b", "apps/v1")], "apps/v1", []),
        ([reported("a", "apps/v1"), reported("b", "apps/v2")], None, []),
        ([reported("a", "v1")], None, ["commonEncodingVersion: Invalid value: null: should be v1 as all servers agree on it"]),
        ([reported("a", "v1"), reported("a", "v1")], "v1", ['storageVersions[1].apiServerID: Duplicate value: "a"']),
        (
            [{**reported("a", "v1"), "decodableVersions": ["v2"], "servedVersions": []}],
            "v1",
            ['storageVersions[0].decodableVersions: Invalid value: ["v2"]: decodableVersions must include encodingVersion v1'],
        ),
    ],
)
def test_status_of_storage_versions(servers: list[Object], common: str | None, expected: list[str]) -> None:
    kind = strategy("storageversions")
    obj = {"metadata": {"name": "apps.deployments"}, "status": {"storageVersions": servers, "commonEncodingVersion": common}}
    found = [str(error) for error in kind.validate_status_update(context("update"), obj, {})]
    assert found == [f"status.{text}" for text in expected]


@pytest.mark.parametrize(("name", "fine"), [("apps.deployments", True), ("deployments", False), ("apps.Deployments", False)])
def test_names_of_storage_versions(name: str, fine: bool) -> None:
    check = strategy("storageversions").name_is_valid
    assert check is not None
    assert (check(name) == []) is fine
