"""DELETE of a collection: each object that the selectors match is deleted as if it were named; answers with the list."""

import asyncio
from dataclasses import replace
from typing import Any

from apimachinery import errors
from controlplane.apiserver.endpoints.delete import read_options
from controlplane.apiserver.endpoints.list import joined
from controlplane.apiserver.endpoints.options import WriteOptions, list_options
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.registry.deletion import validate_options
from controlplane.apiserver.registry.strategy import Context
from controlplane.apiserver.storage.interface import Entry
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

AT_ONCE = 8  # deletions under way together


async def deletecollection(call: Call, scope: Scope) -> Reply:
    options = await read_options(call, scope)
    validate_options(options)  # whether or not there is anything to delete
    call.dry_run = bool(options.get("dryRun"))
    found = await scope.store.list(call.info.namespace, list_options(call.query, scope.strategy))
    ctx = scope.context(call, WriteOptions(call.dry_run))
    gate = asyncio.Semaphore(AT_ONCE)

    async def remove(entry: Entry) -> None:
        async with gate:
            await _remove(
                call, scope, replace(ctx, name=entry.key.rsplit("/", 1)[1], namespace=_namespace(scope, entry)), options
            )

    try:
        async with asyncio.TaskGroup() as tasks:
            for entry in found.entries:
                tasks.create_task(remove(entry))
    except* errors.StatusError as group:
        raise group.exceptions[0] from None
    return Reply(200, joined(scope, found))


def _namespace(scope: Scope, entry: Entry) -> str:
    return entry.key.rsplit("/", 2)[1] if scope.info.namespaced else ""


async def _remove(call: Call, scope: Scope, ctx: Context, options: dict[str, Any]) -> None:
    try:
        await scope.store.delete(ctx, options, scope.deleting(call, ctx.name, ctx.namespace, options))
    except errors.StatusError as problem:
        if problem.code != 404:  # somebody else was faster, which is as good
            raise
