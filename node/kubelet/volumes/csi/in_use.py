"""``volumesInUse`` of the node: what the attach/detach controller must not detach. Told before a volume is used, and after."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apimachinery.resources import NODES
from client.rest import Client


@dataclass(slots=True)
class InUse:
    """``seen`` is the node as a cache shows it, None while that is empty."""

    client: Client
    node_name: str
    seen: Callable[[], Mapping[str, Any] | None]
    _told: list[str] | None = field(default=None)

    async def tell(self, names: Sequence[str]) -> None:
        """Write ``names`` unless the node says so already. Raises StatusError or ConnectionError."""
        wanted = list(names)
        if wanted == self._told:
            return
        body = {"status": {"volumesInUse": wanted or None}}
        await self.client.patch(NODES, self.node_name, body, subresource="status")
        self._told = wanted

    async def check(self, names: Sequence[str]) -> None:
        """The same, also when somebody else has changed it, or the node was made anew."""
        node = self.seen()
        if node is not None and list((node.get("status") or {}).get("volumesInUse") or ()) != list(names):
            self._told = None
            await self.tell(names)
