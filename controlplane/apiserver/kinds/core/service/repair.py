"""Claims that do not agree with the Services there are: of Services that another API server has stored, or has deleted.

``poststart`` has it done at the start and every three minutes, as upstream does. This server claims in the transaction that
stores a Service, so it finds nothing of its own; upstream's before v1.33 kept bitmaps instead (which stay where they are).
Upstream: ``pkg/registry/core/service/ipallocator/controller/repairip.go``.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from controlplane.apiserver.kinds.core.service import addresses, node_ports
from controlplane.apiserver.kinds.core.service.allocation import ServiceClaims
from controlplane.apiserver.storage.interface import Backend, Condition, Delete, KeyValue

Object = dict[str, Any]
PREFIXES = (addresses.PREFIX, node_ports.PREFIX)


async def held(backend: Backend) -> dict[str, KeyValue]:
    """All claims, by key. To be read before the Services are: a claim goes in with its Service."""
    return {item.key: item for prefix in PREFIXES for item in (await backend.range(prefix)).items}


async def repair(
    backend: Backend, claims: ServiceClaims, found: dict[str, KeyValue], services: Sequence[Object], now: datetime
) -> int:
    """Claim what Services have and nobody has claimed; free what belongs to none. How many claims were changed."""
    changed, wanted, names = 0, set[str](), set[str]()
    for service in services:
        names.add(f"{service['metadata']['namespace']}/{service['metadata']['name']}")
        for claim in claims.of(service, now):
            wanted.add(claim.key)
            if claim.key not in found:
                changed += (await backend.commit((Condition(claim.key, 0),), (claim,))).succeeded
    for key, item in found.items():
        if key not in wanted and (holder := _holder(item)) and holder not in names:
            changed += (await backend.commit((Condition(key, item.mod_revision),), (Delete(key),))).succeeded
    return changed


def _holder(item: KeyValue) -> str:
    """``namespace/name`` of the Service that has it; empty for addresses that belong to something else."""
    if item.key.startswith(node_ports.PREFIX):
        return item.value.decode(errors="replace")
    parent = (orjson.loads(item.value).get("spec") or {}).get("parentRef") or {}
    if parent.get("group") or parent.get("resource") != "services":
        return ""
    return f"{parent.get('namespace', '')}/{parent.get('name', '')}"
