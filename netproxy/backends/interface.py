"""The contract between the proxier and a packet filter. Each backend fulfils it on its own; none knows another."""

from collections.abc import Mapping
from typing import Protocol

from netproxy.backends.options import Options
from netproxy.plan import PlanChange, PortRules
from netproxy.trackers.nodes import NodeFacts
from netproxy.trackers.services import PortName


class BackendError(Exception):
    """The kernel refused a change. The proxier answers with a full ``resync``."""


class Backend(Protocol):
    """Programs one address family of this node. Calls never overlap."""

    name: str

    @property
    def options(self) -> Options:
        """What it was made with."""
        ...

    async def resync(self, ports: Mapping[PortName, PortRules], node: NodeFacts) -> None:
        """Make the kernel hold exactly these rules, whatever is there of ours; foreign rules are left alone.

        Established connections survive. :raises BackendError: nothing is promised then but that it may be called again.
        """
        ...

    async def apply(self, change: PlanChange) -> None:
        """Change only what differs, in one transaction, after a successful ``resync``.

        :raises BackendError: then only ``resync`` may follow.
        """
        ...

    async def intact(self) -> bool:
        """Whether our rules are still there; false when somebody has flushed them."""
        ...

    async def cleanup(self) -> None:
        """Remove every rule of ours; without any there is nothing to do."""
        ...
