"""What the controller says of the types in policies' expressions: Kubernetes' own examples, and custom resources."""

from typing import Any

from apimachinery.gvk import GroupVersionResource
from apimachinery.resources import VALIDATING_ADMISSION_POLICIES
from client.rest import MERGE
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def policy(name: str, group: str, resources: list[str], *validations: dict[str, str], **spec: Any) -> dict[str, Any]:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": resources}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": list(validations), **spec},
    }


def definition() -> dict[str, Any]:
    size = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": size}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def test_warnings_of_each_generation() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False) as client:

        async def warned(made: dict[str, Any]) -> list[tuple[str, str]]:
            name, generation = made["metadata"]["name"], made["metadata"]["generation"]

            async def seen() -> bool:
                status = (await client.get(VALIDATING_ADMISSION_POLICIES, name)).get("status") or {}
                return bool(status.get("observedGeneration") == generation)

            await eventually(seen, within=30)
            checking = (await client.get(VALIDATING_ADMISSION_POLICIES, name))["status"].get("typeChecking") or {}
            return [(each["fieldRef"], each["warning"]) for each in checking.get("expressionWarnings") or ()]

        wrong = {"expression": "object.spec.replicas > '1'", "messageExpression": "string(object.spec.replica)"}
        variables = [{"name": "n", "expression": "object.spec.replicas"}]
        right = {"expression": "variables.n > 1 && object.spec.template.spec.containers.all(c, c.image.startsWith('a'))"}
        made = policy("types", "apps", ["deployments", "nosuch"], wrong, right, variables=variables)
        first, second = await warned(await client.create(VALIDATING_ADMISSION_POLICIES, made))
        assert first[0] == "spec.validations[0].expression"
        assert first[1].startswith(
            "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'"
        )
        assert second[0] == "spec.validations[0].messageExpression"
        assert "undefined field 'replica'" in second[1]

        changed = await client.patch(VALIDATING_ADMISSION_POLICIES, "types", {"spec": {"validations": [right]}}, MERGE)
        assert await warned(changed) == []

        await client.create(DEFINITIONS, definition())

        async def described() -> bool:
            return b"example.com/v1" in await client.raw("GET", "/openapi/v3")

        await eventually(described, within=30)
        custom = policy(
            "custom",
            "example.com",
            ["widgets"],
            {"expression": "object.spec.size == params.data.size"},
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        )
        [(_, text)] = await warned(await client.create(VALIDATING_ADMISSION_POLICIES, custom))
        assert text.startswith("example.com/v1, Kind=Widget: ERROR")
        assert "'_==_' applied to '(int, string)'" in text
