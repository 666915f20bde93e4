"""What stock kubectl, of two minors, prints when people err: upstream's words for each, and nothing is written."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from tests.support import clients
from tests.support.apiserver import TestServer

HEAD = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n"
GOOD = (
    HEAD
    + """\
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}
"""
)
UNMATCHED = "* spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"
CREATE = ("create", "-f", "-")
BY_CLIENT = 'error validating "STDIN": error validating data: '  # older clients look into OpenAPI v2 and never ask the server


def of_pod(field: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, image: x, {field}}}]}}"


def config_map(size: int) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"a": "x" * size}})


# command line, standard input, pieces of what is printed
CASES: list[tuple[Sequence[str], str, tuple[str, ...]]] = [
    (CREATE, "a: [1\nb: 2", ("error converting YAML to JSON",)),
    (CREATE, "apiVersion: v1\nkind: Foo\nmetadata: {name: a}", ('no matches for kind "Foo" in version "v1"',)),
    (CREATE, HEAD + "  replicas: 1\n", ("* spec.selector: Required value", UNMATCHED, "containers: Required value")),
    (
        CREATE,
        GOOD + "  replicas: three\n",
        ("(BadRequest)", "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"),
    ),
    (CREATE, GOOD + "  foo: 1\n", ("(BadRequest)", 'strict decoding error: unknown field "spec.foo"')),
    (CREATE, of_pod("resources: {requests: {cpu: abc}}"), ("quantities must match the regular expression",)),
    (CREATE, config_map(4_000_000), ("(RequestEntityTooLarge)", "limit is 3145728")),
    (CREATE, config_map(1_100_000), ("Too long: may not be more than 1048576 bytes",)),
    (("apply", "--server-side", "-f", "-"), GOOD + "  foo: 1\n", (".spec.foo: field not declared in schema",)),
    (("create", "configmap", "Bad_Name"), "", ('metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain',)),
    (("create", "configmap", "a", "-n", "nowhere"), "", ('namespaces "nowhere" not found',)),
    (("create", "deployment", "x", "--image=x", "--replicas=-1"), "", ("spec.replicas: Invalid value: -1: must be greater",)),
    (("label", "namespace", "default", "a b=c"), "", ('metadata.labels: Invalid value: "a b": name part must consist',)),
    (("get", "pods", "-l", "a in (b"), "", ("(BadRequest)", "unable to parse requirement: found ''")),
    (("get", "pods", "--field-selector=spec.foo=1"), "", ("field label not supported: spec.foo",)),
    (("get", "nothing"), "", ('the server doesn\'t have a resource type "nothing"',)),
    (("get", "--raw", "/nowhere"), "", ("(NotFound)", "the server could not find the requested resource")),
    (("patch", "namespace", "default", "-p", '{"a":'), "", ("(BadRequest)", "unexpected end of JSON input")),
    (
        ("patch", "namespace", "default", "--type=json", "-p", '[{"op":"remove","path":"/x"}]'),
        "",
        ("The request is invalid",),
    ),
    (("annotate", "namespace", "default", "x=y", "--resource-version=1"), "", ("(Conflict)", "the object has been modified")),
    (("delete", "namespace", "nowhere"), "", ('namespaces "nowhere" not found',)),
    (("scale", "deployment/none", "--replicas=2"), "", ('deployments.apps "none" not found',)),
]


@pytest.mark.parametrize("program", clients.KUBECTLS)
async def test_each_mistake_is_named_and_nothing_is_written(server: TestServer, program: str) -> None:
    server.kubectl_program = clients.kubectl(program)
    await server.kubectl("get", "namespaces")  # fills its cache of discovery once
    before = await server.running.backend.current_revision()
    at_once = asyncio.Semaphore(3)

    async def one(arguments: Sequence[str], stdin: str) -> tuple[int, str]:
        async with at_once:
            code, out, err = await server.kubectl(*arguments, stdin=stdin)
        return code, out + err

    ended = await asyncio.gather(*(one(arguments, stdin) for arguments, stdin, _ in CASES))

    for (code, said), (arguments, _, pieces) in zip(ended, CASES, strict=True):
        assert code == 1, arguments
        for piece in pieces:
            assert piece in said or BY_CLIENT in said, arguments
    assert await server.running.backend.current_revision() == before
