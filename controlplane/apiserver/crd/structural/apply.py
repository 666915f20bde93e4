"""A structural schema in the language of ``apimachinery.schema``, for server-side apply and patches.

Structs made here have no name: nothing in a custom resource is there by itself, as values in Go's structs are.
"""

from apimachinery import schema
from apimachinery.schema.types import Definition, Field, ListSchema, MapSchema, ScalarSchema, Schema, StructSchema
from controlplane.apiserver.crd.structural.node import META_FIELDS, Node

_SCALARS = {"string": "string", "integer": "int64", "number": "double", "boolean": "boolean"}
_ANY = ScalarSchema("any")
_TEXT = ScalarSchema("string")


def struct_of(node: Node) -> StructSchema:
    """A resource: what the schema says, and type and metadata."""
    return StructSchema("", lambda: _definition(node, resource=True))


def _definition(node: Node, *, resource: bool) -> Definition:
    fields = {
        name: Field(name, schema_of(inner), name in node.required, default=inner.default)
        for name, inner in node.properties.items()
        if not (resource and name in META_FIELDS)
    }
    if resource:
        fields |= {name: Field(name, _TEXT) for name in ("apiVersion", "kind")}
        fields["metadata"] = Field("metadata", schema.load().meta("ObjectMeta"))
    return Definition(fields, atomic=node.map_type == "atomic", open=node.preserve)


def schema_of(node: Node) -> Schema:
    """Of one value. Nothing is known of what the schema leaves open, so that it is one thing."""
    if node.int_or_string:
        return ScalarSchema("intstr")
    if node.type in _SCALARS:
        return ScalarSchema(_SCALARS[node.type])
    if node.type == "array" and node.items is not None:
        return ListSchema(schema_of(node.items), node.list_type or "atomic", node.list_map_keys)
    if node.properties or node.embedded:
        return StructSchema("", lambda: _definition(node, resource=node.embedded))
    if node.additional is not None:
        return MapSchema(schema_of(node.additional), node.map_type == "atomic")
    if node.additional_allowed:
        return MapSchema(_ANY, node.map_type == "atomic")
    if node.type == "object":
        return ScalarSchema("object") if node.preserve else StructSchema("", lambda: _definition(node, resource=False))
    return _ANY
