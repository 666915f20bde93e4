"""What an informer holds: objects by key, and indexes over them. Written by the informer, read through ``client.lister``.

Objects are shared with every reader: nobody changes one. Everything runs on the loop's thread, so there is no lock, and a
reader that does not await sees one consistent state.
"""

from collections.abc import Callable, Iterable
from typing import Any

Object = dict[str, Any]
Objects = list[Object]
Strings = list[str]
IndexFunction = Callable[[Object], Iterable[str]]
NAMESPACE_INDEX = "namespace"


def object_key(obj: Object) -> str:
    """``namespace/name``, or ``name`` for a cluster-scoped object: the form work queues carry."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def key_of(name: str, namespace: str | None = None) -> str:
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str | None, str]:
    """Namespace (None when cluster-scoped) and name of a key."""
    namespace, slash, name = key.rpartition("/")
    return (namespace if slash else None), name


def by_namespace(obj: Object) -> Iterable[str]:
    namespace = obj["metadata"].get("namespace")
    return (namespace,) if namespace else ()


class Store:
    """Objects by key with any number of indexes; iteration order is the order of first arrival."""

    def __init__(self) -> None:
        self._objects: dict[str, Object] = {}
        self._functions: dict[str, IndexFunction] = {NAMESPACE_INDEX: by_namespace}
        # index > value > keys; a dict serves as a set that keeps its order
        self._indexes: dict[str, dict[str, dict[str, None]]] = {NAMESPACE_INDEX: {}}

    def __len__(self) -> int:
        return len(self._objects)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index present and future objects by the values ``function`` gives. A name can be taken once."""
        if name in self._functions:
            if self._functions[name] is function:
                return
            raise ValueError(f"index {name!r} exists already with another function")
        self._functions[name] = function
        index: dict[str, dict[str, None]] = {}
        for key, obj in self._objects.items():
            for value in function(obj):
                index.setdefault(value, {})[key] = None
        self._indexes[name] = index

    def get(self, key: str) -> Object | None:
        return self._objects.get(key)

    def keys(self) -> list[str]:
        return list(self._objects)

    def list(self) -> list[Object]:
        return [*self._objects.values()]

    def by_index(self, name: str, value: str) -> Objects:
        """Objects whose index function gave ``value``. Raises KeyError for an index nobody added."""
        return [self._objects[key] for key in self._indexes[name].get(value, ())]

    def index_values(self, name: str) -> Strings:
        """The values an index holds at present."""
        return list(self._indexes[name])

    def put(self, key: str, obj: Object) -> Object | None:
        """Hold ``obj``; returns what it replaces."""
        old = self._objects.get(key)
        self._objects[key] = obj
        self._reindex(key, old, obj)
        return old

    def remove(self, key: str) -> Object | None:
        """Let go of a key; returns what it held."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._reindex(key, old, None)
        return old

    def _reindex(self, key: str, old: Object | None, new: Object | None) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            before = list(function(old)) if old is not None else []
            after = list(function(new)) if new is not None else []
            if before == after:
                continue
            for value in before:
                if value not in after and (keys := index.get(value)) is not None:
                    keys.pop(key, None)
                    if not keys:
                        del index[value]
            for value in after:
                index.setdefault(value, {})[key] = None
