"""The pod network of this node, made of its pod CIDRs: masquerade first, then the CNI configuration that opens the door.

The kubelet runs one :class:`PodNetwork` and tells it the CIDRs when the Node object has them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from component import logs
from component.clock import Clock
from component.process import ProcessError, Runner
from node.network import cni_config, masquerade

_PERIOD = 60.0
_log = logs.get(__name__)


class PodNetwork:
    """``data_dir`` is where address leases are kept. With no bridge name, or somebody else's configuration in the folder,
    it does nothing."""

    def __init__(self, conf_dir: Path | None, bridge: str, data_dir: Path, runner: Runner, clock: Clock) -> None:
        self._conf_dir = conf_dir
        self._bridge = bridge
        self._data_dir = data_dir
        self._runner = runner
        self._clock = clock
        self._cidrs: tuple[str, ...] = ()
        self._others: tuple[str, ...] = ()
        self._known = asyncio.Event()
        self._wake = asyncio.Event()

    def set_cidrs(self, cidrs: Sequence[str]) -> None:
        """The ranges this node's pods get their addresses from; they do not change in a node's life."""
        if cidrs and not self._cidrs:
            self._cidrs = tuple(cidrs)
            self._known.set()

    def set_others(self, cidrs: Iterable[str]) -> None:
        """The ranges of all other nodes' pods, which see the addresses of ours as they are."""
        others = tuple(sorted(cidrs))
        if others != self._others:
            self._others = others
            self._wake.set()

    async def run(self) -> None:
        """Wait for the CIDRs, set everything up, and look after the packet rules until cancelled."""
        await self._known.wait()
        if self._conf_dir is None or not self._bridge:
            return
        if foreign := await asyncio.to_thread(cni_config.foreign_config, self._conf_dir):
            _log.info("The pod network is configured by somebody else", file=str(foreign))
            return
        await self._masquerade()
        config = cni_config.conflist(self._cidrs, self._bridge, self._data_dir)
        if await asyncio.to_thread(cni_config.write, self._conf_dir, config):
            _log.info("Wrote the pod network's configuration", cidrs=",".join(self._cidrs), folder=str(self._conf_dir))
        while True:
            timer = self._clock.call_later(_PERIOD, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            await self._masquerade()

    async def _masquerade(self) -> None:
        self._wake.clear()
        try:
            await masquerade.ensure(self._runner, self._cidrs, self._others)
        except ProcessError as error:
            _log.warning("Pods cannot reach addresses outside of the cluster", err=error)
