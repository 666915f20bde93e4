"""A Backend whose values may be protobuf, or JSON of upstream's hand, in the one below it; everything above sees our JSON.

``assembly.storage`` puts it around every backend, outside encryption, so that this server can take over what upstream's
kube-apiserver has stored, in place: each object is read in whatever form it has, brought to the stored version and given
today's defaults, as upstream does when it decodes. It is written again in our form at its next change, and by an update that
changes nothing (how storage is migrated). With ``--storage-media-type=application/vnd.kubernetes.protobuf`` that form is
upstream's own.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from apimachinery.codecs import protobuf
from component import logs
from controlplane.apiserver.storage.encoding import encode
from controlplane.apiserver.storage.forms.media import JSON, PROTOBUF
from controlplane.apiserver.storage.interface import (
    Backend,
    BackendEvent,
    Commit,
    Condition,
    KeyValue,
    Operation,
    Put,
    Range,
    Rewriting,
)
from controlplane.apiserver.storage.layout import resource_of

Convert = Callable[[dict[str, Any]], dict[str, Any] | None]
"""An object of any version as the stored version of its kind; None for a kind or version that is not known."""

_OURS = b'{"apiVersion":'  # how ``encoding.encode`` begins; upstream's JSON begins with the kind
_THEIRS = b'{"kind":'
_KEPT_APART = ("/registry/masterleases/", "/registry/ranges/")  # not objects of an API, though they look like it

_log = logs.get(__name__)


class FormsBackend:
    """See ``Backend``. ``convert`` is set once the kinds are known, before anything is read."""

    def __init__(self, backend: Backend, media_type: str = JSON) -> None:
        self.exclusive = backend.exclusive
        self._backend = backend
        self._packing = media_type == PROTOBUF
        self._foreign = False  # whether something has been read that is not in our form
        self.convert: Convert = lambda obj: obj

    @property
    def reorders(self) -> bool:
        """Whether an object may come back with its members in another order than it was written with."""
        return self._packing

    async def outdated(self, key: str) -> bool:
        """Whether the value should be written again although it is the same, because its form is not the present one."""
        inner = self._backend
        if isinstance(inner, Rewriting) and await inner.outdated(key):
            return True
        if not self._foreign or (item := await inner.get(key)) is None:
            return False
        return self._is_foreign(item.key, item.value) or (self._packing and self._packed(item.key, item.value) != item.value)

    # ------------------------------------------------------------------ forms

    def _is_foreign(self, key: str, value: bytes) -> bool:
        """Whether an update should give it another form."""
        if value.startswith(_THEIRS):
            return not key.startswith(_KEPT_APART)
        return value.startswith(protobuf.MAGIC) and not self._packing

    def _is_ours(self, value: bytes) -> bool:
        return value.startswith(_OURS) or not value.startswith((protobuf.MAGIC, _THEIRS))

    def _read(self, key: str, value: bytes) -> bytes:
        """In our form. What cannot be brought into it stays as it is, and ``cacher`` says so and leaves it out."""
        if self._is_ours(value) or key.startswith(_KEPT_APART) or not resource_of(key):
            return value
        self._foreign = self._foreign or self._is_foreign(key, value)
        try:
            obj = protobuf.decode(value) if value.startswith(protobuf.MAGIC) else orjson.loads(value)
            converted = self.convert(obj)
            return value if converted is None else encode(converted)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.error("A stored object cannot be read", key=key, err=error)
            return value

    def _item(self, item: KeyValue) -> KeyValue:
        return item if self._is_ours(item.value) else replace(item, value=self._read(item.key, item.value))

    def _event(self, event: BackendEvent) -> BackendEvent:
        value = event.value
        return event if value is None or self._is_ours(value) else replace(event, value=self._read(event.key, value))

    def _packed(self, key: str, value: bytes) -> bytes:
        """A value as it is stored; kinds without a protobuf message are JSON at upstream's, too."""
        if not value.startswith(_OURS) or key.startswith(_KEPT_APART):
            return value
        return protobuf.encode(orjson.loads(value)) or value

    def _operation(self, operation: Operation) -> Operation:
        if not isinstance(operation, Put):
            return operation
        return replace(operation, value=self._packed(operation.key, operation.value))

    # ------------------------------------------------------------------ see Backend

    async def current_revision(self) -> int:
        return await self._backend.current_revision()

    async def get(self, key: str, revision: int = 0) -> KeyValue | None:
        item = await self._backend.get(key, revision)
        return item and self._item(item)

    async def range(self, prefix: str, *, start: str = "", revision: int = 0, limit: int = 0) -> Range:
        found = await self._backend.range(prefix, start=start, revision=revision, limit=limit)
        if all(self._is_ours(item.value) for item in found.items):
            return found
        return replace(found, items=list(map(self._item, found.items)))

    async def commit(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> Commit:
        if self._packing:
            operations = list(map(self._operation, operations))
        outcome = await self._backend.commit(conditions, operations)
        if outcome.succeeded or not any(outcome.current):
            return outcome
        return replace(outcome, current=tuple(item and self._item(item) for item in outcome.current))

    async def watch(self, prefix: str, after: int) -> AsyncIterator[Sequence[BackendEvent]]:
        async for batch in self._backend.watch(prefix, after):
            yield list(map(self._event, batch)) if any(event.value is not None for event in batch) else batch

    async def compact(self, revision: int) -> None:
        await self._backend.compact(revision)

    def size(self) -> int | None:
        return self._backend.size()

    async def close(self) -> None:
        await self._backend.close()
