"""Reading from an informer's store by name, namespace, label or index, instead of asking the API server."""

from collections.abc import Callable
from typing import Protocol

from client.store import NAMESPACE_INDEX, Object, Objects, Store, Strings, key_of


class LabelSelector(Protocol):
    """What ``apimachinery.labels.parse`` returns."""

    def matches(self, labels: dict[str, str], /) -> bool: ...


class Lister:
    """A view of one store. Results are shared objects: clone before changing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __len__(self) -> int:
        return len(self._store)

    def get(self, name: str, namespace: str | None = None) -> Object | None:
        return self._store.get(key_of(name, namespace))

    def get_key(self, key: str) -> Object | None:
        """By a work queue's key, ``namespace/name`` or ``name``."""
        return self._store.get(key)

    def list(self, namespace: str | None = None, selector: LabelSelector | None = None) -> Objects:
        """All objects, or those of one namespace, that match ``selector``."""
        found = self._store.list() if namespace is None else self._store.by_index(NAMESPACE_INDEX, namespace)
        if selector is None:
            return found
        return [obj for obj in found if selector.matches(obj["metadata"].get("labels") or {})]

    def by_index(self, name: str, value: str) -> Objects:
        return self._store.by_index(name, value)

    def index_values(self, name: str) -> Strings:
        return self._store.index_values(name)

    def find(self, wanted: Callable[[Object], bool]) -> Objects:
        """Those for which ``wanted`` is true, by looking at each."""
        return [obj for obj in self._store.list() if wanted(obj)]
