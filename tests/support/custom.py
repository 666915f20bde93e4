"""Definitions of custom resources for tests, and what a test does with them on a server."""

import asyncio
from typing import Any

from tests.support.apiserver import TestServer

Object = dict[str, Any]
GROUP = "example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "color": {"type": "string", "default": "red"},
                "size": {"type": "integer", "minimum": 0},
                "replicas": {"type": "integer"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}, "ready": {"type": "boolean"}},
        },
    },
}


def version(name: str = "v1", *, storage: bool = True, schema: Object = SCHEMA, **more: Any) -> Object:
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(
    plural: str = "widgets", kind: str = "Widget", *versions: Object, scope: str = "Namespaced", **spec: Any
) -> Object:
    names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": names | spec.pop("names", {}),
            "versions": list(versions or (version(),)),
            **spec,
        },
    }


async def established(server: TestServer, wanted: Object) -> Object:
    """Create a definition and wait until it is served."""
    answer = await server.request("POST", DEFINITIONS, wanted)
    assert answer.status == 201, answer.body
    return await until(server, wanted["metadata"]["name"], "Established")


async def until(server: TestServer, name: str, condition: str, status: str = "True") -> Object:
    async with asyncio.timeout(10):
        while True:
            found: Object = (await server.request("GET", f"{DEFINITIONS}/{name}")).json
            held = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions") or ()}
            if held.get(condition) == status:
                return found
            await asyncio.sleep(0.02)


async def gone(server: TestServer, name: str) -> None:
    async with asyncio.timeout(10):
        while True:
            if (await server.request("GET", f"{DEFINITIONS}/{name}")).status == 404:
                return
            await asyncio.sleep(0.02)


def widget(name: str, kind: str = "Widget", api_version: str = f"{GROUP}/v1", **spec: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
