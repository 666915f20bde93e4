"""Admission webhooks and custom resources: pruned and defaulted after a patch, and seen in the version that was asked for."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.apiserver.test_admission_webhooks import RULE, configure, hook, patched
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.custom import GROUP, definition, established, version
from tests.support.webhook_server import HookServer, Review, hook_server, reviewed

WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as made:
        yield made


@pytest.fixture
async def hooks() -> AsyncIterator[HookServer]:
    async with hook_server() as made:
        yield made


def rule(served: str = "v1", **more: Any) -> dict[str, Any]:
    return {**RULE, "apiGroups": [GROUP], "apiVersions": [served], "resources": ["widgets"], **more}


def widget(name: str = "w", served: str = "v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{served}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def test_what_a_patch_makes_is_pruned_and_defaulted(server: TestServer, hooks: HookServer) -> None:
    await established(server, definition())
    fields = {"op": "add", "path": "/spec/size", "value": 2}, {"op": "add", "path": "/spec/unknown", "value": "x"}
    hooks.on("/add", lambda review: patched(review, *fields, {"op": "remove", "path": "/spec/color"}))
    await configure(server, "Mutating", hook(hooks, "/add", rules=[rule(operations=["CREATE"])]))
    answer = await server.request("POST", WIDGETS, widget(color="blue"))
    assert (answer.status, answer.json["spec"]) == (201, {"size": 2, "color": "red"})
    (request,) = hooks.requests("/add")
    assert request["kind"] == {"group": GROUP, "version": "v1", "kind": "Widget"}


async def test_a_custom_resource_may_be_refused(server: TestServer, hooks: HookServer) -> None:
    await established(server, definition())
    hooks.on("/judge", lambda review: reviewed(review, review["request"]["operation"] != "DELETE"))
    await configure(server, "Validating", hook(hooks, "/judge", rules=[rule()]))
    assert (await server.request("POST", WIDGETS, widget())).status == 201
    answer = await server.request("DELETE", f"{WIDGETS}/w")
    assert answer.json["message"] == 'admission webhook "a.example.com" denied the request without explanation'


async def test_definitions_are_admitted_as_well(server: TestServer, hooks: HookServer) -> None:
    hooks.on("/no", lambda review: reviewed(review, False, status={"message": "no such kind"}))
    definitions = {**RULE, "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}
    await configure(server, "Validating", hook(hooks, "/no", rules=[definitions]))
    answer = await server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    assert answer.json["message"].endswith("denied the request: no such kind")


async def test_another_version_is_converted_there_and_back(server: TestServer, hooks: HookServer) -> None:
    """By a webhook, which puts the version into the object as it converts."""

    def convert(review: Review) -> Review:
        request = review["request"]
        wanted = request["desiredAPIVersion"]
        made = [{**obj, "apiVersion": wanted, "spec": {**obj["spec"], "color": wanted}} for obj in request["objects"]]
        response = {"uid": request["uid"], "convertedObjects": made, "result": {"status": "Success"}}
        return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}

    hooks.on("/convert", convert)
    webhook = {"clientConfig": hooks.client_config("/convert"), "conversionReviewVersions": ["v1"]}
    versions = version("v1"), version("v2", storage=False)
    conversion = {"strategy": "Webhook", "webhook": webhook}
    await established(server, definition("widgets", "Widget", *versions, conversion=conversion))
    hooks.on("/v2", lambda review: patched(review, {"op": "add", "path": "/spec/size", "value": 7}))
    await configure(server, "Mutating", hook(hooks, "/v2", rules=[rule("v2", operations=["CREATE"])]))
    answer = await server.request("POST", WIDGETS, widget(color="blue"))
    assert answer.status == 201, answer.body
    assert answer.json["spec"] == {"size": 7, "color": f"{GROUP}/v1"}
    (request,) = hooks.requests("/v2")
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")
    assert (request["object"]["apiVersion"], request["object"]["spec"]["color"]) == (f"{GROUP}/v2", f"{GROUP}/v2")


async def test_a_scale_of_a_custom_resource(server: TestServer, hooks: HookServer) -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await established(server, definition("widgets", "Widget", version(subresources={"status": {}, "scale": paths})))
    hooks.on("/see", reviewed)
    await configure(server, "Validating", hook(hooks, "/see", rules=[rule(resources=["widgets/scale"])]))
    assert (await server.request("POST", WIDGETS, widget(replicas=1))).status == 201
    patch = {"spec": {"replicas": 3}}
    answer = await server.request("PATCH", f"{WIDGETS}/w/scale", patch, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.body
    (request,) = hooks.requests("/see")
    assert (request["kind"]["kind"], request["object"]["spec"], request["oldObject"]["spec"]) == (
        "Scale",
        {"replicas": 3},
        {"replicas": 1},
    )
