# ruff: noqa: E501 - messages are searched for, so they stay on one line
"""Kinds whose rules fit into a table: one row for each thing they refuse, one for each row they print."""

from typing import Any

import pytest

from apimachinery.meta import clone
from tests.support.kinds import NOW, context, created, problems, strategy, update_problems

Object = dict[str, Any]

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"}}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
GROUP = "rbac.authorization.k8s.io"


def cron(**spec: Any) -> Object:
    return {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}, **spec}}


def ingress(**spec: Any) -> Object:
    return {"spec": spec}


def paths(**path: Any) -> list[Object]:
    return [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": BACKEND, **path}]}}]


REFUSED: list[tuple[str, Object, str]] = [
    ("leases", {"spec": {"leaseDurationSeconds": 0}}, "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"),
    (
        "leases",
        {"spec": {"leaseTransitions": -1}},
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ),
    ("endpointslices", {}, "addressType: Required value"),
    (
        "endpointslices",
        {"addressType": "IPv4", "endpoints": [{"addresses": []}]},
        "endpoints[0].addresses: Required value: must contain at least 1 address",
    ),
    (
        "endpointslices",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["::1"]}]},
        'endpoints[0].addresses[0]: Invalid value: "::1": must be an IPv4 address',
    ),
    (
        "endpointslices",
        {"addressType": "IPv4", "ports": [{"name": "a"}, {"name": "a"}]},
        'ports[1].name: Duplicate value: "a"',
    ),
    ("endpoints", {"subsets": [{}]}, "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"),
    (
        "jobs",
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}}},
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ),
    ("jobs", {"spec": {"template": TEMPLATE, "parallelism": -1}}, "spec.parallelism: Invalid value: -1"),
    (
        "jobs",
        {"spec": {"template": TEMPLATE, "completionMode": "Indexed", "parallelism": 2}},
        "spec.completions: Required value: when completion mode is Indexed",
    ),
    ("cronjobs", cron(schedule=""), "spec.schedule: Required value"),
    (
        "cronjobs",
        cron(schedule="* * * *"),
        'spec.schedule: Invalid value: "* * * *": expected exactly 5 fields, found 4: [* * * *]',
    ),
    (
        "cronjobs",
        cron(schedule="61 * * * *"),
        'spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61',
    ),
    ("cronjobs", cron(concurrencyPolicy="Maybe"), 'spec.concurrencyPolicy: Unsupported value: "Maybe"'),
    ("cronjobs", {"metadata": {"name": "x" * 53}, **cron()}, "metadata.name: Invalid value:"),
    ("ingresses", ingress(), "spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"),
    (
        "ingresses",
        ingress(rules=paths(path="x")),
        'spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path',
    ),
    (
        "ingresses",
        ingress(rules=[{"http": {"paths": [{"path": "/", "backend": BACKEND}]}}]),
        "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
    ),
    (
        "ingresses",
        ingress(rules=[{"host": "1.2.3.4"}]),
        'spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
    ),
    ("ingresses", ingress(defaultBackend={}), 'spec.defaultBackend: Invalid value: "": resource or service backend is required'),
    ("ingressclasses", {"spec": {"controller": "x"}}, 'spec.controller: Invalid value: "x": must be a domain-prefixed path'),
    (
        "networkpolicies",
        {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/8"]}}]}]}},
        'spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/8": must be a strict subset of `cidr`',
    ),
    ("networkpolicies", {"spec": {"egress": [{"to": [{}]}]}}, "spec.egress[0].to[0]: Required value: must specify a peer"),
    (
        "networkpolicies",
        {"spec": {"ingress": [{"ports": [{"port": 90, "endPort": 80}]}]}},
        "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
    ),
    (
        "poddisruptionbudgets",
        {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
        "spec: Invalid value:",
    ),
    (
        "priorityclasses",
        {"value": 10**9 + 1},
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
    ),
    (
        "priorityclasses",
        {"metadata": {"name": "system-x"}},
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only.",
    ),
    ("roles", {"rules": [{}]}, "rules[0].verbs: Required value: verbs must contain at least one value"),
    (
        "roles",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
    ),
    (
        "clusterroles",
        {"rules": [{"verbs": ["get"], "resources": ["pods"]}]},
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
    ),
    ("clusterrolebindings", {"roleRef": {"kind": "Role", "name": "r"}}, 'roleRef.kind: Unsupported value: "Role"'),
    (
        "rolebindings",
        {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Robot", "name": "x"}]},
        'subjects[0].kind: Unsupported value: "Robot": supported values: "Group", "ServiceAccount", "User"',
    ),
    ("storageclasses", {}, "provisioner: Required value"),
    ("csinodes", {"spec": {"drivers": [{"name": "a.b"}]}}, "spec.drivers[0].nodeID: Required value"),
    ("runtimeclasses", {"handler": "A"}, 'handler: Invalid value: "A": a lowercase RFC 1123 label'),
    ("ipaddresses", {"spec": {"parentRef": {"name": "a"}}}, "spec.parentRef.resource: Required value"),
    ("servicecidrs", {"spec": {"cidrs": ["10.0.0.0"]}}, 'spec.cidrs[0]: Invalid value: "10.0.0.0": must be a valid CIDR value'),
    ("controllerrevisions", {"revision": 1}, "data: Required value: data is mandatory"),
    (
        "certificatesigningrequests",
        {"spec": {"request": "aGk=", "usages": ["client auth"], "signerName": "x"}},
        'spec.request: Invalid value: "aGk=": PEM block type must be CERTIFICATE REQUEST',
    ),
]


@pytest.mark.parametrize(("plural", "obj", "message"), REFUSED, ids=[f"{row[0]} {row[2][:50]}" for row in REFUSED])
def test_refuses(plural: str, obj: Object, message: str) -> None:
    found = problems(strategy(plural), clone(obj))
    assert any(text.startswith(message) for text in found), found


VALID: list[tuple[str, Object]] = [
    ("cronjobs", cron(schedule="@hourly", timeZone="UTC")),
    ("cronjobs", cron(schedule="0 9-17/2 1,15 jan-mar mon-fri")),
    ("ingresses", ingress(rules=paths())),
    ("networkpolicies", {"spec": {"ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]}}),
    ("poddisruptionbudgets", {"spec": {"minAvailable": "50%"}}),
    ("priorityclasses", {"metadata": {"name": "system-node-critical"}, "value": 2000001000}),
    ("clusterroles", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]}),
    ("csidrivers", {}),
    ("endpointslices", {"addressType": "FQDN", "endpoints": [{"addresses": ["a.example.com"]}]}),
]


@pytest.mark.parametrize(("plural", "obj"), VALID, ids=[row[0] for row in VALID])
def test_accepts(plural: str, obj: Object) -> None:
    assert problems(strategy(plural), clone(obj)) == []


JOB = {"spec": {"template": TEMPLATE, "completions": 3}}
ROWS: list[tuple[str, Object, Object, list[Any]]] = [
    ("leases", {"spec": {"holderIdentity": "me"}}, {}, ["x", "me", "60s"]),
    (
        "endpointslices",
        {"addressType": "IPv4", "ports": [{"port": 80}, {"name": "any"}], "endpoints": [{"addresses": ["10.0.0.1"]}] * 5},
        {},
        ["x", "IPv4", "80,any", "10.0.0.1,10.0.0.1,10.0.0.1 + 2 more...", "60s"],
    ),
    ("endpointslices", {"addressType": "IPv4"}, {}, ["x", "IPv4", "<unset>", "<unset>", "60s"]),
    (
        "jobs",
        JOB,
        {
            "succeeded": 3,
            "conditions": [{"type": "Complete", "status": "True"}],
            "startTime": "2026-11-30T11:59:00Z",
            "completionTime": "2026-11-30T11:59:10Z",
        },
        ["x", "Complete", "3/3", "10s", "60s", "c", "i:1", "batch.kubernetes.io/controller-uid=u1"],
    ),
    ("jobs", JOB, {"startTime": "2026-11-30T11:59:30Z"}, ["x", "Running", "0/3", "30s", "60s"]),
    ("cronjobs", cron(), {}, ["x", "*/5 * * * *", "<none>", "False", 0, "<none>", "60s", "c", "i:1", "<none>"]),
    (
        "ingresses",
        ingress(rules=[{**paths()[0], "host": "a.b"}], tls=[{}], ingressClassName="n"),
        {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
        ["x", "n", "a.b", "1.2.3.4", "80, 443", "60s"],
    ),
    ("networkpolicies", {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}, {}, ["x", "a=b", "60s"]),
    ("poddisruptionbudgets", {"spec": {"maxUnavailable": "30%"}}, {"disruptionsAllowed": 2}, ["x", "N/A", "30%", 2, "60s"]),
    ("priorityclasses", {"value": 5}, {}, ["x", 5, False, "60s", "PreemptLowerPriority"]),
    (
        "rolebindings",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
        },
        {},
        ["x", "Role/r", "60s", "u", "", "n/s"],
    ),
    (
        "storageclasses",
        {"provisioner": "p", "metadata": {"name": "x", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
        {},
        ["x (default)", "p", "Delete", "Immediate", False, "60s"],
    ),
    ("csidrivers", {}, {}, ["x", True, False, False, "<unset>", False, "Persistent", "60s"]),
    (
        "ipaddresses",
        {"spec": {"parentRef": {"resource": "services", "name": "a", "namespace": "n"}}},
        {},
        ["x", "services/n/a"],
    ),
    (
        "controllerrevisions",
        {"data": {}, "revision": 2, "metadata": {"name": "x", "ownerReferences": [{"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "d", "controller": True}]}},
        {},
        ["x", "daemonset.apps/d", 2, "60s"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("plural", "obj", "status", "cells"), ROWS, ids=[f"{row[0]} {row[3][1]}" for row in ROWS])
def test_row(plural: str, obj: Object, status: Object, cells: list[Any]) -> None:
    kind = strategy(plural)
    made = created(kind, clone(obj))
    made["status"] = status
    made["metadata"]["creationTimestamp"] = "2026-11-30T11:59:00Z"
    assert kind.row(made, NOW)[: len(cells)] == cells


def test_policy_types_follow_the_rules_given() -> None:
    assert created(strategy("networkpolicies"), {"spec": {"egress": [{}]}})["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert created(strategy("networkpolicies"), {"spec": {}})["spec"]["policyTypes"] == ["Ingress"]


def test_a_job_labels_and_selects_its_pods_by_its_uid() -> None:
    spec = created(strategy("jobs"), clone(JOB))["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}
    assert spec["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/job-name": "x",
        "job-name": "x",
        "batch.kubernetes.io/controller-uid": "u1",
        "controller-uid": "u1",
    }


@pytest.mark.parametrize(
    ("options", "count"), [({}, 1), ({"propagationPolicy": "Background"}, 0), ({"orphanDependents": True}, 0)]
)
def test_deleting_a_job_without_a_policy_warns_of_orphans(options: Object, count: int) -> None:
    kind, ctx = strategy("jobs"), context("delete")
    assert not kind.begin_delete(ctx, created(kind, clone(JOB)), options)
    assert len(ctx.warnings) == count


IMMUTABLE: list[tuple[str, Object, Object, str]] = [
    ("jobs", JOB, {"spec": {"completions": 4}}, "spec.completions: Invalid value: 4: field is immutable"),
    (
        "rolebindings",
        {"roleRef": {"kind": "Role", "name": "r"}},
        {"roleRef": {"kind": "Role", "name": "other", "apiGroup": GROUP}},
        "roleRef: Invalid value:",
    ),
    ("priorityclasses", {"value": 1}, {"value": 2}, "value: Forbidden: may not be changed in an update."),
    (
        "storageclasses",
        {"provisioner": "p"},
        {"provisioner": "q"},
        "provisioner: Forbidden: updates to provisioner are forbidden.",
    ),
    ("runtimeclasses", {"handler": "a"}, {"handler": "b"}, 'handler: Invalid value: "b": field is immutable'),
    (
        "endpointslices",
        {"addressType": "IPv4"},
        {"addressType": "IPv6"},
        'addressType: Invalid value: "IPv6": field is immutable',
    ),
]


@pytest.mark.parametrize(("plural", "obj", "change", "message"), IMMUTABLE, ids=[row[0] for row in IMMUTABLE])
def test_immutable_fields(plural: str, obj: Object, change: Object, message: str) -> None:
    kind = strategy(plural)
    old = created(kind, clone(obj))
    new = clone(old)
    for field, value in change.items():
        new[field] = {**new[field], **value} if isinstance(value, dict) and field == "spec" else value
    found = update_problems(kind, new, old)
    assert any(text.startswith(message) for text in found), found


# --------------------------------------------------------------------------- certificate signing requests


def test_the_requestor_is_who_asks_whatever_the_body_says() -> None:
    kind = strategy("certificatesigningrequests")
    obj: Object = {"spec": {"username": "admin", "groups": ["system:masters"]}, "metadata": {"name": "x"}}
    kind.default(obj)
    kind.prepare_for_create(context(), obj)
    assert obj["spec"] == {"username": "alice"}


def test_approval_changes_conditions_and_nothing_else() -> None:
    kind = strategy("certificatesigningrequests")
    (approval,) = kind.subresources
    assert approval.validate is not None
    stored: Object = {"metadata": {"name": "x"}, "spec": {"username": "a"}, "status": {}}
    body = {"spec": {"username": "b"}, "status": {"certificate": "x", "conditions": [{"type": "Approved", "status": "True"}]}}
    new = approval.change(context(), clone(stored), body)
    assert approval.validate(context(), new, stored) == []
    assert new["spec"] == {"username": "a"}
    assert "certificate" not in new["status"]
    assert new["status"]["conditions"][0]["lastUpdateTime"] == "2026-11-30T12:00:00Z"
    new["metadata"]["creationTimestamp"] = "2026-11-30T11:59:00Z"
    assert kind.row(new, NOW)[-1] == "Approved"


def test_a_decision_may_not_be_taken_back() -> None:
    kind = strategy("certificatesigningrequests")
    (approval,) = kind.subresources
    assert approval.validate is not None
    stored: Object = {"metadata": {}, "spec": {}, "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    body = {"metadata": {}, "status": {"conditions": [{"type": "Denied", "status": "True"}]}}
    new = approval.change(context(), clone(stored), body)
    assert len(approval.validate(context(), new, stored)) == 1
