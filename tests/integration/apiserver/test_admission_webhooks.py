"""Admission webhooks on a real server: what they are asked, what becomes of their answers, and of their failures."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.apiserver import TestServer, prepare, running_apiserver
from tests.support.webhook_server import HookServer, Review, hook_server, reviewed

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"]}


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as made:
        yield made


@pytest.fixture
async def hooks() -> AsyncIterator[HookServer]:
    async with hook_server("hook.default.svc", "localhost") as made:
        yield made


def hook(hooks: HookServer, path: str, name: str = "a.example.com", **changes: Any) -> dict[str, Any]:
    made = {
        "name": name,
        "clientConfig": hooks.client_config(path),
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {**made, **changes}


async def configure(server: TestServer, kind: str, *webhooks: dict[str, Any], name: str = "test") -> None:
    """And wait until they count."""
    plural = f"{kind.lower()}webhookconfigurations"
    obj = {"metadata": {"name": name}, "webhooks": list(webhooks)}
    answer = await server.request("POST", f"{GROUP}/{plural}", obj)
    assert answer.status == 201, answer.body
    await asyncio.sleep(0)


def config_map(name: str = "one", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"a": "1"}, **more}


def patched(review: Review, *operations: dict[str, Any]) -> Review:
    return reviewed(review, patch=base64.b64encode(json.dumps(operations).encode()).decode(), patchType="JSONPatch")


def added(key: str, value: str) -> dict[str, Any]:
    return {"op": "add", "path": f"/data/{key}", "value": value}


async def test_a_validating_webhook_is_asked_and_may_refuse(server: TestServer, hooks: HookServer) -> None:
    def judge(review: Review) -> Review:
        obj = review["request"]["object"]
        bad = obj is not None and obj["data"].get("a") == "bad"
        status = {"message": "it is bad", "reason": "Bad", "code": 422}
        return reviewed(review, not bad, status=status, warnings=["beware"], auditAnnotations={"k": "v"})

    hooks.on("/judge", judge)
    await configure(server, "Validating", hook(hooks, "/judge", timeoutSeconds=7))
    answer = await server.request("POST", f"{MAPS}?fieldManager=me&dryRun=", config_map())
    assert answer.status == 201
    assert answer.headers["Warning"] == '299 - "beware"'
    (asked,) = hooks.asked
    assert (asked.query, asked.headers["Content-Type"]) == ({"timeout": "7s"}, "application/json")
    review = asked.review
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    request = review["request"]
    assert request.pop("uid")
    obj = request.pop("object")
    assert (obj["kind"], obj["apiVersion"], obj["data"]) == ("ConfigMap", "v1", {"a": "1"})
    assert obj["metadata"]["uid"]
    gvk, gvr = ({"group": "", "version": "v1", **last} for last in ({"kind": "ConfigMap"}, {"resource": "configmaps"}))
    assert request == {
        "kind": gvk,
        "resource": gvr,
        "requestKind": gvk,
        "requestResource": gvr,
        "name": "one",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "uid": "1", "groups": ["system:masters", "system:authenticated"]},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
    }
    refused = await server.request("PUT", f"{MAPS}/one", {**config_map(), "data": {"a": "bad"}})
    assert (refused.status, refused.json["message"], refused.json["reason"]) == (
        422,
        'admission webhook "a.example.com" denied the request: it is bad',
        "Bad",
    )
    request = hooks.requests("/judge")[1]
    assert (request["operation"], request["oldObject"]["data"]) == ("UPDATE", {"a": "1"})
    event = await server.audited(answer.headers["Audit-Id"])
    assert event["annotations"]["a.example.com/k"] == "v"


async def test_a_name_that_the_server_makes_is_known_to_those_who_validate(server: TestServer, hooks: HookServer) -> None:
    for kind in ("Mutating", "Validating"):
        hooks.on(f"/{kind}", reviewed)
        await configure(server, kind, hook(hooks, f"/{kind}"))
    made = (await server.request("POST", MAPS, {"metadata": {"generateName": "m-"}})).json["metadata"]["name"]
    assert [each.get("name") for kind in ("Mutating", "Validating") for each in hooks.requests(f"/{kind}")] == [None, made]


async def test_mutating_webhooks_follow_one_another(server: TestServer, hooks: HookServer) -> None:
    hooks.on("/first", lambda review: patched(review, added("first", "1")))
    hooks.on("/second", lambda review: patched(review, added("second", str(len(review["request"]["object"]["data"])))))
    await configure(server, "Mutating", hook(hooks, "/second", rules=[{**RULE, "operations": ["CREATE"]}]), name="b")
    await configure(server, "Mutating", hook(hooks, "/first"), name="a")
    answer = await server.request("POST", MAPS, config_map())
    assert answer.json["data"] == {"a": "1", "first": "1", "second": "2"}
    assert [each.path for each in hooks.asked] == ["/first", "/second"]
    event = await server.audited(answer.headers["Audit-Id"])
    mutations = {key: json.loads(value) for key, value in event["annotations"].items() if key.startswith("mutation.webhook")}
    assert mutations["mutation.webhook.admission.k8s.io/round_0_index_0"] == {
        "configuration": "a",
        "webhook": "a.example.com",
        "mutated": True,
    }
    assert len(mutations) == 2
    assert not any(key.startswith("patch.") for key in event["annotations"])


async def test_what_a_patch_makes_is_brought_to_normal_form(server: TestServer, hooks: HookServer) -> None:
    """Unknown fields go, defaults come, and one that has the wrong type is nobody's fault but the webhook's."""
    container = {"name": "sidecar", "image": "i", "unknown": 1, "ports": [{"containerPort": 80}]}
    hooks.on("/inject", lambda review: patched(review, {"op": "add", "path": "/spec/containers/-", "value": container}))
    rule = {**RULE, "resources": ["pods"], "operations": ["CREATE"]}
    await configure(server, "Mutating", hook(hooks, "/inject", rules=[rule]))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    answer = await server.request("POST", PODS, pod)
    assert answer.status == 201, answer.body
    sidecar = answer.json["spec"]["containers"][1]
    assert "unknown" not in sidecar
    assert sidecar["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert sidecar["imagePullPolicy"] == "Always"
    assert any(mount["name"].startswith("kube-api-access") for mount in sidecar["volumeMounts"])  # by the second round
    container["name"] = 7
    answer = await server.request("POST", PODS, {**pod, "metadata": {"name": "q"}})
    assert (answer.status, answer.json["reason"]) == (500, "InternalError")


async def test_those_who_wish_are_asked_again_after_a_change(server: TestServer, hooks: HookServer) -> None:
    hooks.on("/again", lambda review: patched(review, added("seen", str(len(review["request"]["object"]["data"])))))
    hooks.on("/never", lambda review: patched(review, added("more", "1")))
    again = hook(hooks, "/again", "again.example.com", reinvocationPolicy="IfNeeded")
    await configure(server, "Mutating", again, hook(hooks, "/never", "never.example.com"))
    answer = await server.request("POST", MAPS, config_map())
    assert [each.path for each in hooks.asked] == ["/again", "/never", "/again"]
    assert answer.json["data"] == {"a": "1", "seen": "3", "more": "1"}


async def test_failures_are_judged_by_the_policy(server: TestServer, hooks: HookServer) -> None:
    closed, open_ = (
        hook(hooks, "/broken", f"{name}.example.com", failurePolicy=policy)
        for name, policy in (("closed", "Fail"), ("open", "Ignore"))
    )
    hooks.on("/broken", lambda review: web.Response(status=500))
    await configure(server, "Mutating", open_)
    await configure(server, "Validating", open_)
    answer = await server.request("POST", MAPS, config_map())
    assert answer.status == 201
    event = await server.audited(answer.headers["Audit-Id"])
    for kind in ("mutation", "validating"):
        key = f"failed-open.{kind}.webhook.admission.k8s.io/round_0_index_0"
        assert event["annotations"][key] == "open.example.com"
    await configure(server, "Validating", closed, name="closed")
    answer = await server.request("POST", MAPS, config_map("two"))
    why = 'failed calling webhook "closed.example.com": failed to call webhook: '
    why += 'an error on the server ("unknown") has prevented the request from succeeding'
    assert (answer.status, answer.json["message"]) == (500, f"Internal error occurred: {why}")
    metrics = (await server.request("GET", "/metrics")).body.decode()
    assert 'webhook_fail_open_count{name="open.example.com",type="admit"} 1.0' in metrics or (
        'webhook_fail_open_count{name="open.example.com",type="admit"} 2.0' in metrics
    )
    rejection = 'error_type="calling_webhook_error",name="closed.example.com",operation="CREATE",rejection_code="500"'
    assert rejection in metrics


async def test_a_slow_webhook_costs_no_more_than_its_timeout(server: TestServer, hooks: HookServer) -> None:
    async def slow(review: Review) -> Review:
        await asyncio.sleep(3)
        return reviewed(review)

    hooks.on("/slow", slow)
    await configure(server, "Validating", hook(hooks, "/slow", timeoutSeconds=1))
    answer = await server.request("POST", MAPS, config_map())
    assert answer.status == 500
    assert '?timeout=1s": context deadline exceeded' in answer.json["message"]


async def test_a_write_ends_when_its_own_time_is_over(server: TestServer, hooks: HookServer) -> None:
    """Whatever the webhooks' timeouts and policies; they are told how much is left."""
    over = asyncio.Event()

    async def slow(review: Review) -> Review:
        await over.wait()
        return reviewed(review)

    hooks.on("/slow", slow)
    await configure(server, "Mutating", hook(hooks, "/slow", timeoutSeconds=30, failurePolicy="Ignore"))
    answer = await server.request("POST", f"{MAPS}?timeout=500ms", config_map())
    over.set()
    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
    assert [each.query for each in hooks.asked] == [{"timeout": "1s"}]
    assert (await server.request("GET", f"{MAPS}/one")).status == 404


