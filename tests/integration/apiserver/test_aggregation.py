"""Group versions that another server answers for, through the front door: an extension server behind a Service."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.apiserver import TestServer, running_apiserver, with_front_proxy
from tests.support.extension_server import AGGREGATED, GROUP, ROOT, ExtensionServer, extension_server

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = f"v1.{GROUP}"
WIDGETS = f"{ROOT}/namespaces/default/widgets"


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[TestServer, ExtensionServer]]:
    """A server with a front proxy's certificate, and an extension server that believes it."""
    authority, changes = with_front_proxy(tmp_path)
    async with (
        extension_server(authority) as extension,
        running_apiserver(directory=tmp_path, resource_metrics=True, **changes) as server,
    ):
        yield server, extension


async def until(check: Callable[[], Awaitable[Any]], seconds: float = 8) -> Any:
    """What ``check`` gives, once it gives something."""
    async with asyncio.timeout(seconds):
        while True:
            if found := await check():
                return found
            await asyncio.sleep(0.02)


async def register(server: TestServer, extension: ExtensionServer, **spec: Any) -> None:
    made = await server.request("POST", "/api/v1/namespaces/default/services", extension.service())
    assert made.status in (201, 409), made.body
    made = await server.request("POST", SERVICES, extension.api_service(**spec))
    assert made.status == 201, made.body


async def condition(server: TestServer, name: str = NAME) -> dict[str, str]:
    obj = (await server.request("GET", f"{SERVICES}/{name}")).json
    found: list[dict[str, str]] = (obj.get("status") or {}).get("conditions") or [{}]
    return found[0]


async def available(server: TestServer, name: str = NAME) -> dict[str, str]:
    async def check() -> dict[str, str] | None:
        found = await condition(server, name)
        return found if found.get("status") == "True" else None

    found: dict[str, str] = await until(check)
    return found


