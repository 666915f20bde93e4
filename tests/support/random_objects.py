"""Random objects that fit a schema: every type is right, nothing else is. For tests that must survive anything decodable."""

import base64
from random import Random
from typing import Any

from apimachinery.schema.types import ListSchema, MapSchema, ScalarSchema, Schema, StructSchema

_WORDS = [
    "",
    "a",
    "A b",
    "x.y/z",
    "None",
    "Always",
    "Local",
    "10.0.0.1",
    "::1",
    "10.0.0.0/8",
    "*/5 * * * *",
    "metadata.labels['",
    "50%",
    "-1",
]
_NUMBERS = [-1, 0, 1, 80, 30080, 2**31 - 1]


def random_value(schema: Schema, random: Random, depth: int = 0) -> Any:
    """A value of the schema's type. Structs and lists grow rarer with ``depth``."""
    if isinstance(schema, StructSchema):
        share = 0.6 if depth < 3 else 0.35 if depth < 6 else 0.1
        chosen = [one for one in schema.fields.values() if random.random() < share]
        return {one.name: random_value(one.schema, random, depth + 1) for one in chosen}
    if isinstance(schema, ListSchema):
        return [random_value(schema.element, random, depth + 1) for _ in range(random.randint(0, 2))]
    if isinstance(schema, MapSchema):
        keys = random.sample(["a", "cpu", "x.y/z", "A b", ""], random.randint(0, 2))
        return {key: random_value(schema.value, random, depth + 1) for key in keys}
    return _scalar(schema, random)


def _scalar(schema: ScalarSchema, random: Random) -> Any:
    kind = schema.kind
    if kind in ("int32", "int64"):
        return random.choice(_NUMBERS)
    if kind == "boolean":
        return random.choice([True, False])
    if kind == "double":
        return random.choice([0.0, 1.5])
    if kind == "bytes":
        return base64.b64encode(random.choice([b"", b"{}", b"text"])).decode()
    if kind == "time":
        return "2026-11-30T11:00:00Z"
    if kind == "microtime":
        return "2026-11-30T11:00:00.000001Z"
    if kind == "quantity":
        return random.choice(["0", "1", "100m", "1Gi", "-1", "1n"])
    if kind == "intstr":
        return random.choice([0, 80, -1, "http", "50%", "200%", ""])
    if kind == "object":
        return {}
    return random.choice(_WORDS)
