"""Versions that a webhook converts: reads, lists, watches and writes through it, and what its refusals become."""

import asyncio
import json
from typing import Any

from tests.support.apiserver import Answer, TestServer
from tests.support.custom import DEFINITIONS, definition, established, version, widget
from tests.support.webhook_server import HookServer, hook_server

Object = dict[str, Any]
OLD, NEW = "/apis/example.com/v1/namespaces/default/widgets", "/apis/example.com/v2/namespaces/default/widgets"


def schema(**fields: str) -> Object:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


async def serving(server: TestServer, hooks: HookServer) -> None:
    """v1, which is stored, has ``host`` and ``port``; v2 has both in ``address``."""
    versions = version(schema=schema(host="string", port="string")), version("v2", storage=False, schema=schema(address="string"))
    hook = {"clientConfig": hooks.client_config("/convert"), "conversionReviewVersions": ["v1"]}
    wanted = definition("widgets", "Widget", *versions, conversion={"strategy": "Webhook", "webhook": hook})
    hooks.on("/convert", converted)
    await established(server, wanted)


def converted(review: Object) -> Object:
    request = review["request"]
    made = [_converted(each, request["desiredAPIVersion"]) for each in request["objects"]]
    response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": made}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


def _converted(obj: Object, wanted: str) -> Object:
    spec = obj.get("spec") or {}
    if wanted.endswith("v2"):
        spec = {"address": f"{spec.get('host', '')}:{spec.get('port', '')}"}
    else:
        host, _, port = spec.get("address", "").partition(":")
        spec = {"host": host, "port": port}
    return {**obj, "apiVersion": wanted, "spec": spec}


async def test_each_version_is_written_and_read_in_its_own_words(server: TestServer) -> None:
    async with hook_server() as hooks:
        await serving(server, hooks)
        made = await server.request("POST", NEW, widget("a", api_version="example.com/v2", address="one:1"))
        assert (made.status, made.json["spec"]) == (201, {"address": "one:1"})
        await server.request("POST", OLD, widget("b", host="two", port="2"))
        listed = (await server.request("GET", OLD)).json["items"]
        assert [item["spec"] for item in listed] == [{"host": "one", "port": "1"}, {"host": "two", "port": "2"}]
        assert {item["apiVersion"] for item in listed} == {"example.com/v1"}
        asked = len(hooks.asked)
        listed = (await server.request("GET", NEW)).json["items"]
        assert [item["spec"]["address"] for item in listed] == ["one:1", "two:2"]
        await server.request("GET", NEW)
        assert len(hooks.asked) == asked + 1  # for the one object that had not been converted, once
        patched = await server.request(
            "PATCH", f"{NEW}/b", {"spec": {"address": "three:3"}}, content_type="application/merge-patch+json"
        )
        assert patched.json["spec"] == {"address": "three:3"}
        assert (await server.request("GET", f"{OLD}/b")).json["spec"] == {"host": "three", "port": "3"}


async def test_a_watch_gets_what_a_list_shows(server: TestServer) -> None:
    async with hook_server() as hooks:
        await serving(server, hooks)
        await server.request("POST", OLD, widget("a", host="one", port="1"))
        headers = {"Authorization": f"Bearer {server.admin_token}"}
        url = f"{server.url}{NEW}?watch=1&resourceVersion=0"
        async with server.session.get(url, headers=headers, ssl=server.tls) as stream, asyncio.timeout(10):
            first = json.loads(await stream.content.readline())
            await server.request("POST", OLD, widget("b", host="two", port="2"))
            second = json.loads(await stream.content.readline())
            await server.request("DELETE", f"{OLD}/a")
            third = json.loads(await stream.content.readline())
        objects = [(event["type"], event["object"]) for event in (first, second, third)]
        assert [(kind, obj["apiVersion"], obj["spec"]["address"]) for kind, obj in objects] == [
            ("ADDED", "example.com/v2", "one:1"),
            ("ADDED", "example.com/v2", "two:2"),
            ("DELETED", "example.com/v2", "one:1"),
        ]


