"""``fieldValidation`` at every door: Strict names the exact field, Warn says the same in ``Warning:`` headers, Ignore nothing.

https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation (KEP-2885).
"""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.apiserver import Answer, TestServer, running_apiserver

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"
JSON, YAML = "application/json", "application/yaml"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  foo: 1
  replicas: 1
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}, color: red}
    spec:
      containers:
      - name: c
        image: i:1
        ports:
        - containerPort: 80
          hosts: [x]
        env: [{name: A, value: "1", from: x}]
      volumes:
      - name: v
        emptyDir: {size: 1}
"""
FOUND = [
    'unknown field "spec.foo"',
    'unknown field "spec.template.metadata.color"',
    'unknown field "spec.template.spec.containers[0].env[0].from"',
    'unknown field "spec.template.spec.containers[0].ports[0].hosts"',
    'unknown field "spec.template.spec.volumes[0].emptyDir.size"',
]
DOUBLED = (
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","name":"n","labels":{"a":"b","a":"c"}},'
    '"data":{"x":"1","x":"2"},"data":{}}'
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as running:
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held"}, "data": {"a": "b"}}
        assert (await running.request("POST", MAPS, made)).status == 201
        yield running


def warned(answer: Answer) -> list[str]:
    headers: Any = answer.headers
    texts = headers.getall("Warning") if "Warning" in headers else []
    return [re.sub(r"\\(.)", r"\1", text.removeprefix('299 - "').removesuffix('"')) for text in texts]


async def test_strict_names_each_field(server: TestServer) -> None:
    answer = await server.request("POST", f"{DEPLOYMENTS}?fieldValidation=Strict", DEPLOYMENT, content_type=YAML)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"].startswith(
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
    )
    assert sorted(answer.json["message"].partition("error: ")[2].split(", ")) == FOUND
    assert (await server.request("GET", f"{DEPLOYMENTS}/NAME")).status == 404


@pytest.mark.parametrize("choice", ["&fieldValidation=Warn", ""])
async def test_warn_says_the_same_and_is_the_default(server: TestServer, choice: str) -> None:
    answer = await server.request("POST", f"{DEPLOYMENTS}?dryRun=All{choice}", DEPLOYMENT.replace("NAME", "w"), content_type=YAML)
    assert answer.status == 201
    assert sorted(warned(answer)) == FOUND
    assert "foo" not in answer.json["spec"]


async def test_ignore_says_nothing(server: TestServer) -> None:
    path = f"{DEPLOYMENTS}?dryRun=All&fieldValidation=Ignore"
    answer = await server.request("POST", path, DEPLOYMENT.replace("NAME", "i"), content_type=YAML)
    assert (answer.status, warned(answer)) == (201, [])
    assert "foo" not in answer.json["spec"]


@pytest.mark.parametrize("choice", ["Strict", "Warn"])
async def test_what_comes_twice(server: TestServer, choice: str) -> None:
    answer = await server.request("POST", f"{MAPS}?dryRun=All&fieldValidation={choice}", DOUBLED)
    found = [
        'duplicate field "metadata.name"',
        'duplicate field "metadata.labels.a"',
        'duplicate field "data.x"',
        'duplicate field "data"',
    ]
    if choice == "Strict":
        assert answer.status == 400
        assert sorted(answer.json["message"].partition("error: ")[2].split(", ")) == sorted(found)
    else:
        assert (answer.status, sorted(warned(answer))) == (201, sorted(found))
        assert (answer.json["metadata"]["name"], answer.json["metadata"]["labels"]) == ("n", {"a": "c"}), "the last one counts"


async def test_what_comes_twice_in_yaml(server: TestServer) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  x: a\n  x: b\n"
    answer = await server.request("POST", f"{MAPS}?dryRun=All&fieldValidation=Strict", body, content_type=YAML)
    assert answer.status == 400
    assert 'line 7: key "x" already set in map' in answer.json["message"]
    lenient = await server.request("POST", f"{MAPS}?dryRun=All", body, content_type=YAML)
    assert (lenient.status, lenient.json["data"]) == (201, {"x": "b"})
    assert any('key "x" already set in map' in text for text in warned(lenient))


PATCHES = [
    (MERGE, {"data": {"a": "c"}, "color": "red"}, 'unknown field "color"'),
    (STRATEGIC, {"metadata": {"color": "red"}}, 'unknown field "metadata.color"'),
    (JSON_PATCH, [{"op": "add", "path": "/color", "value": "red"}], 'unknown field "color"'),
]


@pytest.mark.parametrize(("kind", "patch", "found"), PATCHES, ids=[one[0] for one in PATCHES])
async def test_patches(server: TestServer, kind: str, patch: Any, found: str) -> None:
    path = f"{MAPS}/held?dryRun=All&fieldValidation="
    strict = await server.request("PATCH", path + "Strict", patch, content_type=kind)
    assert (strict.status, [cause["field"] for cause in strict.json["details"]["causes"]]) == (422, ["patch"]), strict.body
    assert strict.json["message"].endswith(f": strict decoding error: {found}")
    warning = await server.request("PATCH", path + "Warn", patch, content_type=kind)
    assert (warning.status, warned(warning)) == (200, [found])
    silent = await server.request("PATCH", path + "Ignore", patch, content_type=kind)
    assert (silent.status, warned(silent)) == (200, [])


OPERATION = '[{"op":"replace","path":"/data/a","value":"x","value":"y","why":1}]'
SAID_TWICE = [
    (MERGE, '{"data":{"a":"x","a":"y"}}', ['duplicate field "data.a"']),
    (STRATEGIC, '{"data":{"a":"x","a":"y"}}', ['duplicate field "data.a"']),
    (JSON_PATCH, OPERATION, ['json patch unknown field "[0].why"', 'json patch duplicate field "[0].value"']),
]


@pytest.mark.parametrize(("kind", "body", "found"), SAID_TWICE, ids=[one[0] for one in SAID_TWICE])
async def test_a_patch_that_says_something_twice(server: TestServer, kind: str, body: str, found: list[str]) -> None:
    path = f"{MAPS}/held?dryRun=All&fieldValidation="
    strict = await server.request("PATCH", path + "Strict", body, content_type=kind)
    assert strict.status == 422, strict.body
    assert strict.json["message"].endswith(f"strict decoding error: {', '.join(found)}")
    lenient = await server.request("PATCH", path + "Warn", body, content_type=kind)
    assert (lenient.status, lenient.json["data"], warned(lenient)) == (200, {"a": "y"}, found)


async def test_updates(server: TestServer) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held"}, "color": "red"}
    strict = await server.request("PUT", f"{MAPS}/held?dryRun=All&fieldValidation=Strict", body)
    assert (strict.status, 'unknown field "color"' in strict.json["message"]) == (400, True)
    assert warned(await server.request("PUT", f"{MAPS}/held?dryRun=All", body)) == ['unknown field "color"']


async def test_apply_refuses_what_it_does_not_know(server: TestServer) -> None:
    """A configuration is typed before anything else: upstream answers 500 and names the field, whatever was asked."""
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held}\ncolor: red\n"
    answer = await server.request("PATCH", f"{MAPS}/held?fieldManager=m&dryRun=All", body, content_type=APPLY)
    assert answer.status == 500
    assert ".color: field not declared in schema" in answer.json["message"]


async def test_deprecated_versions_and_fields_warn() -> None:
    """Every answer about a deprecated version, and the writes that use a deprecated field."""
    async with running_apiserver(runtime_config={"batch/v1beta1": "true"}) as server:
        for method, path in (
            ("GET", "/apis/batch/v1beta1/cronjobs"),
            ("GET", "/apis/batch/v1beta1/namespaces/default/cronjobs/x"),
        ):
            text = "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob"
            assert warned(await server.request(method, path)) == [text]
        listed = await server.request("GET", "/api/v1/endpoints")
        assert warned(listed) == ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]
        pod = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "t"},
            "template": {
                "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}
            },
        }
        made = await server.request("POST", "/api/v1/namespaces/default/podtemplates", pod)
        assert warned(made) == [
            'template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'
        ]


async def test_many_warnings_are_cut(server: TestServer) -> None:
    """About 4 KiB of them, each no longer than 256 characters: upstream's ``endpoints/filters/warning.go``."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "many"},
        **{f"f{number:03}" + "x" * 400: 1 for number in range(80)},
    }
    answer = await server.request("POST", f"{MAPS}?dryRun=All", body)
    assert answer.status == 201
    texts = warned(answer)
    assert {len(text) for text in texts} == {256}
    assert sum(map(len, texts)) == 4096
