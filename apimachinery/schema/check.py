"""Does an object fit its schema? Type errors, unknown fields, and the normal form in which objects are stored.

Called by ``scheme`` after every decode. ``normalize`` is the whole job in one pass; the quick answer comes from ``fast``, and
the walk here runs only for objects that have something to say or to change. The words are those of Go's JSON decoder, which
clients know: ``json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32``.

The normal form is what upstream's round trip through Go structs leaves: no unknown fields, no nulls, no empty or zero value where
the field is a value with ``omitempty`` (``Field.omits_empty``), canonical quantities (``1000m`` is ``1``), times in UTC.
"""

from dataclasses import dataclass, field
from typing import Any

from apimachinery.schema import fast, scalars
from apimachinery.schema.go_types import go_type, named
from apimachinery.schema.types import ListSchema, MapSchema, ScalarSchema, Schema, StructSchema

Object = dict[str, Any]


@dataclass(slots=True)
class Findings:
    """What one walk found, in document order. ``type_errors`` make an object unusable; ``unknown`` concerns strict decoding."""

    type_errors: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def normalize(obj: Any, schema: StructSchema) -> Findings:
    """Bring ``obj`` to its normal form, in place, and report. With type errors the object is left half-way: discard it."""
    if type(obj) is dict:
        _drop_null_times(obj)
    return Findings() if fast.checker(schema)(obj) else _walk(obj, schema, change=True)


def _drop_null_times(obj: Object) -> None:
    """Go clients before v1.35 write ``creationTimestamp: null`` into every metadata: no reason to take the slow way."""
    for holder in (obj, (obj.get("spec") or {}).get("template") if type(obj.get("spec")) is dict else None):
        metadata = holder.get("metadata") if type(holder) is dict else None
        if type(metadata) is dict and metadata.get("creationTimestamp", "") is None:
            del metadata["creationTimestamp"]


def type_errors(obj: Any, schema: StructSchema) -> list[str]:
    """Upstream's decode errors, such as ``json: cannot unmarshal number into Go struct field EnvVar.spec... of type string``."""
    return [] if fast.checker(schema)(obj) else _walk(obj, schema, change=False).type_errors


def unknown_fields(obj: Any, schema: StructSchema) -> list[str]:
    """``unknown field "spec.containers[0].foo"`` for each field the schema does not have."""
    return [] if fast.checker(schema)(obj) else _walk(obj, schema, change=False).unknown


def prune(obj: Object, schema: StructSchema) -> None:
    """``normalize`` for objects already known to have the right types."""
    normalize(obj, schema)


def fits(obj: Any, schema: StructSchema) -> bool:
    """Whether ``obj`` is in normal form already."""
    return fast.checker(schema)(obj)


def _walk(obj: Any, schema: StructSchema, *, change: bool) -> Findings:
    walk = _Walk(change)
    walk.struct(obj, schema, "", [])
    return walk.findings


_NOTHING = object()
_SAID = {str: "string", bool: "bool", dict: "object", list: "array", type(None): "null"}


