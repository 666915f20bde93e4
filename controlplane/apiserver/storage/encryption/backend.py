"""A Backend whose values are encrypted in the one below it; keys, revisions and conditions pass through.

``assembly.storage`` puts it around SQLite or etcd when there is an EncryptionConfiguration, so everything above sees plain
values and everything below never does. Without one it is not there and costs nothing.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from controlplane.apiserver.storage.encryption.identity import Identity
from controlplane.apiserver.storage.encryption.interface import Transformer, TransformError
from controlplane.apiserver.storage.interface import (
    UNREADABLE,
    Backend,
    BackendEvent,
    Commit,
    Condition,
    KeyValue,
    Operation,
    Put,
    Range,
)
from controlplane.apiserver.storage.layout import resource_of

_IDENTITY = Identity()

Choose = Callable[[str], Transformer | None]
"""The transformer of a resource, as configured (``secrets``, ``deployments.apps``); None where nothing is encrypted."""


class EncryptedBackend:
    """See ``Backend``."""

    def __init__(self, backend: Backend, choose: Choose) -> None:
        """``choose`` is asked for each value, so its answer may change while the server runs; it must be quick."""
        self.exclusive = backend.exclusive
        self._backend, self._choose = backend, choose

    def _transformer(self, key: str) -> Transformer | None:
        return self._choose(resource_of(key))

    async def _opened(self, item: KeyValue) -> KeyValue:
        """Raises TransformError that names the key."""
        transformer = self._transformer(item.key)
        if transformer is None and not item.value.startswith(UNREADABLE):
            return item
        value, _ = await self._open(transformer, item.key, item.value)
        return replace(item, value=value)

    async def _open(self, transformer: Transformer | None, key: str, data: bytes) -> tuple[bytes, bool]:
        """Raises TransformError that names the key."""
        try:
            return await (transformer or _IDENTITY).from_storage(data, key.encode())
        except TransformError as error:
            raise type(error)(f'unable to transform key "{key}": {error}') from None

    async def outdated(self, key: str) -> bool:
        """Whether the value should be written again although it is the same, because its form is not the present one."""
        transformer = self._transformer(key)
        if transformer is None or (item := await self._backend.get(key)) is None:
            return False
        return (await self._open(transformer, key, item.value))[1]

    # ------------------------------------------------------------------ see Backend

    async def current_revision(self) -> int:
        return await self._backend.current_revision()

    async def get(self, key: str, revision: int = 0) -> KeyValue | None:
        item = await self._backend.get(key, revision)
        return item and await self._opened(item)

    async def range(self, prefix: str, *, start: str = "", revision: int = 0, limit: int = 0) -> Range:
        found = await self._backend.range(prefix, start=start, revision=revision, limit=limit)
        return replace(found, items=[await self._opened(item) for item in found.items])

    async def commit(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> Commit:
        if any(self._transformer(one.key) is not None for one in operations):  # most are of resources that are stored as they are
            operations = [await self._closed(one) for one in operations]
        outcome = await self._backend.commit(conditions, operations)
        if outcome.succeeded or not any(outcome.current):
            return outcome
        return replace(outcome, current=tuple([item and await self._opened(item) for item in outcome.current]))

    async def _closed(self, operation: Operation) -> Operation:
        if not isinstance(operation, Put) or (transformer := self._transformer(operation.key)) is None:
            return operation
        return replace(operation, value=await transformer.to_storage(operation.value, operation.key.encode()))

    async def watch(self, prefix: str, after: int) -> AsyncIterator[Sequence[BackendEvent]]:
        async for batch in self._backend.watch(prefix, after):
            yield [await self._seen(event) for event in batch] if any(map(self._concerns, batch)) else batch

    def _concerns(self, event: BackendEvent) -> bool:
        value = event.value
        return value is not None and (self._transformer(event.key) is not None or value.startswith(UNREADABLE))

    async def _seen(self, event: BackendEvent) -> BackendEvent:
        """One value that cannot be read, or not now, must not end the watch of all others; see ``is_unreadable``."""
        if event.value is None or not self._concerns(event):
            return event
        try:
            return replace(event, value=(await self._open(self._transformer(event.key), event.key, event.value))[0])
        except TransformError:
            return event  # who asks for it will hear why

    async def compact(self, revision: int) -> None:
        await self._backend.compact(revision)

    def size(self) -> int | None:
        return self._backend.size()

    async def close(self) -> None:
        await self._backend.close()
