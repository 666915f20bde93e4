"""ValidatingAdmissionPolicies in a running server: the examples of Kubernetes' documentation, and how they may fail."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.apiserver import Answer, TestServer, running_apiserver

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"
APPS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}
CONFIG = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}

ENVIRONMENT = "'environment' in namespaceObject.metadata.labels ? namespaceObject.metadata.labels['environment'] : 'prod'"
EXEMPT = "has(object.metadata.labels) && 'exempt' in object.metadata.labels && object.metadata.labels['exempt'] == 'true'"


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as started:
        yield started


def deployment(name: str, replicas: int, image: str = "nginx", **labels: str) -> dict[str, Any]:
    chosen = {"app": "a", **labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": chosen},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": chosen}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    }


def config_map(name: str = "m", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def bind(server: TestServer, spec: dict[str, Any], rule: dict[str, Any] = APPS, *actions: str, **binding: Any) -> None:
    policy = {"matchConstraints": {"resourceRules": [rule]}, **spec}
    for path, kind, name, made in (
        (POLICIES, "ValidatingAdmissionPolicy", "policy.example.com", policy),
        (
            BINDINGS,
            "ValidatingAdmissionPolicyBinding",
            "binding.example.com",
            {"policyName": "policy.example.com", "validationActions": list(actions or ("Deny",)), **binding},
        ),
    ):
        obj = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": made}
        answer = await server.request("POST", path, obj)
        assert answer.status == 201, answer.body


DENIED = "ValidatingAdmissionPolicy 'policy.example.com' with binding 'binding.example.com' denied request: "


def refused(answer: Answer, message: str, code: int = 422, reason: str = "Invalid") -> None:
    assert answer.status == code, answer.body
    status = answer.json
    assert status["reason"] == reason
    assert status["message"].endswith(f" is forbidden: {DENIED}{message}"), status["message"]
    assert status["details"]["causes"] == [{"message": f"{DENIED}{message}"}]


async def test_the_first_example(server: TestServer) -> None:
    await bind(server, {"validations": [{"expression": "object.spec.replicas <= 5"}]})
    answer = await server.request("POST", DEPLOYMENTS, deployment("big", 6))
    refused(answer, "failed expression: object.spec.replicas <= 5")
    assert answer.json["message"].startswith('deployments.apps "big" is forbidden: ')
    assert answer.json["details"]["kind"] == "deployments"
    assert (await server.request("POST", DEPLOYMENTS, deployment("small", 5))).status == 201
    patch = {"spec": {"replicas": 7}}
    merge = "application/merge-patch+json"
    refused(
        await server.request("PATCH", f"{DEPLOYMENTS}/small", patch, content_type=merge),
        "failed expression: object.spec.replicas <= 5",
    )
    assert (await server.request("DELETE", f"{BINDINGS}/binding.example.com")).status == 200
    assert (await server.request("POST", DEPLOYMENTS, deployment("free", 50))).status == 201


@pytest.mark.parametrize(
    ("validation", "message", "code", "reason"),
    [
        (
            {"expression": "object.spec.replicas <= 1", "messageExpression": "'at most 1, not ' + string(object.spec.replicas)"},
            "at most 1, not 3",
            422,
            "Invalid",
        ),
        ({"expression": "false", "message": " no more ", "reason": "Forbidden"}, "no more", 403, "Forbidden"),
        ({"expression": "false", "message": "m", "messageExpression": "object.spec.gone"}, "m", 422, "Invalid"),
        ({"expression": "false", "message": "m", "messageExpression": "'a\\nb'"}, "m", 422, "Invalid"),
        ({"expression": "false", "message": "big", "reason": "RequestEntityTooLarge"}, "big", 413, "RequestEntityTooLarge"),
        (
            {"expression": "object.spec.gone == 1"},
            "expression 'object.spec.gone == 1' resulted in error: no such key: gone",
            422,
            "Invalid",
        ),
    ],
)
async def test_what_a_denial_says(server: TestServer, validation: dict[str, str], message: str, code: int, reason: str) -> None:
    if "gone" in validation.get("messageExpression", ""):
        validation = {**validation, "messageExpression": f"string({validation['messageExpression']})"}
    await bind(server, {"validations": [validation]})
    refused(await server.request("POST", DEPLOYMENTS, deployment("web", 3)), message, code, reason)


async def test_variables_and_match_conditions(server: TestServer) -> None:
    """The documentation's image-matches-namespace-environment."""
    spec = {
        "variables": [
            {
                "name": "environment",
                "expression": ENVIRONMENT,
            },
            {
                "name": "exempt",
                "expression": EXEMPT,
            },
            {"name": "containers", "expression": "object.spec.template.spec.containers"},
            {"name": "containersToCheck", "expression": "variables.containers.filter(c, c.image.contains('example.com/'))"},
        ],
        "matchConditions": [{"name": "not-jane", "expression": "request.userInfo.username != 'jane'"}],
        "validations": [
            {
                "expression": "variables.exempt || variables.containersToCheck.all(c, c.image.startsWith(variables.environment + '.'))",  # noqa: E501
                "messageExpression": "'only ' + variables.environment + ' images are allowed in namespace ' + namespaceObject.metadata.name",  # noqa: E501
            }
        ],
    }
    await bind(server, spec)
    refused(
        await server.request("POST", DEPLOYMENTS, deployment("a", 1, "dev.example.com/nginx")),
        "only prod images are allowed in namespace default",
    )
    assert (await server.request("POST", DEPLOYMENTS, deployment("b", 1, "prod.example.com/nginx"))).status == 201
    assert (await server.request("POST", DEPLOYMENTS, deployment("c", 1, "dev.example.com/nginx", exempt="true"))).status == 201
    as_jane = {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}
    body = deployment("d", 1, "dev.example.com/nginx")
    assert (await server.request("POST", DEPLOYMENTS, body, headers=as_jane)).status == 201


