"""Schemas, and objects that more or less fit them, for property tests."""

from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]

NAMES = st.sampled_from(["a", "b", "name", "x-y"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["", "a", "abc", "10", "5%"]), st.sampled_from([0.5, 1.0, -2.5])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)

_TEXT = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "maxLength": st.integers(0, 3),
        "minLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$", "[0-9]"]),
        "enum": st.lists(st.sampled_from(["a", "abc"]), min_size=1, max_size=2),
        "nullable": st.booleans(),
        "format": st.sampled_from(["ipv4", "date", "unheard-of"]),
    },
)
_NUMBER = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": st.integers(-3, 3),
        "maximum": st.integers(-3, 3),
        "exclusiveMinimum": st.booleans(),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "nullable": st.booleans(),
    },
)
_OTHER = st.sampled_from(
    [
        {"type": "boolean"},
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "additionalProperties": True},
    ]
)


def _lists(inner: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={"maxItems": st.integers(0, 2), "minItems": st.integers(0, 2), "nullable": st.booleans()},
    )


def _objects(inner: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
            optional={
                "required": st.lists(NAMES, max_size=1),
                "x-kubernetes-preserve-unknown-fields": st.just(True),
                "maxProperties": st.integers(0, 3),
                "nullable": st.booleans(),
            },
        ),
        st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner}),
    )


SCHEMAS: st.SearchStrategy[Object] = st.recursive(
    st.one_of(_TEXT, _NUMBER, _OTHER), lambda inner: _lists(inner) | _objects(inner), max_leaves=5
)
_VALUE_RULES = st.sampled_from(
    [
        {"minimum": 1},
        {"maxLength": 1},
        {"pattern": "^a"},
        {"enum": ["a", 1]},
        {"properties": {"a": {"minimum": 0}}, "required": ["a"]},
        {"not": {"required": ["b"]}},
    ]
)


@st.composite
def combined(draw: st.DrawFn) -> Object:
    """A schema with alternatives on top."""
    schema = dict(draw(SCHEMAS))
    for key in ("allOf", "anyOf", "oneOf"):
        if draw(st.booleans()):
            schema[key] = draw(st.lists(_VALUE_RULES, min_size=1, max_size=3))
    if draw(st.booleans()):
        schema["not"] = draw(_VALUE_RULES)
    return schema
