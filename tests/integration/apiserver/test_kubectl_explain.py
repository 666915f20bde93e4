"""``kubectl explain --recursive`` knows every field of every kind that is served, asked by both kubectls."""

import asyncio
import re

import pytest

from apimachinery import schema
from apimachinery.gvk import GroupVersion
from apimachinery.schema.types import ListSchema, MapSchema, Schema, StructSchema
from component.features import from_flag
from controlplane.apiserver.assembly.served import listed_resources
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.served import select
from controlplane.apiserver.registry.strategy import ResourceInfo
from tests.support import clients
from tests.support.apiserver import TestServer, running_apiserver

ON = from_flag({"AllAlpha": "true", "AllBeta": "true"})
EVERYTHING = {"api/all": "true"}
DEEP = 4  # levels that are compared field by field; some kinds hold themselves (JSONSchemaProps)
AT_ONCE = 3


def resources(every_version: bool) -> list[ResourceInfo]:
    kinds = select(strategies(KindsConfig(features=ON)), EVERYTHING, ON)
    infos = [one.info for one in listed_resources(kinds)]
    return infos if every_version else list({info.gvr.group_resource: info for info in reversed(infos)}.values())


def fields_of(kind: Schema | None, depth: int = DEEP) -> set[tuple[str, ...]]:
    """Paths of the fields that a kind has, as far down as ``depth``."""
    while isinstance(kind, ListSchema | MapSchema):
        kind = kind.element if isinstance(kind, ListSchema) else kind.value
    if not isinstance(kind, StructSchema) or depth == 0:
        return set()
    found = set()
    for name, field in kind.fields.items():
        found |= {(name,), *((name, *rest) for rest in fields_of(field.schema, depth - 1))}
    return found


def explained(text: str) -> set[tuple[str, ...]]:
    """The same from kubectl's outline, which tells depth by indentation."""
    found: set[tuple[str, ...]] = set()
    path: list[str] = []
    for line in text.partition("FIELDS:\n")[2].splitlines():
        if match := re.match(r"( +)(\S+)\t", line):
            depth = len(match[1]) // 2
            path[depth - 1 :] = [match[2]]
            if depth <= DEEP:
                found.add(tuple(path))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("program", clients.KUBECTLS)
async def test_every_kind_is_explained_to_the_last_field(program: str) -> None:
    async with running_apiserver(runtime_config=EVERYTHING, features=ON) as server:
        server.kubectl_program = clients.kubectl(program)
        await server.kubectl("api-resources")  # fills its cache of discovery once
        turns = asyncio.Semaphore(AT_ONCE)
        missing = await asyncio.gather(*(compare(server, info, turns) for info in resources(program == clients.SECOND)))
    assert {name: fields for name, fields in missing if fields} == {}


async def compare(server: TestServer, info: ResourceInfo, turns: asyncio.Semaphore) -> tuple[str, object]:
    version = GroupVersion(info.gvk.group, info.gvk.version)
    name = f"{version} {info.plural}"
    async with turns:
        flags = ("--recursive", f"--api-version={info.gvk.api_version}")
        code, out, err = await server.kubectl("explain", info.plural, *flags)
    if code:
        return name, err
    assert re.search(rf"^KIND: +{info.gvk.kind}$", out, re.M), out[:300]
    return name, sorted(fields_of(schema.load().of(info.gvk)) - explained(out))