async def test_what_was_noted_first_stays(server: TestServer, hooks: HookServer) -> None:
    """Of two webhooks of one name; and a key that is none spoils nothing else."""
    hooks.on("/first", lambda review: reviewed(review, auditAnnotations={"k": "first", "not a key": "x", "a/b": "y"}))
    hooks.on("/second", lambda review: reviewed(review, auditAnnotations={"k": "second", "more": "z"}))
    for name in ("first", "second"):
        await configure(server, "Mutating", hook(hooks, f"/{name}"), name=name)
    answer = await server.request("POST", MAPS, config_map())
    noted = (await server.audited(answer.headers["Audit-Id"]))["annotations"]
    said = {key: value for key, value in noted.items() if key.startswith("a.example.com/")}
    assert (answer.status, said) == (201, {"a.example.com/k": "first", "a.example.com/more": "z"})


async def test_services_that_are_not_there(server: TestServer, hooks: HookServer) -> None:
    service: dict[str, Any] = {"namespace": "default", "name": "hook", "path": "/x"}
    client = {"service": service, "caBundle": hooks.ca_bundle}
    await configure(server, "Validating", hook(hooks, "/x", clientConfig=client))
    answer = await server.request("POST", MAPS, config_map())
    assert answer.json["message"].endswith('Post "https://hook.default.svc:443/x?timeout=10s": service "hook" not found')
    spec = {"type": "ExternalName", "externalName": "localhost"}
    await server.request("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": spec})
    hooks.on("/x", reviewed)
    service["port"] = hooks.port
    await server.request("DELETE", f"{GROUP}/validatingwebhookconfigurations/test")
    await configure(server, "Validating", hook(hooks, "/x", clientConfig=client))
    assert (await server.request("POST", MAPS, config_map())).status == 201
    assert hooks.asked[0].headers["Host"] == f"hook.default.svc:{hooks.port}"


