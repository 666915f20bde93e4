"""MutatingAdmissionPolicies in a running server: what they make of objects, in which order, and how they may fail."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.apiserver import Answer, TestServer, running_apiserver

GROUP = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"
APPS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}
CONFIG = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as started:
        yield started


def deployment(name: str, image: str = "nginx", **labels: str) -> dict[str, Any]:
    chosen = {"app": "a", **labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": chosen},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": chosen}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    }


def config_map(name: str = "m", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def made(server: TestServer, path: str, obj: dict[str, Any]) -> Any:
    answer = await server.request("POST", path, obj)
    assert answer.status == 201, answer.body
    return answer.json


async def bind(
    server: TestServer, rule: dict[str, Any], *mutations: dict[str, Any], name: str = "p", binding: Any = None, **spec: Any
) -> None:
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "reinvocationPolicy": "Never",
        "mutations": list(mutations),
        **spec,
    }
    for kind, plural, what, how in (
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", name, policy),
        (
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            f"{name}-binding",
            {"policyName": name, **(binding or {})},
        ),
    ):
        obj = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": what}, "spec": how}
        await made(server, f"{GROUP}/{plural}", obj)


def refused(answer: Answer, message: str, policy: str = "p") -> None:
    assert answer.status == 403, answer.body
    expected = f"policy '{policy}' with binding '{policy}-binding' denied request: {message}"
    assert answer.json["message"].startswith(expected), answer.json["message"]
    assert answer.json["reason"] == "Invalid"
    assert answer.json["details"]["causes"][0]["message"] == answer.json["message"]


async def test_a_configuration_is_merged_by_the_rules_of_apply(server: TestServer) -> None:
    """The documentation's sidecar: an element of a list by its key, a map by its entries, in every mutation's turn."""
    sidecar = """
      Object{
        metadata: Object.metadata{annotations: {"by": request.userInfo.username}},
        spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
          containers: [Object.spec.template.spec.containers{name: "mesh", image: variables.image}]
        }}}
      }"""
    second = """
      object.spec.template.spec.containers.exists(c, c.name == "mesh") ?
        Object{metadata: Object.metadata{labels: {"meshed": string(size(object.spec.template.spec.containers))}}} : Object{}"""
    variables = [{"name": "image", "expression": "'mesh/' + object.spec.template.spec.containers[0].image"}]
    await bind(server, APPS, apply(sidecar), apply(second), variables=variables)
    stored = await made(server, DEPLOYMENTS, deployment("web"))
    containers = stored["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["image"] for each in containers} == {"c": "nginx", "mesh": "mesh/nginx"}
    assert {each["imagePullPolicy"] for each in containers} == {"Always"}  # what policies make gets its defaults
    assert stored["metadata"]["labels"] == {"app": "a", "meshed": "2"}
    assert stored["metadata"]["annotations"]["by"]


async def test_patches(server: TestServer) -> None:
    expression = """[
      JSONPatch{op: "test", path: "/data/color", value: "red"},
      JSONPatch{op: "replace", path: "/data/color", value: "green"},
      JSONPatch{op: "add", path: "/metadata/labels", value: {"example.com/env": "test"}},
      JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/ab"), value: "1"}
    ]"""
    await bind(server, CONFIG, patch(expression))
    changed = await made(server, MAPS, config_map("a", color="red"))
    assert changed["data"] == {"color": "green"}
    assert changed["metadata"]["labels"] == {"example.com/env": "test", "example.com/ab": "1"}
    assert (await made(server, MAPS, config_map("b", color="blue")))["data"] == {"color": "blue"}  # its test fails


async def test_dry_runs_and_patches_by_clients_see_the_same(server: TestServer) -> None:
    await bind(server, CONFIG, apply('Object{data: {"added": string(request.dryRun)}}'))
    tried = await made(server, f"{MAPS}?dryRun=All", config_map("a"))
    assert tried["data"] == {"added": "true"}
    await made(server, MAPS, config_map("a"))
    merged = await server.request("PATCH", f"{MAPS}/a", {"data": {"added": "x"}}, content_type="application/merge-patch+json")
    assert merged.json["data"] == {"added": "false"}


@pytest.mark.parametrize(
    ("mutation", "message"),
    [
        (apply("Object{spec: Object.spec{nosuch: 1}}"), "error applying patch: failed to convert patch object to typed object: "),
        (
            apply('Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"a": "b"}}}}'),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector",
        ),
        (
            apply("Object{spec: Object.spec{template: Object.spec.wrong{}}}"),
            'type mismatch: unexpected type name "Object.spec.wrong", expected "Object.spec.template", which matches field name',
        ),
        (
            apply("Object{spec: Object.spec{replicas: object.spec.gone}}"),
            "expression 'Object{spec: Object.spec{replicas: object.spec.gone}}' resulted in error: no such key: gone",
        ),
        (patch('[JSONPatch{op: "remove", path: "/spec/nosuch"}]'), "JSONPath: "),
    ],
)
async def test_what_cannot_be_done_refuses_the_write(server: TestServer, mutation: dict[str, Any], message: str) -> None:
    await bind(server, APPS, mutation)
    refused(await server.request("POST", DEPLOYMENTS, deployment("web")), message)
    lenient = {"spec": {"failurePolicy": "Ignore"}}
    path = f"{GROUP}/mutatingadmissionpolicies/p"
    assert (await server.request("PATCH", path, lenient, content_type="application/merge-patch+json")).status == 200
    assert (await server.request("POST", DEPLOYMENTS, deployment("web"))).status == 201


async def test_fields_that_do_not_exist_and_values_of_wrong_types(server: TestServer) -> None:
    """Whatever the failure policy says."""
    await bind(
        server,
        CONFIG,
        patch('[JSONPatch{op: "add", path: "/" + object.data.field, value: {"a": 1}}]'),
        failurePolicy="Ignore",
    )
    for field, message in (
        ("nosuch", 'strict decoding error: unknown field "nosuch"'),
        ("data", "json: cannot unmarshal number"),
    ):
        answer = await server.request("POST", MAPS, config_map("m", field=field))
        assert answer.status == 500
        assert message in answer.json["message"]


async def test_an_expression_that_could_cost_too_much_is_not_evaluated(server: TestServer) -> None:
    loops = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != '')))"
    await bind(server, CONFIG, apply(f'Object{{data: {{"all": string({loops})}}}}'))
    assert (await made(server, MAPS, config_map("few", a="b" * 20)))["data"]["all"] == "true"
    many = config_map("many", **{f"key{number}": "value" for number in range(100)})
    answer = await server.request("POST", MAPS, many)
    assert answer.status == 403
    assert answer.json["message"].endswith("resulted in error: operation cancelled: actual cost limit exceeded")


async def test_conditions_and_parameters(server: TestServer) -> None:
    for name in ("one", "two"):
        await made(server, MAPS, {**config_map(name, key=name), "metadata": {"name": name, "labels": {"param": "yes"}}})
    conditions = [{"name": "asked", "expression": "has(object.metadata.labels.asked)"}]
    await bind(
        server,
        APPS,
        apply("Object{metadata: Object.metadata{annotations: {params.data.key: namespaceObject.metadata.name}}}"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=conditions,
        binding={"paramRef": {"selector": {"matchLabels": {"param": "yes"}}, "parameterNotFoundAction": "Deny"}},
    )
    assert (await made(server, DEPLOYMENTS, deployment("a", asked="yes")))["metadata"]["annotations"] == {
        "one": "default",
        "two": "default",
    }
    assert "annotations" not in (await made(server, DEPLOYMENTS, deployment("b")))["metadata"]
    for name in ("one", "two"):
        assert (await server.request("DELETE", f"{MAPS}/{name}")).status == 200
    answer = await server.request("POST", DEPLOYMENTS, deployment("c", asked="yes"))
    assert answer.status == 403
    assert answer.json["reason"] == "Forbidden"
    assert answer.json["message"] == (
        "policy 'p' with binding 'p-binding' denied request: failed to configure binding: "
        "no params found for policy binding with `Deny` parameterNotFoundAction"
    )


async def test_metrics(server: TestServer) -> None:
    conditions = [{"name": "asked", "expression": "request.name == 'm'"}]
    await bind(server, CONFIG, apply('Object{data: {"a": "b"}}'), matchConditions=conditions)
    await made(server, MAPS, config_map("m"))
    await made(server, MAPS, config_map("other"))
    shown = (await server.request("GET", "/metrics")).body.decode().splitlines()
    checked = '{error_type="no_error",policy="p",policy_binding="p-binding"}'
    assert f"apiserver_mutating_admission_policy_check_total{checked} 1.0" in shown
    assert f"apiserver_mutating_admission_policy_check_duration_seconds_count{checked} 1.0" in shown
    where = '{kind="policy",name="p",operation="CREATE",type="validate"}'
    assert f"apiserver_admission_match_condition_exclusions_total{where} 1.0" in shown
    assert f"apiserver_admission_match_condition_evaluation_seconds_count{where} 3.0" in shown


async def test_those_that_want_it_are_asked_again_after_a_change(server: TestServer) -> None:
    """They count how often they are asked; policies take their turns by their names. What a changes anew, c sees anew."""
    count = "'{0}' in object.data ? string(int(object.data['{0}']) + 1) : '1'"
    for name, again in (("a", "IfNeeded"), ("b", "Never"), ("c", "IfNeeded")):
        value = f"({count.format(name)})"
        mutation = apply(f'Object{{data: {{"{name}": {value}, "last": "{name}"}}}}')
        await bind(server, CONFIG, mutation, name=name, reinvocationPolicy=again)
    stored = await made(server, MAPS, config_map("m", x="y"))
    assert stored["data"] == {"x": "y", "a": "2", "b": "1", "c": "2", "last": "c"}


async def test_custom_resources(server: TestServer) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": {"type": "string"}, "kind": {"type": "string", "default": "plain"}},
                        },
                    },
                },
            }
        },
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {"name": version, "served": True, "storage": version == "v1", "schema": {"openAPIV3Schema": schema}}
                for version in ("v1", "v2")
            ],
        },
    }
    await made(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    widget: dict[str, Any] = {"kind": "Widget", "metadata": {"name": "w"}, "spec": {"parts": [{"name": "a", "kind": "special"}]}}
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]}
    mutation = apply('Object{spec: Object.spec{size: params.spec.size, parts: [Object.spec.parts{name: "b"}]}}')
    await made(
        server,
        "/apis/example.com/v1/namespaces/default/widgets",
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "param"}, "spec": {"size": 7}},
    )
    reference = {"name": "param", "namespace": "default", "parameterNotFoundAction": "Deny"}
    await bind(
        server,
        {**rule, "operations": ["CREATE"]},
        mutation,
        paramKind={"apiVersion": "example.com/v1", "kind": "Widget"},
        binding={"paramRef": reference},
    )
    stored = await made(server, "/apis/example.com/v2/namespaces/default/widgets", {"apiVersion": "example.com/v2", **widget})
    assert stored["apiVersion"] == "example.com/v2"
    assert stored["spec"]["size"] == 7
    assert sorted((each["name"], each["kind"]) for each in stored["spec"]["parts"]) == [("a", "special"), ("b", "plain")]


async def test_a_kind_of_parameters_that_is_not_served(server: TestServer) -> None:
    kind = {"apiVersion": "example.com/v1", "kind": "Gone"}
    reference = {"name": "param", "parameterNotFoundAction": "Allow"}
    await bind(server, CONFIG, apply("Object{}"), paramKind=kind, binding={"paramRef": reference})
    answer = await server.request("POST", MAPS, config_map())
    assert answer.status == 403
    what = "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Gone'"
    assert answer.json["message"] == f'policy "p" denied request: failed to configure policy: {what}'


async def test_policies_of_other_versions_are_the_same_policies() -> None:
    versions = {f"admissionregistration.k8s.io/{version}": "true" for version in ("v1beta1", "v1alpha1")}
    async with running_apiserver(runtime_config=versions) as server:
        for version, plural, kind, spec in (
            (
                "v1beta1",
                "mutatingadmissionpolicies",
                "MutatingAdmissionPolicy",
                {
                    "matchConstraints": {"resourceRules": [CONFIG]},
                    "reinvocationPolicy": "Never",
                    "mutations": [apply('Object{data: {"by": "policy"}}')],
                },
            ),
            ("v1alpha1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", {"policyName": "p"}),
        ):
            group = f"admissionregistration.k8s.io/{version}"
            await made(
                server, f"/apis/{group}/{plural}", {"apiVersion": group, "kind": kind, "metadata": {"name": "p"}, "spec": spec}
            )
        assert (await made(server, MAPS, config_map()))["data"] == {"by": "policy"}
