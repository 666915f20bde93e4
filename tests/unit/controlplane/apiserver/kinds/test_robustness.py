"""Whatever decodes must be answered, not crash: random objects of each kind go through everything a write goes through."""

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from apimachinery import schema
from apimachinery.errors import StatusError
from apimachinery.meta import clone
from apimachinery.schema import check
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.backends.memory import MemoryBackend
from tests.support.kinds import NOW, context
from tests.support.random_objects import random_value

ROUNDS = 60
CATALOG = strategies(KindsConfig(reader=MemoryBackend()))

IDS = [f"{one.info.plural}.{one.info.gvk.group}.{one.info.gvk.version}" for one in CATALOG]


def random_object(kind: Strategy, random: Random) -> dict[str, Any]:
    compiled = schema.load().of(kind.info.gvk)
    assert compiled is not None
    obj: dict[str, Any] = random_value(compiled, random)
    obj.update(apiVersion=kind.info.gvk.api_version, kind=kind.info.gvk.kind)
    obj["metadata"] = {"name": "x", "uid": "u1", "creationTimestamp": "2026-11-30T11:00:00Z"}
    if kind.info.namespaced:
        obj["metadata"]["namespace"] = "default"
    assert not check.normalize(obj, compiled).type_errors
    return obj


@pytest.mark.parametrize("kind", CATALOG, ids=IDS)
async def test_any_decodable_object_is_answered(kind: Strategy) -> None:
    random = Random(kind.info.plural)
    for _ in range(ROUNDS):
        old, new = random_object(kind, random), random_object(kind, random)
        kind.default(old)
        kind.prepare_for_create(context(), old)
        kind.row(old, NOW)
        if not kind.validate(context(), old):
            with suppress(StatusError):
                await kind.allocate(context(), old, None)
        kind.warnings(context(), old, None)
        kind.canonicalize(old)
        kind.selectable_fields(old)
        kind.default(new)
        kind.prepare_for_update(context("update"), new, old)
        kind.validate_update(context("update"), new, old)
        kind.prepare_for_status_update(context("update"), clone(new), old)
        kind.validate_status_update(context("update"), new, old)
        kind.spec_changed(new, old)
        kind.row(new, NOW)
        for sub in kind.subresources:
            with suppress(StatusError):
                changed = sub.change(context(), clone(old), clone(new))
                if sub.validate:
                    sub.validate(context(), changed, old)


@pytest.mark.parametrize("kind", CATALOG, ids=IDS)
def test_a_missing_name_is_for_the_registry_to_refuse(kind: Strategy) -> None:
    obj = random_object(kind, Random(kind.info.plural))
    del obj["metadata"]["name"]
    kind.default(obj)
    kind.prepare_for_create(context(), obj)
    kind.validate(context(), obj)