async def test_deletions_show_what_goes(server: TestServer, hooks: HookServer) -> None:
    hooks.on("/delete", lambda review: reviewed(review, review["request"]["name"] != "kept"))
    rule = {**RULE, "operations": ["DELETE"]}
    await configure(server, "Validating", hook(hooks, "/delete", rules=[rule]))
    await configure(server, "Mutating", hook(hooks, "/delete", rules=[rule]))
    for name in ("one", "kept"):
        await server.request("POST", MAPS, config_map(name))
    options = {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0}
    assert (await server.request("DELETE", f"{MAPS}/one", options)).status == 200
    mutating, validating = hooks.requests("/delete")
    for request in (mutating, validating):
        assert (request["object"], request["oldObject"]["data"]) == (None, {"a": "1"})
        assert request["options"] == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **options}
    refused = await server.request("DELETE", f"{MAPS}/kept")
    assert refused.json["message"] == 'admission webhook "a.example.com" denied the request without explanation'
    assert (await server.request("DELETE", MAPS)).status == 400
    assert (await server.request("GET", f"{MAPS}/kept")).status == 200


async def test_dry_runs_ask_only_those_without_side_effects(server: TestServer, hooks: HookServer) -> None:
    hooks.on("/x", reviewed)
    await configure(server, "Validating", hook(hooks, "/x", sideEffects="NoneOnDryRun"))
    assert (await server.request("POST", f"{MAPS}?dryRun=All", config_map())).status == 201
    (request,) = hooks.requests("/x")
    assert (request["dryRun"], request["options"]["dryRun"]) == (True, ["All"])