async def test_requests_go_to_the_service_in_the_name_of_whoever_asks(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, extension = pair

    async def review(asked: Any) -> bool:
        """Delegated authorization: the extension server asks the cluster about whom it was told of."""
        spec = {"user": asked.all("X-Remote-User")[0], "groups": asked.all("X-Remote-Group")}
        spec["resourceAttributes"] = {"group": GROUP, "resource": "widgets", "verb": "list", "namespace": "default"}
        answer = await server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        return bool(answer.json["status"]["allowed"])

    await register(server, extension)
    found = await available(server)
    assert (found["reason"], found["message"]) == ("Passed", "all checks passed")
    extension.review = review

    body = json.dumps({"kind": "Widget", "large": "x" * 300_000}).encode()
    headers = {"X-Remote-User": "somebody else", "X-Custom": "kept", "Audit-ID": "my-id", "Expect": "100-continue"}
    answer = await server.request("POST", f"{WIDGETS}?dryRun=All&fieldManager=a%20b", body, headers=headers)
    assert (answer.status, answer.body) == (201, body)
    assert answer.headers["Audit-Id"] == "my-id"
    asked = extension.for_paths(WIDGETS)[-1]
    assert (asked.certificate, asked.query) == ("front-proxy-client", "dryRun=All&fieldManager=a+b")
    assert asked.all("X-Remote-User") == ["admin"]
    assert asked.all("X-Remote-Uid") == ["1"]
    assert asked.all("X-Remote-Group") == ["system:masters", "system:authenticated"]
    assert (asked.all("X-Custom"), asked.all("Audit-ID"), asked.all("Authorization")) == (["kept"], ["my-id"], [])

    listed = await server.request("GET", WIDGETS)
    assert listed.json["kind"] == "WidgetList"
    refused = await server.request("GET", WIDGETS, token="viewer-token")
    assert refused.status == 403
    assert "nobody-special" in refused.json["message"]
    assert [each.all("X-Remote-User")[0] for each in extension.for_paths(WIDGETS)] == ["admin", "admin"]
    deep = await server.request("GET", f"{WIDGETS}/a/metric/deeper/still")
    assert deep.status == 200
    assert extension.asked[-1].path.endswith("/a/metric/deeper/still")
    assert (await server.request("GET", f"{WIDGETS}/a/metric/%2e%2e")).status == 400
    assert (await server.request("GET", ROOT)).json["groupVersion"] == f"{GROUP}/v1"
    assert (await server.request("GET", f"{ROOT}/elsewhere")).status == 502


async def test_nobody_can_name_himself_by_a_header_of_the_front_proxy(tmp_path: Path) -> None:
    authority, changes = with_front_proxy(tmp_path)
    identity = changes["identity"]
    front_proxy = replace(
        identity.front_proxy,
        user_headers=("X-Door-User", "X-Remote-User"),
        group_headers=("X-Remote-Group", "X-Door-Group"),
        extra_prefixes=("X-Remote-Extra-", "X-Door-Extra-"),
        uid_headers=("X-Door-Uid",),
    )
    changes["identity"] = replace(identity, front_proxy=front_proxy)
    forged = {"x-door-user": "root", "X-Door-Group": "system:masters", "X-Door-Extra-a": "b", "X-Door-Uid": "0", "X-Door": "kept"}
    async with extension_server(authority) as extension, running_apiserver(directory=tmp_path, **changes) as server:
        await register(server, extension)
        await available(server)
        assert (await server.request("GET", WIDGETS, headers=forged)).status == 200
        headers = {"Authorization": f"Bearer {server.admin_token}", **forged}
        async with server.session.ws_connect(f"{server.url}{WIDGETS}/a/connect", headers=headers, ssl=server.tls):
            pass
        for asked in (*extension.for_paths(WIDGETS), *extension.for_paths(f"{WIDGETS}/a/connect")):
            assert (asked.all("X-Remote-User"), asked.all("X-Door")) == (["admin"], ["kept"])
            assert not any(asked.all(name) for name in forged if name != "X-Door")


async def test_watches_and_upgrades_pass_through(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, extension = pair
    await register(server, extension)
    await available(server)
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    async with server.session.get(f"{server.url}{WIDGETS}?watch=true", headers=headers, ssl=server.tls) as watch:
        assert await watch.content.readline() == b'{"type":"ADDED"}\n'  # while the other end still has it open
        extension.release.set()
        assert await watch.content.read() == b'{"type":"DELETED"}\n'
    async with server.session.ws_connect(f"{server.url}{WIDGETS}/a/connect", headers=headers, ssl=server.tls) as socket:
        await socket.send_str("hello")
        assert (await socket.receive_str()) == "heard hello"
    assert extension.for_paths(f"{WIDGETS}/a/connect")[0].all("X-Remote-User") == ["admin"]
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await server.session.ws_connect(f"{server.url}{ROOT}/elsewhere", headers=headers, ssl=server.tls)
    assert refusal.value.status == 502


@pytest.mark.parametrize("path", [f"{WIDGETS}?watch=true", f"{ROOT}/slow"])
async def test_who_goes_away_is_waited_for_by_nobody(pair: tuple[TestServer, ExtensionServer], path: str) -> None:
    server, extension = pair
    await register(server, extension)
    await available(server)
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    asking = asyncio.ensure_future(server.session.get(f"{server.url}{path}", headers=headers, ssl=server.tls))

    async def asked() -> bool:
        return any(each.path == path.partition("?")[0] for each in extension.asked)

    await until(asked)
    at = next(index for index, each in enumerate(extension.asked) if each.path == path.partition("?")[0])
    if "watch" in path:
        watch = await asking
        assert await watch.content.readline() == b'{"type":"ADDED"}\n'
        watch.close()
    else:
        asking.cancel()

    async def closed() -> bool:
        return extension.connections[at].is_closing()

    await until(closed)


async def test_what_goes_wrong_on_the_way_is_said_in_text(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, extension = pair
    await register(server, extension)
    await available(server)
    late = await server.request("GET", f"{ROOT}/slow?timeout=100ms")
    assert (late.status, late.json["reason"]) == (504, "Timeout")
    with pytest.raises(aiohttp.ClientPayloadError):
        await server.request("GET", f"{ROOT}/broken")

    other = extension.service("other")
    assert (await server.request("POST", "/api/v1/namespaces/default/services", other)).status == 201
    assert (await server.request("POST", SERVICES, extension.api_service("v2", "other"))).status == 201
    await available(server, f"v2.{GROUP}")  # whether it answers is asked without looking at its name
    answer = await server.request("GET", f"/apis/{GROUP}/v2/widgets")
    text = "tls: failed to verify certificate: x509: certificate is not valid for other.default.svc\n"
    assert (answer.status, answer.body.decode(), answer.headers["Content-Type"]) == (503, text, "text/plain; charset=utf-8")
    changed = {"spec": {"insecureSkipTLSVerify": True, "caBundle": None}}
    where = f"{SERVICES}/v2.{GROUP}"
    assert (await server.request("PATCH", where, changed, content_type="application/merge-patch+json")).status == 200

    async def answered() -> bool:
        return (await server.request("GET", f"/apis/{GROUP}/v2/widgets")).status == 200

    await until(answered)
    assert (await server.request("DELETE", "/api/v1/namespaces/default/services/other")).status == 200

    async def unavailable() -> bool:
        return (await condition(server, f"v2.{GROUP}")).get("reason") == "ServiceNotFound"

    await until(unavailable)
    metrics = (await server.request("GET", "/metrics")).body.decode()
    assert f'apiservice_total{{name="v2.{GROUP}",reason="ServiceNotFound"}} 1.0' in metrics
    assert (await server.request("DELETE", where)).status == 200

    async def gone() -> bool:
        return (await server.request("GET", f"/apis/{GROUP}/v2/widgets")).status == 404

    await until(gone)


async def test_discovery_has_what_all_servers_have(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, extension = pair
    before = (await server.request("GET", "/apis")).json["groups"]
    await register(server, extension)
    await available(server)

    async def listed() -> Any:
        answer = await server.request("GET", "/apis", headers={"Accept": AGGREGATED})
        found = {group["metadata"]["name"]: group["versions"] for group in answer.json["items"]}
        return found if found.get(GROUP, [{}])[0].get("freshness") == "Current" else None

    groups = await until(listed)
    assert groups[GROUP][0]["resources"][0]["shortNames"] == ["wid"]
    names = [group["name"] for group in (await server.request("GET", "/apis")).json["groups"]]
    assert names[0] == "apiregistration.k8s.io"
    assert names.index(GROUP) > names.index("apps")
    assert [name for name in names if name != GROUP] == [group["name"] for group in before]
    group = (await server.request("GET", f"/apis/{GROUP}")).json
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}

    code, out, err = await server.kubectl("api-resources", "--api-group", GROUP, "-o", "name")
    assert (code, out) == (0, f"widgets.{GROUP}\n"), err

    extension.failing = True
    broken = extension.api_service("v2", versionPriority=20)
    assert (await server.request("POST", SERVICES, broken)).status == 201

    async def failed() -> Any:
        found = await condition(server, f"v2.{GROUP}")
        return found if found.get("status") == "False" else None

    found = await until(failed)
    url = f"https://localhost:{extension.port}/apis/{GROUP}/v2"
    why = f"failing or missing response from {url}: bad status from {url}: 500"
    assert (found["reason"], found["message"]) == ("FailedDiscoveryCheck", why)
    answer = await server.request("GET", "/apis", headers={"Accept": AGGREGATED})
    versions = next(each["versions"] for each in answer.json["items"] if each["metadata"]["name"] == GROUP)
    assert next((each["version"], each["freshness"], each["resources"]) for each in versions) == ("v2", "Stale", [])
    unavailable = await server.request("GET", f"/apis/{GROUP}/v2/widgets")
    assert (unavailable.status, unavailable.body) == (503, b"service unavailable\n")
    metrics = (await server.request("GET", "/metrics")).body.decode()
    assert f'aggregator_unavailable_apiservice{{name="v2.{GROUP}"}} 1.0' in metrics


async def test_what_is_wrong_is_said_in_the_condition(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, extension = pair
    assert (await server.request("POST", SERVICES, extension.api_service())).status == 201

    async def reason(wanted: str) -> dict[str, str]:
        async def check() -> dict[str, str] | None:
            found = await condition(server)
            return found if found.get("reason") == wanted else None

        found: dict[str, str] = await until(check)
        return found

    missing = await reason("ServiceNotFound")
    assert missing["message"] == 'service/things in "default" is not present'
    cluster_ip = {"metadata": {"name": "things"}, "spec": {"ports": [{"port": 9, "name": "https"}]}}
    where = "/api/v1/namespaces/default/services"
    assert (await server.request("POST", where, cluster_ip)).status == 201
    assert (await reason("ServicePortError"))["message"].endswith(f"is not listening on port {extension.port}")
    ports = {"spec": {"ports": [{"port": extension.port, "name": "https"}]}}
    await server.request("PATCH", f"{where}/things", ports, content_type="application/merge-patch+json")
    await reason("EndpointsNotFound")
    slice_ = {
        "metadata": {"name": "things-1", "labels": {"kubernetes.io/service-name": "things"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": False}}],
        "ports": [{"name": "https", "port": 443}],
    }
    assert (await server.request("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)).status == 201
    assert (await reason("MissingEndpoints"))["message"].endswith('have no addresses with port name "https"')


async def test_a_metrics_server_takes_the_place_of_the_built_in_figures(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, extension = pair
    name = "v1beta1.metrics.k8s.io"

    async def made() -> bool:
        return (await condition(server, name)).get("reason") == "Local"

    await until(made)
    assert (await server.request("GET", "/apis/metrics.k8s.io/v1beta1/nodes")).json["kind"] == "NodeMetricsList"
    await server.request("POST", "/api/v1/namespaces/default/services", extension.service())
    spec = extension.api_service()["spec"]
    wanted = {"spec": {key: spec[key] for key in ("service", "caBundle")}}
    answer = await server.request("PATCH", f"{SERVICES}/{name}", wanted, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.body
    extension.aggregated = False

    async def answered() -> bool:
        kind: str = (await server.request("GET", "/apis/metrics.k8s.io/v1beta1/nodes")).json["kind"]
        return kind == "WidgetList"

    await until(answered)
    assert (await server.request("DELETE", f"{SERVICES}/{name}")).status == 200
    await until(made)
    assert (await server.request("GET", "/apis/metrics.k8s.io/v1beta1/nodes")).json["kind"] == "NodeMetricsList"


async def test_extension_servers_learn_whom_to_believe(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, _ = pair
    found = (await server.request("GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")).json
    assert found["data"]["requestheader-client-ca-file"] == (server.directory / "front-proxy-ca.crt").read_text()
    assert found["data"]["client-ca-file"] == server.ca_file.read_text()
    assert json.loads(found["data"]["requestheader-allowed-names"]) == ["front-proxy-client"]
    role = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/extension-apiserver-authentication-reader"
    assert (await server.request("GET", role)).json["rules"][0]["resourceNames"] == ["extension-apiserver-authentication"]


async def test_descriptions_of_all_servers_are_one(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, extension = pair
    paths = {f"{WIDGETS}": {"get": {"responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/Widget"}}}}}}
    widget = {"description": "what it is about", "type": "object"}
    extension.described = {"swagger": "2.0", "info": {}, "paths": paths, "definitions": {"Widget": widget}}
    await register(server, extension)
    where = f"apis/{GROUP}/v1"

    async def listed() -> Any:
        return (await server.request("GET", "/openapi/v3")).json["paths"].get(where)

    assert (await until(listed))["serverRelativeURL"] == f"/openapi/v3/{where}?hash=ABC"
    index = (await server.request("GET", "/openapi/v3")).json["paths"]
    assert "hash=ABC" not in index["apis/apps/v1"]["serverRelativeURL"]  # nobody describes what is not his
    assert (await server.request("GET", f"/openapi/v3/{where}?hash=ABC")).json["info"] == {"title": "Things"}
    assert extension.for_paths("/openapi/v3/")[-1].all("X-Remote-User") == ["admin"]

    async def merged() -> Any:
        return (await server.request("GET", "/openapi/v2")).json["definitions"].get("Widget")

    assert await until(merged, 20) == widget
    assert extension.for_paths("/openapi/v2")[0].all("X-Remote-User") == ["system:aggregator"]


async def test_a_server_without_openapi_v3_is_described_by_its_v2(pair: tuple[TestServer, ExtensionServer]) -> None:
    server, extension = pair
    paths = {WIDGETS: {"get": {"responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/Widget"}}}}}}
    extension.described = {"swagger": "2.0", "info": {}, "paths": paths, "definitions": {"Widget": {"type": "object"}}}
    extension.has_v3 = False
    await register(server, extension)
    where = f"apis/{GROUP}/v1"

    async def listed() -> Any:
        return (await server.request("GET", "/openapi/v3")).json["paths"].get(where)

    entry = await until(listed)
    made = (await server.request("GET", entry["serverRelativeURL"])).json
    assert made["components"]["schemas"] == {"Widget": {"type": "object"}}
    assert list(made["paths"]) == [WIDGETS]


def definition(plural: str, group: str) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": plural, "kind": plural.title()}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


async def test_apiservices_of_custom_resources_outlast_a_restart(tmp_path: Path) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    async def registered(server: TestServer, group: str) -> Any:
        async def check() -> Any:
            answer = await server.request("GET", f"{SERVICES}/v1.{group}")
            return answer.json if answer.status == 200 else None

        return await until(check)

    async with running_apiserver("sqlite", tmp_path) as server:
        assert (await server.request("POST", definitions, definition("pears", "a.example"))).status == 201
        before = await registered(server, "a.example")
        spec = {"group": "a.example", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100}
        assert (before["spec"], (await condition(server, "v1.a.example"))["reason"]) == (spec, "Local")
    async with running_apiserver("sqlite", tmp_path) as server:
        assert (await server.request("POST", definitions, definition("figs", "b.example"))).status == 201
        await registered(server, "b.example")  # so those that nobody wants have been removed
        assert (await registered(server, "a.example"))["metadata"]["uid"] == before["metadata"]["uid"]
        assert (await server.request("DELETE", f"{definitions}/pears.a.example")).status == 200

        async def gone() -> bool:
            return (await server.request("GET", f"{SERVICES}/v1.a.example")).status == 404

        await until(gone)
        groups = [each["name"] for each in (await server.request("GET", "/apis")).json["groups"]]
        assert "b.example" in groups
        assert "a.example" not in groups
