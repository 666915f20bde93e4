# ruff: noqa: E501 - messages are searched for, so they stay on one line
"""Kinds about requests, devices and storage drivers: one row for each thing they refuse, and what they print."""

from typing import Any

import pytest

from apimachinery.meta import clone
from controlplane.apiserver.kinds.flowcontrol import bootstrap
from controlplane.apiserver.kinds.flowcontrol.prioritylevelconfiguration import entropy_bits
from controlplane.apiserver.registry.strategy import Strategy
from tests.support.kinds import NOW, context, created, problems, strategy, update_problems

Object = dict[str, Any]

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
CLIENT = {"service": {"name": "s", "namespace": "n"}}
EVERY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def webhook(**more: Any) -> Object:
    base = {
        "name": "a.example.com",
        "clientConfig": CLIENT,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [RULE],
    }
    return {"webhooks": [{**base, **more}]}


def rule(**more: Any) -> Object:
    return webhook(rules=[{**RULE, **more}])


def policy(**more: Any) -> Object:
    return {"spec": {"matchConstraints": {"resourceRules": [EVERY]}, "validations": [{"expression": "true"}], **more}}


def mutation(**more: Any) -> Object:
    patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{op: "test", path: "/kind", value: "Pod"}]'}}
    spec = {"matchConstraints": {"resourceRules": [EVERY]}, "mutations": [patch], "reinvocationPolicy": "Never"}
    return {"spec": {**spec, **more}}


def level(**limited: Any) -> Object:
    return {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}, **limited}}}


def queues(**queuing: Any) -> Object:
    return level(limitResponse={"type": "Queue", "queuing": queuing})


def flow(**more: Any) -> Object:
    subject = {"kind": "Group", "group": {"name": "g"}}
    one = {"subjects": [subject], "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}
    return {"spec": {"priorityLevelConfiguration": {"name": "p"}, "rules": [one], **more}}


def service(name: str = "v1.example.com", **more: Any) -> Object:
    spec = {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15, **more}
    return {"metadata": {"name": name}, "spec": spec}


def claim(**request: Any) -> Object:
    asked = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}, **request}
    return {"spec": {"devices": {"requests": [asked]}}}


def slice_(**more: Any) -> Object:
    return {"spec": {"driver": "d.example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n", **more}}