async def test_conditions_keep_writes_from_a_webhook(server: TestServer, hooks: HookServer) -> None:
    hooks.on("/x", lambda review: reviewed(review, False))
    named = {"name": "named", "expression": "object.metadata.name == 'mine' && request.userInfo.username == 'admin'"}
    await configure(server, "Validating", hook(hooks, "/x", matchConditions=[named]))
    assert (await server.request("POST", MAPS, config_map())).status == 201
    assert (await server.request("POST", MAPS, config_map("mine"))).status == 400
    assert len(hooks.asked) == 1
    metrics = (await server.request("GET", "/metrics")).body.decode()
    where = '{kind="webhook",name="a.example.com",operation="CREATE",type="validate"}'
    for name, count in (("evaluation_seconds_count", 2), ("exclusions_total", 1)):
        assert f"apiserver_admission_match_condition_{name}{where} {count}.0" in metrics


async def test_configurations_of_admission_ask_nobody(server: TestServer, hooks: HookServer) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    hooks.on("/no", lambda review: reviewed(review, False))
    await configure(server, "Validating", hook(hooks, "/no", rules=[everything]))
    assert (await server.request("POST", MAPS, config_map())).status == 400
    assert (await server.request("DELETE", f"{GROUP}/validatingwebhookconfigurations/test")).status == 200
    assert (await server.request("POST", MAPS, config_map())).status == 201


