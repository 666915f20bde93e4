"""Random objects that fit a schema, in normal form and without zero values: food for round trips.

``sample(struct, rng)`` fills some of the fields of a struct, to a bounded depth. The same seed gives the same object.
"""

import base64
import random
from typing import Any

from apimachinery.schema import ListSchema, ScalarSchema, Schema, StructSchema

_WORDS = ["web", "db", "ü", "a b", 'quo"te', "x" * 200]
_QUANTITIES = ["100m", "1", "1500m", "2Gi", "1Ki", "12", "3M"]


def sample(struct: StructSchema, rng: random.Random, depth: int = 7, density: float = 0.4) -> dict[str, Any]:
    result = {}
    for name, field in sorted(struct.fields.items()):
        if name not in ("apiVersion", "kind") and (field.required or rng.random() < density):
            value = _value(field.schema, rng, depth, density)
            if value is not None:
                result[name] = value
    return result


def _value(schema: Schema, rng: random.Random, depth: int, density: float) -> Any:
    if isinstance(schema, ScalarSchema):
        return _scalar(schema.kind, rng)
    if depth <= 0:
        return None
    if isinstance(schema, StructSchema):
        return sample(schema, rng, depth - 1, density * 0.8)
    if isinstance(schema, ListSchema):
        items = [_value(schema.element, rng, depth - 1, density) for _ in range(rng.randint(1, 2))]
        return None if None in items else items
    entries = {rng.choice(_WORDS): _value(schema.value, rng, depth - 1, density) for _ in range(rng.randint(1, 2))}
    return None if None in entries.values() else entries


def _scalar(kind: str, rng: random.Random) -> Any:
    makers: dict[str, Any] = {
        "string": lambda: rng.choice(_WORDS),
        "boolean": lambda: True,
        "int32": lambda: rng.choice([1, -1, 80, 2**31 - 1, -(2**31)]),
        "int64": lambda: rng.choice([1, -1, 2**40, 2**63 - 1, -(2**63)]),
        "double": lambda: rng.choice([0.5, 1e10, -2.25]),
        "bytes": lambda: base64.b64encode(rng.randbytes(rng.randint(1, 9))).decode(),
        "time": lambda: f"20{rng.randint(10, 40)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}T01:02:03Z",
        "microtime": lambda: f"2024-01-01T01:02:03.{rng.randint(1, 999999):06}Z",
        "quantity": lambda: rng.choice(_QUANTITIES),
        "intstr": lambda: rng.choice([8080, "25%", "http", -1]),
        "any": lambda: {"kind": "X", "n": [1, 2.5, None, {"a": "b"}]},
        "object": lambda: {"f:a": {}, "b": [True]},
    }
    return makers[kind]()
