"""DELETE with every option, DELETE of collections, dry runs of every verb and names that are taken, as upstream answers them.

https://kubernetes.io/docs/reference/using-api/api-concepts/ (dry-run, generated names, deletion), ``k8s.io/apiserver``
``registry/rest/delete.go`` and ``apimachinery/pkg/apis/meta/v1/validation``.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.apiserver import Answer, TestServer, running_apiserver

pytestmark = pytest.mark.asyncio(loop_scope="module")

Object = dict[str, Any]
NAMESPACE = "/api/v1/namespaces/default"
MAPS, PODS, JOBS = f"{NAMESPACE}/configmaps", f"{NAMESPACE}/pods", "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
POD_SPEC = {"containers": [{"name": "c", "image": "i:1"}]}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as running:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        assert (await running.request("POST", f"{NAMESPACE}/serviceaccounts", account)).status == 201
        yield running


async def make(server: TestServer, path: str, name: str, labels: Object | None = None, **parts: Any) -> Object:
    made = await server.request("POST", path, {"metadata": {"name": name, "labels": labels or {}}, **parts})
    assert made.status == 201, made.body
    return dict(made.json)


async def revision(server: TestServer) -> int:
    return await server.running.backend.current_revision()


REFUSED: list[Any] = [
    pytest.param(
        {"propagationPolicy": "Sideways"},
        [("propagationPolicy", 'Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil"')],
        id="policy",
    ),
    pytest.param(
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        [("propagationPolicy", 'Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set')],
        id="twice",
    ),
    pytest.param({"dryRun": ["Some"]}, [("dryRun", 'Unsupported value: ["Some"]: supported values: "All"')], id="dry-run"),
]


@pytest.mark.parametrize("where", ["none-such", ""], ids=["one", "collection"])
@pytest.mark.parametrize(("options", "causes"), REFUSED)
async def test_options_are_judged_before_objects(server: TestServer, options: Object, causes: Any, where: str) -> None:
    path = f"{MAPS}/{where}" if where else f"{MAPS}?labelSelector=nobody"
    answer = await server.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
    assert answer.status == 422
    assert [(one["field"], one["message"]) for one in answer.json["details"]["causes"]] == causes
    assert (answer.json["details"]["kind"], answer.json["details"]["group"]) == ("DeleteOptions", "meta.k8s.io")


async def test_options_in_the_query_are_judged_too(server: TestServer) -> None:
    for query in ("propagationPolicy=Sideways", "propagationPolicy=Orphan&orphanDependents=true", "dryRun=Some"):
        assert (await server.request("DELETE", f"{MAPS}/none?{query}")).status == 422, query
    assert (await server.request("DELETE", f"{MAPS}/none?gracePeriodSeconds=soon")).status == 400
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    assert (await server.request("DELETE", f"{MAPS}/none", wrong)).status == 400


async def test_preconditions(server: TestServer) -> None:
    old = await make(server, MAPS, "guarded")
    changed = (await server.request("PATCH", f"{MAPS}/guarded", {"data": {"a": "b"}}, content_type=MERGE)).json
    version, before = changed["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]
    head = 'Operation cannot be fulfilled on ConfigMap "guarded": the '
    cases = [
        ({"uid": "x"}, f"UID in the precondition (x) does not match the UID in record ({old['metadata']['uid']})."),
        (
            {"resourceVersion": before},
            f"ResourceVersion in the precondition ({before}) does not match the ResourceVersion in record ({version}).",
        ),
        ({"uid": old["metadata"]["uid"], "resourceVersion": before}, "ResourceVersion in the precondition"),
    ]
    for wanted, text in cases:
        answer = await server.request("DELETE", f"{MAPS}/guarded", {"preconditions": wanted})
        assert (answer.status, answer.json["reason"]) == (409, "Conflict")
        assert answer.json["message"].startswith(head + text), answer.json["message"]
        assert (await server.request("DELETE", MAPS, {"preconditions": wanted})).status == 409
    both = {"uid": old["metadata"]["uid"], "resourceVersion": version}
    assert (await server.request("DELETE", f"{MAPS}/guarded", {"preconditions": both})).status == 200


JOB_SPEC = {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
PROPAGATION: list[Any] = [
    pytest.param(MAPS, {}, {}, None, id="default-removes"),
    pytest.param(MAPS, {}, {"propagationPolicy": "Background"}, None, id="background"),
    pytest.param(MAPS, {}, {"propagationPolicy": "Foreground"}, ["foregroundDeletion"], id="foreground"),
    pytest.param(MAPS, {}, {"propagationPolicy": "Orphan"}, ["orphan"], id="orphan"),
    pytest.param(MAPS, {}, {"orphanDependents": True}, ["orphan"], id="old-orphan"),
    pytest.param(MAPS, {}, {"orphanDependents": False}, None, id="old-removes"),
    pytest.param(JOBS, {"spec": JOB_SPEC}, {}, ["orphan"], id="jobs-orphan-by-default"),
    pytest.param(JOBS, {"spec": JOB_SPEC}, {"propagationPolicy": "Background"}, None, id="jobs-background"),
]


@pytest.mark.parametrize("how", ["body", "query", "collection"])
@pytest.mark.parametrize(("path", "parts", "options", "finalizers"), PROPAGATION)
async def test_propagation(server: TestServer, path: str, parts: Object, options: Object, finalizers: Any, how: str) -> None:
    await make(server, path, "spread", {"spread": "x"}, **parts)
    query = "&".join(f"{key}={json.dumps(value).strip(chr(34))}" for key, value in options.items())
    if how == "collection":
        answer = await server.request("DELETE", f"{path}?labelSelector=spread", options or None)
    elif how == "query":
        answer = await server.request("DELETE", f"{path}/spread?{query}")
    else:
        answer = await server.request("DELETE", f"{path}/spread", options)
    assert answer.status == 200
    left = await server.request("GET", f"{path}/spread")
    if finalizers is None:
        assert left.status == 404
        return
    assert left.json["metadata"]["finalizers"] == finalizers
    assert left.json["metadata"]["deletionTimestamp"]
    again = await server.request("POST", path, {"metadata": {"name": "spread"}, **parts})
    assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
    assert again.json["message"].startswith("object is being deleted: ")
    await server.request("PATCH", f"{path}/spread", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert (await server.request("GET", f"{path}/spread")).status == 404


async def test_grace(server: TestServer) -> None:
    """A pod that has a node gets its time, which can only become shorter; one that has none goes at once."""
    await make(server, PODS, "waiting", spec=POD_SPEC)
    assert (await server.request("DELETE", f"{PODS}/waiting")).status == 200
    assert (await server.request("GET", f"{PODS}/waiting")).status == 404
    await make(server, PODS, "placed", spec={**POD_SPEC, "nodeName": "n"})

    async def grace(query: str) -> int:
        answer = await server.request("DELETE", f"{PODS}/placed{query}")
        assert answer.status == 200
        return int(answer.json["metadata"]["deletionGracePeriodSeconds"])

    assert [await grace(query) for query in ("?dryRun=All", "", "?gracePeriodSeconds=60", "?gracePeriodSeconds=5")] == [
        30,
        30,
        30,
        5,
    ]
    assert (await server.request("DELETE", f"{PODS}/placed?gracePeriodSeconds=0")).status == 200
    assert (await server.request("GET", f"{PODS}/placed")).status == 404


async def test_collections(server: TestServer) -> None:
    for number in range(6):
        await make(server, MAPS, f"many-{number}", {"many": "x", "odd": str(number % 2)})

    async def names(query: str = "") -> list[str]:
        return [
            one["metadata"]["name"] for one in (await server.request("GET", f"{MAPS}?labelSelector=many{query}")).json["items"]
        ]

    async def gone(query: str, body: Object | None = None) -> list[str]:
        answer = await server.request("DELETE", f"{MAPS}?labelSelector=many{query}", body)
        assert (answer.status, answer.json["kind"]) == (200, "ConfigMapList"), answer.body
        return [one["metadata"]["name"] for one in answer.json["items"]]

    everyone = [f"many-{number}" for number in range(6)]
    before = await revision(server)
    assert await gone("", {"dryRun": ["All"]}) == everyone
    assert await gone("&dryRun=All") == everyone
    assert (await names(), await revision(server)) == (everyone, before)
    assert await gone("&fieldSelector=metadata.name%3Dmany-1") == ["many-1"]
    assert await gone(",odd%3D0&limit=2") == ["many-0", "many-2"]
    assert await names() == ["many-3", "many-4", "many-5"]
    assert await gone("") == ["many-3", "many-4", "many-5"]
    assert await gone("") == []
    refused = await server.request("DELETE", f"{MAPS}?fieldSelector=data.a%3D1")
    assert refused.status == 400
    assert (await server.request("DELETE", f"{MAPS}?resourceVersionMatch=Exact")).status == 422
    assert (await server.request("DELETE", f"{NAMESPACE}/services")).status in (200, 405)


async def test_dry_runs_of_every_verb_write_nothing(server: TestServer) -> None:
    labels = {"matchLabels": {"a": "b"}}
    spec = {"replicas": 1, "selector": labels, "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}}
    web = await make(server, DEPLOYMENTS, "dry", spec=spec)
    await make(server, PODS, "dry", spec=POD_SPEC)
    await make(server, MAPS, "dry", data={"a": "1"})
    await make(server, "/api/v1/namespaces", "dry")
    scale = (await server.request("GET", f"{DEPLOYMENTS}/dry/scale")).json
    binding = {"metadata": {"name": "dry"}, "target": {"kind": "Node", "name": "n"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "dry"}}
    ephemeral = {"spec": {"ephemeralContainers": [{"name": "e", "image": "i:1"}]}}
    resize = {"spec": {"containers": [{"name": "c", "resources": {}}]}}
    status = {"status": {"replicas": 7}}
    service = {"metadata": {"name": "dry"}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}}
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry-new"}, "data": {"a": "2"}}
    wishes: list[tuple[str, str, Any, str]] = [
        ("POST", MAPS, {"metadata": {"name": "dry-new"}}, ""),
        ("POST", MAPS, {"metadata": {"generateName": "dry-"}}, ""),
        ("POST", f"{NAMESPACE}/services", service, ""),
        ("PUT", f"{MAPS}/dry", {"metadata": {"name": "dry"}, "data": {"a": "2"}}, ""),
        ("PATCH", f"{MAPS}/dry", {"data": {"a": "2"}}, MERGE),
        ("PATCH", f"{MAPS}/dry", {"data": {"a": "2"}}, STRATEGIC),
        ("PATCH", f"{MAPS}/dry", [{"op": "replace", "path": "/data/a", "value": "2"}], JSON_PATCH),
        ("PATCH", f"{MAPS}/dry-new?fieldManager=m", applied, APPLY),
        ("PATCH", f"{MAPS}/dry?fieldManager=m&force=true", {**applied, "metadata": {"name": "dry"}}, APPLY),
        ("PUT", f"{DEPLOYMENTS}/dry/status", {**web, **status, "metadata": {"name": "dry"}}, ""),
        ("PATCH", f"{DEPLOYMENTS}/dry/status", status, MERGE),
        ("PUT", f"{DEPLOYMENTS}/dry/scale", {**scale, "spec": {"replicas": 5}}, ""),
        ("PATCH", f"{DEPLOYMENTS}/dry/scale", {"spec": {"replicas": 5}}, MERGE),
        ("POST", f"{PODS}/dry/binding", binding, ""),
        ("POST", f"{NAMESPACE}/bindings", binding, ""),
        ("POST", f"{PODS}/dry/eviction", eviction, ""),
        ("PATCH", f"{PODS}/dry/ephemeralcontainers", ephemeral, STRATEGIC),
        ("PATCH", f"{PODS}/dry/resize", resize, STRATEGIC),
        ("POST", f"{NAMESPACE}/serviceaccounts/default/token", {"spec": {"audiences": []}}, ""),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"spec": {"nonResourceAttributes": {"path": "/"}}},
            "",
        ),
        ("DELETE", f"{MAPS}/dry", None, ""),
        ("DELETE", f"{MAPS}/dry", {"propagationPolicy": "Foreground"}, ""),
        ("DELETE", MAPS, None, ""),
        ("DELETE", "/api/v1/namespaces/dry", None, ""),
    ]
    before = await revision(server)
    for method, path, body, kind in wishes:
        target = f"{path}{'&' if '?' in path else '?'}dryRun=All"
        if method == "DELETE" and body is not None:
            target, body = path, {**body, "dryRun": ["All"]}
        answer = await server.request(method, target, body, content_type=kind or "application/json")
        assert answer.status in (200, 201), f"{method} {target}: {answer.body!r}"
        assert await revision(server) == before, f"{method} {target} wrote something"
        refused = await server.request(
            method, target.replace("dryRun=All", "dryRun=Some"), body, content_type=kind or "application/json"
        )
        assert refused.status == 422 or target == path, f"{method} {target}: {refused.body!r}"


async def test_a_dry_run_takes_no_address(server: TestServer) -> None:
    service: Object = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "nodePort": 31234}], "type": "NodePort"}}
    tried = await server.request("POST", f"{NAMESPACE}/services?dryRun=All", service)
    assert tried.status == 201
    service["spec"]["clusterIP"] = tried.json["spec"]["clusterIP"]
    if service["spec"]["clusterIP"]:
        assert (await server.request("POST", f"{NAMESPACE}/services", service)).status == 201
        assert (
            await server.request("POST", f"{NAMESPACE}/services?dryRun=All", {**service, "metadata": {"name": "t"}})
        ).status == 422


async def test_a_dry_run_sees_what_is_there(server: TestServer) -> None:
    made = await make(server, MAPS, "seen", data={"a": "1"})
    path = f"{MAPS}/seen?dryRun=All"
    assert (await server.request("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "seen"}})).status == 409
    stale = {**made, "data": {"a": "2"}, "metadata": {**made["metadata"], "resourceVersion": "1"}}
    assert (await server.request("PUT", path, stale)).status == 409
    tested = [{"op": "test", "path": "/data/a", "value": "2"}]
    assert (await server.request("PATCH", path, tested, content_type=JSON_PATCH)).status == 422
    assert (await server.request("PATCH", path, {"data": {"A b": "1"}}, content_type=MERGE)).status == 422
    assert (await server.request("DELETE", path, {"preconditions": {"uid": "x"}})).status == 409
    assert (await server.request("DELETE", f"{MAPS}/unseen?dryRun=All")).status == 404


def told(answer: Answer) -> tuple[int, str, str, Any, Any]:
    said = answer.json
    return (
        answer.status,
        said["reason"],
        said["message"],
        said["details"].get("retryAfterSeconds"),
        answer.headers.get("Retry-After"),
    )


async def test_names_that_are_taken(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """KEP-4420: eight names are tried before the client is told to try again."""
    chosen: list[str] = []

    def generate(prefix: str, _: Any) -> str:
        chosen.append(prefix)
        return prefix + ("taken" if len(chosen) < 8 or prefix == "never-" else "free0")

    monkeypatch.setattr("controlplane.apiserver.registry.store.names.generate", generate)
    for name in ("late-taken", "never-taken"):
        await make(server, MAPS, name)
    late = await server.request("POST", MAPS, {"metadata": {"generateName": "late-"}})
    assert (late.status, late.json["metadata"]["name"], len(chosen)) == (201, "late-free0", 8)
    chosen.clear()
    sentence = 'configmaps "never-taken" already exists, the server was not able to generate a unique name for the object'
    never = await server.request("POST", MAPS, {"metadata": {"generateName": "never-"}})
    assert (told(never), len(chosen)) == ((409, "AlreadyExists", sentence, 1, "1"), 8)
    both = await server.request("POST", MAPS, {"metadata": {"name": "never-taken", "generateName": "x-"}})
    assert told(both) == (409, "AlreadyExists", sentence, 1, "1"), "upstream says so whenever a prefix is given"
    plain = await server.request("POST", MAPS, {"metadata": {"name": "never-taken"}})
    assert told(plain) == (409, "AlreadyExists", 'configmaps "never-taken" already exists', None, None)