async def test_what_a_subresource_is_sent_is_reviewed(server: TestServer, hooks: HookServer) -> None:
    """A Scale and its Scale before, a Binding, an Eviction, the options of an exec."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployments, pods = "/apis/apps/v1/namespaces/default/deployments", f"{PODS}/p"
    await server.request("POST", deployments, {"metadata": {"name": "web"}, "spec": spec})
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    await server.request("POST", PODS, {"metadata": {"name": "p"}, "spec": template["spec"]})
    hooks.on("/more", lambda review: patched(review, {"op": "replace", "path": "/spec/replicas", "value": 5}))
    hooks.on("/see", reviewed)
    hooks.on("/no", lambda review: reviewed(review, False))
    rule = {**RULE, "resources": ["*/scale"]}
    await configure(server, "Mutating", hook(hooks, "/more", rules=[rule]))
    everything = [{**RULE, "resources": ["pods/binding", "pods/eviction", "deployments/scale"]}]
    connects = [{**RULE, "operations": ["CONNECT"], "resources": ["pods/exec"]}]
    await configure(
        server, "Validating", hook(hooks, "/see", rules=everything), hook(hooks, "/no", "no.example.com", rules=connects)
    )
    patch = {"spec": {"replicas": 2}}
    answer = await server.request("PATCH", f"{deployments}/web/scale", patch, content_type="application/merge-patch+json")
    assert answer.json["spec"]["replicas"] == 5
    assert (await server.request("GET", f"{deployments}/web")).json["spec"]["replicas"] == 5
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await server.request("POST", f"{pods}/binding", binding)).status == 201
    assert (await server.request("POST", f"{pods}/eviction", {"metadata": {"name": "p"}})).status == 201
    scale, bound, evicted = hooks.requests("/see")
    assert (scale["kind"]["kind"], scale["resource"]["resource"], scale["subResource"]) == ("Scale", "deployments", "scale")
    assert (scale["oldObject"]["spec"], scale["object"]["spec"]) == ({"replicas": 1}, {"replicas": 5})
    assert (bound["object"]["kind"], bound["operation"], bound["object"]["target"]["name"]) == ("Binding", "CREATE", "n")
    assert (evicted["kind"]["group"], evicted["object"]["kind"], evicted["name"]) == ("policy", "Eviction", "p")
    answer = await server.request("POST", f"{pods}/exec?command=sh&command=-c&stdin=true&container=c", "")
    assert answer.status == 400
    (request,) = hooks.requests("/no")
    assert request["object"] == {
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        "stdin": True,
        "container": "c",
        "command": ["sh", "-c"],
    }
    assert (request["operation"], request["name"], request["oldObject"]) == ("CONNECT", "p", None)


async def test_what_is_made_of_a_request_for_a_token_or_an_eviction_counts(server: TestServer, hooks: HookServer) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts"
    await server.request("POST", account, {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
    assert (await server.request("POST", PODS, pod)).status == 201
    wanted = {"audiences": ["theirs"], "expirationSeconds": 1234}
    hooks.on("/token", lambda review: patched(review, {"op": "add", "path": "/spec", "value": wanted}))
    hooks.on(
        "/evict", lambda review: patched(review, {"op": "add", "path": "/deleteOptions", "value": {"gracePeriodSeconds": 77}})
    )
    await configure(
        server,
        "Mutating",
        hook(hooks, "/token", rules=[{**RULE, "resources": ["serviceaccounts/token"]}]),
        hook(hooks, "/evict", "b.example.com", rules=[{**RULE, "resources": ["pods/eviction"]}]),
    )
    made = await server.request("POST", f"{account}/default/token", {"spec": {"audiences": ["mine"]}})
    assert made.status == 201, made.body
    assert made.json["spec"] == wanted
    claims = made.json["status"]["token"].split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["aud"] == ["theirs"]
    assert (await server.request("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})).status == 201
    assert (await server.request("GET", f"{PODS}/p")).json["metadata"]["deletionGracePeriodSeconds"] == 77
    wanted["expirationSeconds"] = 1
    assert (await server.request("POST", f"{account}/default/token", {"spec": {}})).status == 422


async def test_questions_about_identities_and_permissions_are_shown(server: TestServer, hooks: HookServer) -> None:
    """To webhooks; policies are not asked."""
    review = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    asked = {"spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
    everything = {**RULE, "operations": ["CREATE"], "resources": ["*"]}
    policy = {
        "metadata": {"name": "no"},
        "spec": {"matchConstraints": {"resourceRules": [everything]}, "validations": [{"expression": "false"}]},
    }
    binding = {"metadata": {"name": "no"}, "spec": {"policyName": "no", "validationActions": ["Deny"]}}
    for plural, obj in (("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)):
        assert (await server.request("POST", f"{GROUP}/{plural}", obj)).status == 201
    assert (await server.request("POST", f"{MAPS}?dryRun=All", config_map())).status == 422
    assert (await server.request("POST", review, asked)).json["status"] == {"allowed": False}
    groups = {"op": "add", "path": "/spec/groups", "value": ["system:masters"]}
    hooks.on("/more", lambda review: patched(review, groups))
    hooks.on("/wrong", lambda review: patched(review, {**groups, "value": 7}))
    hooks.on("/no", lambda review: reviewed(review, False))
    rules = [{**everything, "resources": ["subjectaccessreviews"]}]
    await configure(server, "Mutating", hook(hooks, "/more", rules=rules))
    answer = await server.request("POST", review, asked)
    assert (answer.status, answer.json["status"]["allowed"]) == (201, True)
    (request,) = hooks.requests("/more")
    assert (request["kind"]["kind"], request["operation"]) == ("SubjectAccessReview", "CREATE")
    assert request["object"]["spec"] == asked["spec"]
    await configure(server, "Mutating", hook(hooks, "/wrong", rules=rules), name="wrong")
    assert (await server.request("POST", review, asked)).status == 500
    await server.request("DELETE", f"{GROUP}/mutatingwebhookconfigurations/wrong")
    tokens = [{**everything, "resources": ["tokenreviews"]}]
    await configure(server, "Validating", hook(hooks, "/no", rules=tokens))
    answer = await server.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "viewer-token"}})
    assert (answer.status, answer.json["message"]) == (
        400,
        'admission webhook "a.example.com" denied the request without explanation',
    )


async def test_other_versions_of_a_resource_are_shown_as_asked_for(server: TestServer, hooks: HookServer) -> None:
    """An autoscaler of v2 is converted for a webhook that knows v1, and what it changes is converted back."""
    autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    rule = {**RULE, "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}
    percent = "/spec/targetCPUUtilizationPercentage"
    hooks.on("/v1", lambda review: patched(review, {"op": "replace", "path": percent, "value": 70}))
    hooks.on("/exact", reviewed)
    exact = hook(hooks, "/exact", "exact.example.com", rules=[rule], matchPolicy="Exact")
    await configure(server, "Mutating", hook(hooks, "/v1", rules=[rule]), exact)
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [metric]}
    answer = await server.request("POST", autoscalers, {"metadata": {"name": "web"}, "spec": spec})
    assert answer.status == 201, answer.body
    assert answer.json["apiVersion"] == "autoscaling/v2"
    assert answer.json["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    (request,) = hooks.requests("/v1")
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert (request["resource"]["version"], request["requestResource"]["version"]) == ("v1", "v2")
    assert request["object"]["apiVersion"] == "autoscaling/v1"
    assert request["object"]["spec"]["targetCPUUtilizationPercentage"] == 50
    assert not hooks.requests("/exact")


async def test_patches_that_cannot_be_used(server: TestServer, hooks: HookServer) -> None:
    missing = {"op": "remove", "path": "/data/none"}
    hooks.on("/missing", lambda review: patched(review, missing))
    hooks.on("/text", lambda review: reviewed(review, patch=base64.b64encode(b"{").decode(), patchType="JSONPatch"))
    rules = {"/missing": ["CREATE"], "/text": ["UPDATE"]}
    for path, operations in rules.items():
        made = hook(hooks, path, rules=[{**RULE, "operations": operations}], failurePolicy="Ignore")
        await configure(server, "Mutating", made, name=path[1:])
    answer = await server.request("POST", MAPS, config_map())
    assert (answer.status, answer.json["message"]) == (  # whatever the failure policy
        500,
        "Internal error occurred: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
    )
    missing |= {"op": "add", "path": "/data/new", "value": "1"}
    assert (await server.request("POST", MAPS, config_map())).status == 201
    assert (await server.request("PUT", f"{MAPS}/one", config_map())).status == 200  # no patch at all is a failed call
    missing |= {"path": "/metadata/namespace", "value": "other"}
    answer = await server.request("POST", MAPS, config_map("two"))
    why = "the namespace of the provided object does not match the namespace sent on the request"
    assert (answer.status, answer.json["message"]) == (400, why)


async def test_a_deletion_cannot_be_changed(server: TestServer, hooks: HookServer) -> None:
    await server.request("POST", MAPS, config_map())
    hooks.on("/change", lambda review: patched(review, added("b", "1")))
    await configure(server, "Mutating", hook(hooks, "/change", rules=[{**RULE, "operations": ["DELETE"]}]))
    answer = await server.request("DELETE", f"{MAPS}/one")
    why = 'admission webhook "a.example.com" attempted to modify the object, which is not supported for this operation'
    assert (answer.status, answer.json["message"]) == (500, f"Internal error occurred: {why}")


async def test_validating_webhooks_are_asked_at_once(server: TestServer, hooks: HookServer) -> None:
    waiting = asyncio.Barrier(2)

    async def together(review: Review) -> Review:
        async with asyncio.timeout(5):
            await waiting.wait()
        return reviewed(review)

    hooks.on("/together", together)
    await configure(server, "Validating", *(hook(hooks, "/together", f"{name}.example.com") for name in "ab"))
    assert (await server.request("POST", MAPS, config_map())).status == 201


async def test_the_audit_log_of_bodies_has_the_patches(tmp_path: Path, hooks: HookServer) -> None:
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [{"level": "Request"}],
        "omitStages": ["RequestReceived"],
    }
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    config, _ = prepare(tmp_path, "memory")
    audit = replace(config.audit, policy=tmp_path / "policy.yaml")
    hooks.on("/add", lambda review: patched(review, added("b", "1")))
    async with running_apiserver(directory=tmp_path, audit=audit) as server:
        await configure(server, "Mutating", hook(hooks, "/add"))
        answer = await server.request("POST", MAPS, config_map())
        event = await server.audited(answer.headers["Audit-Id"])
        key = "patch.webhook.admission.k8s.io/round_0_index_0"
        assert json.loads(event["annotations"][key]) == {
            "configuration": "test",
            "webhook": "a.example.com",
            "patch": [added("b", "1")],
            "patchType": "JSONPatch",
        }


async def test_managers_that_nobody_can_read_are_put_back(server: TestServer, hooks: HookServer) -> None:
    broken = {"op": "replace", "path": "/metadata/managedFields", "value": [{"manager": "x"}]}
    hooks.on("/break", lambda review: patched(review, broken))
    await configure(server, "Mutating", hook(hooks, "/break"))
    answer = await server.request("POST", f"{MAPS}?fieldManager=me", config_map())
    assert "managedFields was in an invalid state after admission" in answer.headers["Warning"]
    assert [each["manager"] for each in answer.json["metadata"]["managedFields"]] == ["me"]


async def test_a_webhook_cannot_lock_itself_in_by_an_older_form(server: TestServer, hooks: HookServer) -> None:
    """Two of one name are refused, unless they were stored when that was allowed: then the rest may change."""
    twice = {"metadata": {"name": "test"}, "webhooks": [hook(hooks, "/x"), hook(hooks, "/x", sideEffects="Some")]}
    refused = await server.request("POST", f"{GROUP}/validatingwebhookconfigurations", twice)
    assert {cause["field"] for cause in refused.json["details"]["causes"]} == {"webhooks[1].name", "webhooks[1].sideEffects"}
    store = server.running.stores["validatingwebhookconfigurations.admissionregistration.k8s.io"]
    meta = {"name": "test", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    stored = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        **twice,
        "metadata": meta,
    }
    await store.objects.create(store.key("", "test"), stored)
    patch = {"metadata": {"labels": {"a": "b"}}}
    where = f"{GROUP}/validatingwebhookconfigurations/test"
    assert (await server.request("PATCH", where, patch, content_type="application/merge-patch+json")).status == 200


async def test_the_first_write_after_a_restart_is_judged(tmp_path: Path, hooks: HookServer) -> None:
    hooks.on("/no", lambda review: reviewed(review, False))
    async with running_apiserver("sqlite", tmp_path) as server:
        await configure(server, "Validating", hook(hooks, "/no"))
    async with running_apiserver("sqlite", tmp_path) as server:
        assert (await server.request("POST", MAPS, config_map())).status == 400
