"""Every kind that can be served, as random objects: JSON > protobuf > JSON changes nothing."""

from random import Random
from typing import Any

import pytest

from apimachinery import schema
from apimachinery.codecs import protobuf
from apimachinery.schema import check
from apimachinery.schema.types import ListSchema, MapSchema, Schema, StructSchema
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.registry.strategy import Strategy
from tests.support.random_objects import random_value

# The unions inside CustomResourceDefinitions are no struct; ``test_empty_values`` has them.
CATALOG = [one for one in strategies(KindsConfig()) if one.info.gvk.kind != "CustomResourceDefinition"]
IDS = [f"{one.info.plural}.{one.info.gvk.group}.{one.info.gvk.version}" for one in CATALOG]


def drop_empty(value: Any, form: Schema) -> None:
    """Protobuf has no empty lists and maps: none and an empty one are the same bytes, for Go too."""
    if isinstance(form, StructSchema):
        for name, one in list(form.fields.items()):
            if name in value and isinstance(one.schema, ListSchema | MapSchema) and not value[name]:
                del value[name]
            elif name in value:
                drop_empty(value[name], one.schema)
    elif isinstance(form, ListSchema):
        for item in value:
            drop_empty(item, form.element)
    elif isinstance(form, MapSchema):
        for item in value.values():
            drop_empty(item, form.value)


@pytest.mark.parametrize("kind", CATALOG, ids=IDS)
def test_comes_back_as_it_was(kind: Strategy) -> None:
    gvk, random = kind.info.gvk, Random(kind.info.plural)
    compiled = schema.load().of(gvk)
    for _ in range(40):
        obj: dict[str, Any] = random_value(compiled, random)
        obj.update(apiVersion=gvk.api_version, kind=gvk.kind, metadata={"name": "x", "labels": {"a": "b"}})
        assert not check.normalize(obj, compiled).type_errors
        drop_empty(obj, compiled)
        for claim in obj.get("spec", {}).get("volumeClaimTemplates") or ():
            claim.pop("apiVersion", None)  # a message says by its place what it is
            claim.pop("kind", None)
        packed = protobuf.encode(obj)
        assert packed is not None
        back = protobuf.decode(packed)
        assert not check.normalize(back, compiled).type_errors
        assert back == obj
