"""Definitions to judge, and what is said of them."""

from typing import Any

from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import CustomResourceDefinitionStrategy, validation

Object = dict[str, Any]
STRATEGY = CustomResourceDefinitionStrategy()


def version(name: str = "v1", schema: Object | None = None, **more: Any) -> Object:
    root = {"type": "object"} if schema is None else schema
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": root}, **more}


def definition(*versions: Object, **spec: Any) -> Object:
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": list(versions) or [version()],
            **spec,
        },
        "status": {"storedVersions": ["v1"]},
    }
    STRATEGY.default(obj)
    return obj


def properties(**inner: Object) -> Object:
    return definition(version(schema={"type": "object", "properties": inner}))


def said(obj: Object) -> list[str]:
    return [str(error) for error in validation.problems(obj)]


def said_of_schema(**inner: Object) -> list[str]:
    """With the path of the schema's properties left out."""
    prefix = "spec.validation.openAPIV3Schema."
    return [text.removeprefix(prefix) for text in said(properties(**inner))]