async def test_parameters(server: TestServer) -> None:
    """Of a built-in kind, by name and by selector; what is not there denies or allows, as the binding says."""
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [
            {"expression": "object.spec.replicas <= int(params.data.max)", "messageExpression": "'at most ' + params.data.max"}
        ],
    }
    await bind(server, spec, paramRef={"name": "limits", "parameterNotFoundAction": "Deny"})
    missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    refused(await server.request("POST", DEPLOYMENTS, deployment("a", 3)), missing)
    assert (await server.request("POST", MAPS, config_map("limits", max="2"))).status == 201
    refused(await server.request("POST", DEPLOYMENTS, deployment("a", 3)), "at most 2")
    assert (await server.request("POST", DEPLOYMENTS, deployment("b", 2))).status == 201
    selector = {"matchLabels": {"limits": "yes"}}
    chosen = {"spec": {"paramRef": {"name": None, "selector": selector, "parameterNotFoundAction": "Allow"}}}
    path, merge = f"{BINDINGS}/binding.example.com", "application/merge-patch+json"
    assert (await server.request("PATCH", path, chosen, content_type=merge)).status == 200
    assert (await server.request("POST", DEPLOYMENTS, deployment("c", 3))).status == 201
    labelled = config_map("other", max="1")
    labelled["metadata"]["labels"] = {"limits": "yes"}
    assert (await server.request("POST", MAPS, labelled)).status == 201
    refused(await server.request("POST", DEPLOYMENTS, deployment("d", 3)), "at most 1")


async def test_an_unknown_kind_of_parameters(server: TestServer) -> None:
    spec = {
        "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit"},
        "validations": [{"expression": "object.spec.replicas <= params.maxReplicas"}],
    }
    await bind(server, spec, paramRef={"name": "x", "parameterNotFoundAction": "Allow"})
    answer = await server.request("POST", DEPLOYMENTS, deployment("a", 3))
    assert answer.status == 422
    assert "failed to find resource referenced by paramKind: 'rules.example.com/v1, Kind=ReplicaLimit'" in answer.json["message"]
    merge = "application/merge-patch+json"
    path = f"{POLICIES}/policy.example.com"
    assert (await server.request("PATCH", path, {"spec": {"failurePolicy": "Ignore"}}, content_type=merge)).status == 200
    assert (await server.request("POST", DEPLOYMENTS, deployment("a", 3))).status == 201


