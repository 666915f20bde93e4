"""What we wrote, or are about to write, over what an informer shows: so that nobody decides twice on the same old state.

Used by those who give one thing to one taker (volumes to claims). An entry goes away by itself once the informer shows the
object in that version or a later one, or that it is gone.
"""

from client.informer import Informer, Object
from client.store import object_key


class Assumed:
    """A reader of one informer's objects, with ours in place of older ones. Results are shared: clone before changing."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._held: dict[str, tuple[Object, int]] = {}
        informer.add_handler(on_update=lambda old, new: self._seen(new), on_delete=self._gone)

    def get(self, key: str) -> Object | None:
        held = self._held.get(key)
        return held[0] if held is not None else self._informer.lister.get_key(key)

    def list(self) -> list[Object]:
        listed = self._informer.lister.list()
        return [self._instead(obj) for obj in listed] if self._held else listed

    def intend(self, obj: Object) -> None:
        """``obj`` is about to be written over the version it names."""
        self._put(obj, 1)

    def wrote(self, obj: Object) -> None:
        """``obj`` is what the server answered."""
        self._put(obj, 0)

    def drop(self, key: str) -> None:
        """The write failed: what the informer shows counts again."""
        self._held.pop(key, None)

    def _put(self, obj: Object, later: int) -> None:
        key, version = object_key(obj), _version(obj) + later
        shown = self._informer.lister.get_key(key)
        if shown is not None and _version(shown) < version:
            self._held[key] = (obj, version)
        else:
            self._held.pop(key, None)

    def _instead(self, obj: Object) -> Object:
        held = self._held.get(object_key(obj))
        return held[0] if held is not None else obj

    def _seen(self, new: Object) -> None:
        key = object_key(new)
        held = self._held.get(key)
        if held is not None and _version(new) >= held[1]:
            del self._held[key]

    def _gone(self, obj: Object) -> None:
        self._held.pop(object_key(obj), None)


def _version(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)