async def test_a_webhook_that_fails_fails_the_request_and_no_other_version(server: TestServer) -> None:
    async with hook_server() as hooks:
        await serving(server, hooks)
        await server.request("POST", OLD, widget("a", host="one", port="1"))
        refusal = {"status": "Failure", "message": "not today"}
        hooks.on("/convert", lambda r: {**converted(r), "response": {"uid": r["request"]["uid"], "result": refusal}})
        failed = await server.request("GET", f"{NEW}/a")
        assert failed.status == 500
        assert failed.json["message"] == "conversion webhook for example.com/v1, Kind=Widget failed: not today"
        assert (await server.request("GET", NEW)).status == 500
        assert (await server.request("POST", NEW, widget("b", api_version="example.com/v2"))).status == 500
        assert (await server.request("GET", f"{OLD}/a")).json["spec"] == {"host": "one", "port": "1"}


async def test_what_an_older_storage_version_left_is_converted_too(server: TestServer) -> None:
    async with hook_server() as hooks:
        await serving(server, hooks)
        await server.request("POST", OLD, widget("a", host="one", port="1"))
        found = (await server.request("GET", f"{DEFINITIONS}/widgets.example.com")).json
        versions = [{**each, "storage": not each["storage"]} for each in found["spec"]["versions"]]
        turned = {"spec": {"versions": versions}}
        await server.request("PATCH", f"{DEFINITIONS}/widgets.example.com", turned, content_type="application/merge-patch+json")
        await server.request("POST", OLD, widget("b", host="two", port="2"))
        for path, wanted in (
            (OLD, [{"host": "one", "port": "1"}, {"host": "two", "port": "2"}]),
            (NEW, [{"address": "one:1"}, {"address": "two:2"}]),
        ):
            listed = (await server.request("GET", path)).json["items"]
            assert [item["spec"] for item in listed] == wanted
            assert [(await server.request("GET", f"{path}/{name}")).json["spec"] for name in "ab"] == wanted


async def test_managers_are_asked_in_the_words_of_the_version_they_wrote(server: TestServer) -> None:
    async with hook_server() as hooks:
        await serving(server, hooks)

        async def apply(path: str, manager: str, more: str = "", **spec: Any) -> Answer:
            config = widget("a", api_version="example.com/v1" if path is OLD else "example.com/v2", **spec)
            url = f"{path}/a?fieldManager={manager}{more}"
            return await server.request("PATCH", url, config, content_type="application/apply-patch+yaml")

        assert (await apply(OLD, "one", host="h", port="1")).status == 201
        assert (await apply(NEW, "two", address="h:1")).status == 200
        refused = await apply(NEW, "two", address="h:2")
        assert [(cause["message"], cause["field"]) for cause in refused.json["details"]["causes"]] == [
            ('conflict with "one"', ".spec.port")
        ]
        forced = await apply(NEW, "two", "&force=true", address="h:2")
        held = {each["manager"]: each["fieldsV1"] for each in forced.json["metadata"]["managedFields"]}
        assert held == {"one": {"f:spec": {"f:host": {}}}, "two": {"f:spec": {"f:address": {}}}}
        patch = {"spec": {"port": "3"}}
        patched = await server.request("PATCH", f"{OLD}/a", patch, content_type="application/merge-patch+json")
        held = {each["manager"]: each["fieldsV1"] for each in patched.json["metadata"]["managedFields"]}
        assert held["one"] == {"f:spec": {"f:host": {}}}
        assert "two" not in held


async def test_a_dry_run_is_not_taken_for_what_is_stored(server: TestServer) -> None:
    async with hook_server() as hooks:
        await serving(server, hooks)
        await server.request("POST", OLD, widget("a", host="one", port="1"))
        assert (await server.request("GET", f"{NEW}/a")).json["spec"] == {"address": "one:1"}
        patch = {"spec": {"address": "two:2"}}
        tried = await server.request("PATCH", f"{NEW}/a?dryRun=All", patch, content_type="application/merge-patch+json")
        assert tried.json["spec"] == {"address": "two:2"}
        assert (await server.request("GET", f"{NEW}/a")).json["spec"] == {"address": "one:1"}
