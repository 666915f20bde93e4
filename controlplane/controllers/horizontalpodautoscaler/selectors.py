"""Which autoscalers' targets select a pod: two that select the same one would pull at it from both sides.

``controller`` puts in what it reads of each target's scale. Selectors are found by one label that they demand, so that a
namespace with many autoscalers is not walked for each pod.
"""

from collections.abc import Iterable, Mapping

from apimachinery.labels import Selector
from apimachinery.meta import Object, labels_of, split_key

_Place = tuple[str, str, str]
"""Namespace, label, value; the latter two empty for selectors that demand no single value."""


class Selectors:
    """Autoscaler (``namespace/name``) to the selector of its target, where one is known."""

    def __init__(self) -> None:
        self._held: dict[str, Selector] = {}
        self._places: dict[_Place, set[str]] = {}

    def put(self, key: str, selector: Selector) -> None:
        if self._held.get(key) != selector:
            self.drop(key)
            self._held[key] = selector
            self._places.setdefault(_place(key, selector), set()).add(key)

    def drop(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            place = _place(key, held)
            self._places[place].discard(key)
            if not self._places[place]:
                del self._places[place]

    def selecting(self, namespace: str, pods: Iterable[Object]) -> list[str]:
        """Autoscalers whose target selects one of these pods, sorted."""
        found: set[str] = set()
        for labels in {tuple(sorted(labels_of(pod).items())) for pod in pods}:
            found |= self._of(namespace, dict(labels))
        return sorted(found)

    def _of(self, namespace: str, labels: Mapping[str, str]) -> set[str]:
        places: list[_Place] = [(namespace, "", ""), *((namespace, name, value) for name, value in labels.items())]
        return {key for place in places for key in self._places.get(place, ()) if self._held[key].matches(labels)}


def _place(key: str, selector: Selector) -> _Place:
    namespace, _ = split_key(key)
    for each in selector.requirements:
        if each.operator in ("=", "==", "in") and len(each.values) == 1:
            return namespace, each.key, each.values[0]
    return namespace, "", ""