class _Walk:
    """One walk over one object. ``path`` has list positions, as unknown fields are named; ``names`` has not, as Go's is."""

    def __init__(self, change: bool) -> None:
        self.change = change
        self.findings = Findings()
        self.owner = ""

    def value(self, value: Any, schema: Schema, path: str, names: list[str]) -> Any:
        """The normal form of a non-null value."""
        if isinstance(schema, ScalarSchema):
            return self.scalar(value, schema.kind, names)
        if isinstance(schema, StructSchema):
            return self.struct(value, schema, path, names)
        if isinstance(schema, ListSchema):
            return self.items(value, schema, path, names)
        return self.entries(value, schema, path, names)

    def struct(self, value: Any, schema: StructSchema, path: str, names: list[str]) -> Any:
        if type(value) is not dict:
            return self.mistyped(value, schema.go_name, names)
        outer, self.owner = self.owner, schema.short_name
        fields = schema.fields
        for key in list(value):
            found = fields.get(key)
            here = f"{path}.{key}" if path else key
            if found is None:
                self.findings.unknown.append(f'unknown field "{here}"')
                new = _NOTHING
            elif value[key] is None:
                new = _NOTHING
            else:
                self.owner = schema.short_name
                new = self.value(value[key], found.schema, here, [*names, key])
                if not new and fast.omitted_when_empty(found):
                    new = _NOTHING
            self.put(value, key, new)
        self.owner = outer
        return value

    def put(self, container: Any, key: Any, new: Any) -> None:
        if not self.change:
            return
        if new is _NOTHING:
            del container[key]
        elif new is not container[key]:
            container[key] = new

    def items(self, value: Any, schema: ListSchema, path: str, names: list[str]) -> Any:
        if type(value) is not list:
            return self.mistyped(value, go_type(schema), names)
        owner = self.owner
        for position, item in enumerate(value):
            self.owner = owner
            new = zero(schema.element) if item is None else self.value(item, schema.element, f"{path}[{position}]", names)
            self.put(value, position, new)
        return value

    def entries(self, value: Any, schema: MapSchema, path: str, names: list[str]) -> Any:
        if type(value) is not dict:
            return self.mistyped(value, go_type(schema), names)
        owner = self.owner
        for key, item in value.items():
            self.owner = owner
            new = zero(schema.value) if item is None else self.value(item, schema.value, f"{path}.{key}", names)
            self.put(value, key, new)
        return value

    def scalar(self, value: Any, kind: str, names: list[str]) -> Any:
        if kind in ("int32", "int64"):
            low, high = scalars.INT32 if kind == "int32" else scalars.INT64
            return value if type(value) is int and low <= value <= high else self.mistyped(value, kind, names)
        if kind == "double":
            return value if type(value) in (int, float) else self.mistyped(value, "float64", names)
        if kind == "intstr" and type(value) is not str:
            return self.scalar(value, "int32", names)
        if kind in _PARSED:
            return self.parsed(value, kind, names)
        expected = {"boolean": bool, "object": dict}.get(kind, str)
        if kind == "any" or type(value) is expected:
            return value
        return self.mistyped(value, {"boolean": "bool", "object": "map[string]interface {}"}.get(kind, "string"), names)

    def parsed(self, value: Any, kind: str, names: list[str]) -> Any:
        if kind != "quantity" and type(value) is not str:
            return self.mistyped(value, "[]uint8" if kind == "bytes" else "string", names)
        try:
            return _PARSED[kind](value)
        except ValueError as problem:
            self.findings.type_errors.append(str(problem))
            return value

    def mistyped(self, value: Any, wanted: str, names: list[str]) -> Any:
        if names:
            wanted = named(self.owner, names[-1], wanted)
        said = _SAID.get(type(value))
        if said is None:  # Go tells which number only when it was looking for one
            said = f"number {value!r}" if wanted in ("int32", "int64") else "number"
        place = f"struct field {self.owner}.{'.'.join(names)}" if names else "value"
        self.findings.type_errors.append(f"json: cannot unmarshal {said} into Go {place} of type {wanted}")
        return value


_PARSED: dict[str, Any] = {
    "quantity": scalars.canonical_quantity,
    "time": scalars.canonical_time,
    "microtime": lambda text: scalars.canonical_time(text, micro=True),
    "bytes": scalars.canonical_base64,
}


def zero(schema: Schema) -> Any:
    """What null means inside a list or a map: Go's zero value."""
    if isinstance(schema, ListSchema):
        return []
    if isinstance(schema, MapSchema | StructSchema):
        return {}
    return {"boolean": False, "int32": 0, "int64": 0, "double": 0, "quantity": "0", "intstr": 0, "any": None, "object": {}}.get(
        schema.kind, ""
    )