async def test_custom_resources_as_parameters(server: TestServer) -> None:
    """In any version that is served, as they are now: the one in the object's own namespace, as the binding names none."""
    limit = {"type": "object", "properties": {"most": {"type": "integer"}}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": limit}} for name in ("v1", "v2")
    ]
    names = {"plural": "limits", "singular": "limit", "kind": "Limit"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await server.request("POST", path, definition)).status == 201
    limits = "/apis/example.com/v1/namespaces/default/limits"
    body = {"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "l"}, "most": 1}
    assert (await server.request("POST", limits, body)).status == 201
    validation = {
        "expression": "object.spec.replicas <= params.most",
        "messageExpression": "params.apiVersion + ' allows ' + string(params.most)",
    }
    spec = {"paramKind": {"apiVersion": "example.com/v2", "kind": "Limit"}, "validations": [validation]}
    await bind(server, spec, paramRef={"name": "l", "parameterNotFoundAction": "Deny"})
    refused(await server.request("POST", DEPLOYMENTS, deployment("a", 3)), "example.com/v2 allows 1")
    changed = await server.request("PATCH", f"{limits}/l", {"most": 3}, content_type="application/merge-patch+json")
    assert changed.status == 200
    assert (await server.request("POST", DEPLOYMENTS, deployment("a", 3))).status == 201
    assert (await server.request("DELETE", f"{limits}/l")).status == 200
    text = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    refused(await server.request("POST", DEPLOYMENTS, deployment("b", 1)), text)


async def test_failure_policy_ignore(server: TestServer) -> None:
    await bind(server, {"failurePolicy": "Ignore", "validations": [{"expression": "object.spec.gone == 1"}]})
    assert (await server.request("POST", DEPLOYMENTS, deployment("a", 3))).status == 201


async def test_warn_and_audit(server: TestServer) -> None:
    spec = {
        "validations": [{"expression": "has(object.data.a)", "message": "there is <no> a"}],
        "auditAnnotations": [
            {"key": "keys", "valueExpression": "string(object.data.size()) + ' keys'"},
            {"key": "none", "valueExpression": "has(object.data.zz) ? 'z' : ' '"},
        ],
    }
    await bind(server, spec, {**CONFIG, "operations": ["CREATE"]}, "Warn", "Audit")
    answer = await server.request("POST", MAPS, config_map("m", b="1", c="2"))
    assert answer.status == 201
    text = "Validation failed for ValidatingAdmissionPolicy 'policy.example.com' with binding 'binding.example.com'"
    assert answer.headers["Warning"] == f'299 - "{text}: there is <no> a"'
    annotations = (await server.audited(answer.headers["Audit-Id"]))["annotations"]
    assert annotations["policy.example.com/keys"] == "2 keys"
    assert "policy.example.com/none" not in annotations
    failure = annotations["validation.policy.admission.k8s.io/validation_failure"]
    assert "\\u003cno\\u003e" in failure
    assert json.loads(failure) == [
        {
            "message": "there is <no> a",
            "policy": "policy.example.com",
            "binding": "binding.example.com",
            "expressionIndex": 0,
            "validationActions": ["Warn", "Audit"],
        }
    ]
    shown = (await server.request("GET", "/metrics")).body.decode()
    counted = 'apiserver_validating_admission_policy_check_total{enforcement_action="warn",error_type="invalid_error",policy="policy.example.com",policy_binding="binding.example.com"} 1.0'  # noqa: E501
    assert sorted(counted) in [sorted(line) for line in shown.splitlines()]


async def test_the_authorizer_is_asked(server: TestServer) -> None:
    """Who may not ``use`` a name may not write it; a deletion is seen as well."""
    check = "authorizer.group('').resource('configmaps').namespace(request.namespace).name(request.name).check('use').allowed()"
    await bind(server, {"validations": [{"expression": check, "message": "you may not"}]}, CONFIG)
    assert (await server.request("POST", MAPS, config_map("m"))).status == 201
    grant = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "nobody-special", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    answer = await server.request("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", grant)
    assert answer.status == 201
    await asyncio.sleep(0.05)
    refused(await server.request("DELETE", f"{MAPS}/m", token="viewer-token"), "you may not")
    assert (await server.request("DELETE", f"{MAPS}/m")).status == 200


async def test_selectors_and_exclusions(server: TestServer) -> None:
    match = {
        "resourceRules": [CONFIG],
        "excludeResourceRules": [{**CONFIG, "resourceNames": ["free"]}],
        "objectSelector": {"matchLabels": {"watched": "yes"}},
    }
    spec = {"matchConstraints": match, "validations": [{"expression": "false", "message": "no"}]}
    await bind(server, spec, matchResources={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}})
    watched = {"labels": {"watched": "yes"}}
    for name, labels, expected in (("m", watched, 422), ("free", watched, 201), ("plain", {}, 201)):
        obj = config_map(name)
        obj["metadata"].update(labels)
        assert (await server.request("POST", MAPS, obj)).status == expected, name
    elsewhere = config_map("m")
    elsewhere["metadata"].update(watched)
    assert (await server.request("POST", MAPS.replace("default", "kube-public"), elsewhere)).status == 201


async def test_another_version_means_the_same(server: TestServer) -> None:
    """A rule about extensions of the past does not match, one about another served version of the kind does."""
    rule = {**APPS, "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}
    await bind(server, {"validations": [{"expression": "object.apiVersion == 'autoscaling/v2'", "message": "seen as v1"}]}, rule)
    obj = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    }
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    refused(await server.request("POST", path, obj), "seen as v1")