HOOKS = "validatingwebhookconfigurations"
REFUSED: list[tuple[str, Object, str]] = [
    (HOOKS, webhook(name="short"), 'webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots'),
    (HOOKS, webhook(sideEffects=None), "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
    (HOOKS, webhook(sideEffects="Some"), 'webhooks[0].sideEffects: Unsupported value: "Some"'),
    (HOOKS, webhook(admissionReviewVersions=[]), "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"),
    (HOOKS, webhook(admissionReviewVersions=["v7"]), 'webhooks[0].admissionReviewVersions: Invalid value: ["v7"]: must include at least one of v1, v1beta1'),
    (HOOKS, webhook(timeoutSeconds=31), "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
    (HOOKS, webhook(failurePolicy="Maybe"), 'webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'),
    (HOOKS, webhook(clientConfig={}), "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
    (HOOKS, webhook(clientConfig={"url": "http://a.b"}), 'webhooks[0].clientConfig.url: Invalid value: "http": \'https\' is the only allowed URL scheme'),
    (HOOKS, webhook(clientConfig={"url": "https://a.b/?x=1"}), 'webhooks[0].clientConfig.url: Invalid value: "x=1": query parameters are not permitted in the URL'),
    (HOOKS, webhook(clientConfig={"service": {"name": "s"}}), "webhooks[0].clientConfig.service.namespace: Required value"),
    (HOOKS, webhook(clientConfig={"service": {**CLIENT["service"], "path": "x"}}), "webhooks[0].clientConfig.service.path: Invalid value: \"x\": must start with a '/'"),
    (HOOKS, webhook(matchConditions=[{"name": "c"}]), "webhooks[0].matchConditions[0].expression: Required value"),
    (HOOKS, {"webhooks": webhook()["webhooks"] * 2}, 'webhooks[1].name: Duplicate value: "a.example.com"'),
    (HOOKS, rule(operations=["CREATE", "*"]), "webhooks[0].rules[0].operations: Invalid value: [\"CREATE\",\"*\"]: if '*' is present, must not specify other operations"),
    (HOOKS, rule(operations=["READ"]), 'webhooks[0].rules[0].operations[0]: Unsupported value: "READ"'),
    (HOOKS, rule(apiGroups=[]), "webhooks[0].rules[0].apiGroups: Required value"),
    (HOOKS, rule(apiVersions=[""]), "webhooks[0].rules[0].apiVersions[0]: Required value"),
    (HOOKS, rule(resources=["*/*", "pods"]), "webhooks[0].rules[0].resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources"),
    (HOOKS, rule(resources=["pods/*", "pods/log"]), "webhooks[0].rules[0].resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log"),
    (HOOKS, rule(scope="Galaxy"), 'webhooks[0].rules[0].scope: Unsupported value: "Galaxy"'),
    ("mutatingwebhookconfigurations", webhook(reinvocationPolicy="Often"), 'webhooks[0].reinvocationPolicy: Unsupported value: "Often"'),
    ("validatingadmissionpolicies", {"spec": {"validations": [{"expression": "true"}]}}, "spec.matchConstraints: Required value"),
    ("validatingadmissionpolicies", policy(matchConstraints={}), "spec.matchConstraints.resourceRules: Required value"),
    ("validatingadmissionpolicies", policy(validations=[]), "spec.validations: Required value: validations or auditAnnotations must contain at least one item"),
    ("validatingadmissionpolicies", policy(validations=[{"expression": " "}]), "spec.validations[0].expression: Required value: expression is not specified"),
    ("validatingadmissionpolicies", policy(validations=[{"expression": "true", "reason": "Because"}]), 'spec.validations[0].reason: Unsupported value: "Because"'),
    ("validatingadmissionpolicies", policy(variables=[{"name": "1x", "expression": "1"}]), 'spec.variables[0].name: Invalid value: "1x": name is not a valid CEL identifier'),
    ("validatingadmissionpolicies", policy(paramKind={"apiVersion": "v1"}), "spec.paramKind.kind: Required value"),
    ("mutatingadmissionpolicies", mutation(mutations=[]), "spec.mutations: Required value"),
    ("mutatingadmissionpolicies", mutation(reinvocationPolicy=None), "spec.reinvocationPolicy: Required value"),
    ("mutatingadmissionpolicies", mutation(mutations=[{"patchType": "JSONPatch"}]), "spec.mutations[0].jsonPatch: Required value"),
    ("validatingadmissionpolicybindings", {"spec": {"validationActions": ["Deny"]}}, "spec.policyName: Required value"),
    ("validatingadmissionpolicybindings", {"spec": {"policyName": "p"}}, "spec.validationActions: Required value"),
    ("validatingadmissionpolicybindings", {"spec": {"policyName": "p", "validationActions": ["Deny", "Warn"]}}, 'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn'),
    ("mutatingadmissionpolicybindings", {"spec": {"policyName": "p", "paramRef": {}}}, "spec.paramRef: Required value: one of name or selector must be specified"),
    ("apiservices", service(name="other"), 'metadata.name: Invalid value: "other": must be `spec.version+"."+spec.group`: "v1.example.com"'),
    ("apiservices", service(groupPriorityMinimum=20001), "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000"),
    ("apiservices", service(versionPriority=0), "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"),
    ("apiservices", service(insecureSkipTLSVerify=True), "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"),
    ("apiservices", service(service={"name": "s"}), "spec.service.namespace: Required value"),
    ("prioritylevelconfigurations", {"spec": {"type": "Exempt"}}, "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'"),
    ("prioritylevelconfigurations", {"spec": {"type": "Limited"}}, "spec.limited: Required value: must not be empty when type is Limited"),
    ("prioritylevelconfigurations", level(lendablePercent=101), "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"),
    ("prioritylevelconfigurations", level(nominalConcurrencyShares=-1), "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"),
    ("prioritylevelconfigurations", level(limitResponse={"type": "Queue"}), "spec.limited.limitResponse.queuing: Required value"),
    ("prioritylevelconfigurations", queues(queues=4, handSize=5), "spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)"),
    ("prioritylevelconfigurations", queues(queues=512, handSize=8), "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 512 and handSize 8 should not be greater than 60"),
    ("prioritylevelconfigurations", {"metadata": {"name": "catch-all"}, **level(nominalConcurrencyShares=9)}, "spec: Invalid value:"),
    ("flowschemas", flow(matchingPrecedence=1), "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"),
    ("flowschemas", flow(matchingPrecedence=10001), "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"),
    ("flowschemas", flow(priorityLevelConfiguration={}), "spec.priorityLevelConfiguration.name: Required value: must reference a priority level"),
    ("flowschemas", flow(rules=[{"subjects": [{"kind": "Robot"}]}]), 'spec.rules[0].subjects[0].kind: Unsupported value: "Robot"'),
    ("flowschemas", flow(rules=[{"subjects": [{"kind": "User"}]}]), "spec.rules[0].subjects[0].user: Required value"),
    ("flowschemas", flow(rules=[{"subjects": [{"kind": "User", "user": {"name": "u"}}]}]), "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"),
    ("deviceclasses", {"spec": {"selectors": [{}]}}, "spec.selectors[0].cel: Required value"),
    ("deviceclasses", {"spec": {"config": [{"opaque": {"driver": "d"}}]}}, "spec.config[0].opaque.parameters: Required value"),
    ("resourceclaims", claim(exactly=None), "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"),
    ("resourceclaims", claim(exactly={}), "spec.devices.requests[0].exactly.deviceClassName: Required value"),
    ("resourceclaims", claim(exactly={"deviceClassName": "a", "count": -1}), "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"),
    ("resourceclaims", claim(exactly={"deviceClassName": "a", "allocationMode": "All", "count": 2}), "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'"),
    ("resourceclaims", {"spec": {"devices": {"requests": claim()["spec"]["devices"]["requests"] * 2}}}, 'spec.devices.requests[1].name: Duplicate value: "gpu"'),
    ("resourceclaims", {"spec": {"devices": {"constraints": [{"requests": ["x"], "matchAttribute": "a/b"}]}}}, 'spec.devices.constraints[0].requests[0]: Invalid value: "x": must be the name of a request in the claim'),
    ("resourceclaimtemplates", {"spec": {"spec": claim(name="")["spec"]}}, "spec.spec.devices.requests[0].name: Required value"),
    ("resourceslices", slice_(driver=""), "spec.driver: Required value"),
    ("resourceslices", slice_(nodeName=None), "spec: Required value: exactly one of `nodeName`"),
    ("resourceslices", slice_(allNodes=True), 'spec: Invalid value: "{`nodeName`, `allNodes`}"'),
    ("resourceslices", slice_(pool={"name": "p"}), "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"),
    ("resourceslices", slice_(devices=[{"name": "d", "attributes": {"a": {}}}]), "spec.devices[0].attributes[a]: Required value: exactly one value must be specified"),
    ("csistoragecapacities", {}, "storageClassName: Invalid value: """),
    ("csistoragecapacities", {"storageClassName": "a", "capacity": "-1"}, 'capacity: Invalid value: "-1": must be greater than or equal to 0'),
    ("volumeattachments", {"spec": {"nodeName": "n", "source": {"persistentVolumeName": "v"}}}, "spec.attacher: Required value"),
    ("volumeattachments", {"spec": {"attacher": "a", "nodeName": "n"}}, "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
    ("volumeattributesclasses", {"driverName": "a"}, "parameters: Required value: must contain at least one key/value pair"),
    ("clustertrustbundles", {"spec": {"trustBundle": ""}}, 'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided'),
    ("clustertrustbundles", {"spec": {"signerName": "a.b/c"}}, 'metadata.name: Invalid value: "x": ClusterTrustBundle for signerName a.b/c must be named with prefix a.b:c:'),
    ("podcertificaterequests", {}, "spec.signerName: Required value"),
    ("leasecandidates", {"spec": {"binaryVersion": "x"}}, 'spec.binaryVersion: Invalid value: "x": could not parse "x" as version'),
    ("devicetaintrules", {"spec": {"taint": {"key": "a"}}}, "spec.taint.effect: Required value"),
    ("storageversionmigrations", {}, "spec.resource.resource: Required value: resource is required"),
]  # fmt: skip


@pytest.mark.parametrize(("plural", "obj", "message"), REFUSED, ids=[f"{row[0]} {row[2][:60]}" for row in REFUSED])
def test_refuses(plural: str, obj: Object, message: str) -> None:
    found = problems(strategy(plural), clone(obj))
    assert any(text.startswith(message) for text in found), found


VALID: list[tuple[str, Object]] = [
    (HOOKS, webhook()),
    (HOOKS, webhook(clientConfig={"url": "https://a.example.com/path"})),
    ("mutatingwebhookconfigurations", webhook(rules=[EVERY])),
    ("validatingadmissionpolicies", policy(paramKind={"apiVersion": "example.com/v1", "kind": "Limit"})),
    ("mutatingadmissionpolicies", mutation()),
    ("validatingadmissionpolicybindings", {"spec": {"policyName": "p", "validationActions": ["Audit", "Warn"]}}),
    ("apiservices", service(service={"name": "s", "namespace": "n"}, insecureSkipTLSVerify=True)),
    ("prioritylevelconfigurations", queues()),
    ("flowschemas", flow(distinguisherMethod={"type": "ByUser"})),
    ("deviceclasses", {"spec": {"selectors": [{"cel": {"expression": "true"}}]}}),
    ("resourceclaims", claim()),
    ("resourceclaims", claim(exactly=None, firstAvailable=[{"name": "big", "deviceClassName": "a"}])),
    (
        "resourceslices",
        slice_(devices=[{"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"memory": {"value": "1Gi"}}}]),
    ),
    ("csistoragecapacities", {"storageClassName": "a", "capacity": "1Gi"}),
    ("volumeattachments", {"spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
    ("volumeattributesclasses", {"driverName": "a.b", "parameters": {"iops": "5"}}),
    (
        "leasecandidates",
        {
            "spec": {
                "leaseName": "l",
                "binaryVersion": "1.36.0",
                "emulationVersion": "1.36.0",
                "strategy": "OldestEmulationVersion",
            }
        },
    ),
    (HOOKS, webhook(clientConfig={"service": {**CLIENT["service"], "path": ""}})),
]


@pytest.mark.parametrize(("plural", "obj"), VALID, ids=[row[0] for row in VALID])
def test_accepts(plural: str, obj: Object) -> None:
    assert problems(strategy(plural), clone(obj)) == []


ROWS: list[tuple[str, Object, Object, list[Any]]] = [
    (HOOKS, webhook(), {}, ["x", 1, "60s"]),
    ("validatingadmissionpolicies", policy(paramKind={"apiVersion": "v1", "kind": "ConfigMap"}), {}, ["x", 1, "v1/ConfigMap", "60s"]),
    ("validatingadmissionpolicybindings", {"spec": {"policyName": "p", "validationActions": ["Deny"]}}, {}, ["x", "p", "<unset>", "60s"]),
    ("apiservices", service(), {"conditions": [{"type": "Available", "status": "True"}]}, ["v1.example.com", "Local", "True", "60s"]),
    ("apiservices", service(service={"name": "s", "namespace": "n"}), {"conditions": [{"type": "Available", "status": "False", "reason": "ServiceNotFound"}]}, ["v1.example.com", "n/s", "False (ServiceNotFound)", "60s"]),
    ("prioritylevelconfigurations", queues(), {}, ["x", "Limited", 30, 64, 8, 50, "60s"]),
    ("prioritylevelconfigurations", level(), {}, ["x", "Limited", 30, "<none>", "<none>", "<none>", "60s"]),
    ("flowschemas", flow(), {}, ["x", "p", 1000, "<none>", "60s", "?"]),
    ("resourceclaims", claim(), {}, ["x", "pending", "60s"]),
    ("resourceclaims", claim(), {"allocation": {}, "reservedFor": [{}]}, ["x", "allocated,reserved", "60s"]),
    ("resourceslices", slice_(), {}, ["x", "n", "d.example.com", "p", "60s"]),
    ("csistoragecapacities", {"storageClassName": "a", "capacity": "1Gi"}, {}, ["x", "a", "1Gi"]),
    ("volumeattachments", {"spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}, {"attached": True}, ["x", "a.b", "v", "n", True, "60s"]),
    ("volumeattributesclasses", {"driverName": "a.b", "parameters": {"iops": "5"}}, {}, ["x", "a.b", "60s"]),
]  # fmt: skip


@pytest.mark.parametrize(("plural", "obj", "status", "cells"), ROWS, ids=[f"{row[0]} {row[3][1]}" for row in ROWS])
def test_row(plural: str, obj: Object, status: Object, cells: list[Any]) -> None:
    kind = strategy(plural)
    made = created(kind, clone(obj))
    if status:
        made["status"] = status
    made["metadata"]["creationTimestamp"] = "2026-11-30T11:59:00Z"
    assert kind.row(made, NOW) == cells


IMMUTABLE: list[tuple[str, Object, Object, str]] = [
    ("resourceclaims", claim(), claim(name="other"), "spec: Invalid value:"),
    ("resourceclaimtemplates", {"spec": claim()}, {"spec": claim(name="other")}, "spec: Invalid value:"),
    ("resourceslices", slice_(), slice_(driver="e.example.com"), 'spec.driver: Invalid value: "e.example.com": field is immutable'),
    ("csistoragecapacities", {"storageClassName": "a"}, {"storageClassName": "b"}, 'storageClassName: Invalid value: "b": field is immutable'),
    ("volumeattachments", VALID[14][1], {"spec": {**VALID[14][1]["spec"], "nodeName": "m"}}, "spec: Invalid value:"),
    ("volumeattributesclasses", VALID[15][1], {**VALID[15][1], "driverName": "c.d"}, "driverName: Forbidden: updates to driverName are forbidden."),
]  # fmt: skip


@pytest.mark.parametrize(("plural", "obj", "change", "message"), IMMUTABLE, ids=[row[0] for row in IMMUTABLE])
def test_immutable_fields(plural: str, obj: Object, change: Object, message: str) -> None:
    kind = strategy(plural)
    old = created(kind, clone(obj))
    new = {**clone(old), **clone(change)}
    assert any(text.startswith(message) for text in update_problems(kind, new, old))


def test_webhooks_are_defaulted() -> None:
    made = created(strategy("mutatingwebhookconfigurations"), webhook())["webhooks"][0]
    assert (made["failurePolicy"], made["matchPolicy"], made["timeoutSeconds"]) == ("Fail", "Equivalent", 10)
    assert (made["reinvocationPolicy"], made["namespaceSelector"], made["objectSelector"]) == ("Never", {}, {})
    assert made["clientConfig"]["service"]["port"] == 443
    assert made["rules"][0]["scope"] == "*"
    assert "reinvocationPolicy" not in created(strategy(HOOKS), webhook())["webhooks"][0]


def test_an_allocated_claim_keeps_its_allocation() -> None:
    kind = strategy("resourceclaims")
    old = {**created(kind, claim()), "status": {"allocation": {"devices": {}}}}
    changed = {**old, "status": {"allocation": {"devices": {"results": []}}}}
    assert [str(one).partition(":")[0] for one in kind.validate_status_update(context("update"), changed, old)] == [
        "status.allocation"
    ]
    reserved = {**old, "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    texts = [str(one) for one in kind.validate_status_update(context("update"), reserved, old)]
    assert texts == ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]


@pytest.mark.parametrize(
    ("resource", "obj"), bootstrap.objects(), ids=[one["metadata"]["name"] for _, one in bootstrap.objects()]
)
def test_bootstrap_objects_are_valid_and_already_defaulted(resource: str, obj: Object) -> None:
    kind: Strategy = strategy(resource.partition(".")[0])
    made = clone(obj)
    assert problems(kind, made) == []
    assert made["spec"] == obj["spec"]


def test_levels_that_schemas_name_exist() -> None:
    levels = bootstrap.MANDATORY_LEVELS | bootstrap.SUGGESTED_LEVELS
    schemas = bootstrap.MANDATORY_SCHEMAS | bootstrap.SUGGESTED_SCHEMAS
    assert {one["priorityLevelConfiguration"]["name"] for one in schemas.values()} == set(levels)


@pytest.mark.parametrize(("deck", "hand", "bits"), [(64, 8, 48), (128, 6, 42), (512, 8, 72), (1, 1, 0)])
def test_entropy(deck: int, hand: int, bits: int) -> None:
    assert entropy_bits(deck, hand) == bits
