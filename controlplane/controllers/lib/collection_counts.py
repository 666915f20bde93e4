"""How many objects of one collection each namespace has: the sink of a reflector that reads metadata only."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from apimachinery.meta import namespace_of, uid_of
from client.watch import Event


class CollectionCounts:
    """``on_fewer(namespace)`` is called when something has gone there."""

    def __init__(self, on_fewer: Callable[[str], None]) -> None:
        self._on_fewer = on_fewer
        self._namespaces: dict[str, str] = {}  # by uid
        self._counts: Counter[str] = Counter()
        self.synced = asyncio.Event()

    def of(self, namespace: str) -> int:
        return self._counts[namespace]

    async def replace(self, objects: list[dict[str, Any]]) -> None:
        listed = {uid_of(obj): namespace_of(obj) for obj in objects}
        fewer = {namespace for uid, namespace in self._namespaces.items() if uid not in listed}
        self._namespaces = listed
        self._counts = Counter(listed.values())
        self.synced.set()
        for namespace in fewer:
            self._on_fewer(namespace)

    async def apply(self, events: list[Event]) -> None:
        for kind, obj in events:
            uid, namespace = uid_of(obj), namespace_of(obj)
            if kind == "DELETED":
                if self._namespaces.pop(uid, None) is not None:
                    self._counts[namespace] -= 1
                    self._on_fewer(namespace)
            elif uid not in self._namespaces:
                self._namespaces[uid] = namespace
                self._counts[namespace] += 1
