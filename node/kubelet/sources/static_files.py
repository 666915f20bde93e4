"""Static pods out of a folder of this node, run without asking the API server. ``kubelet.py`` runs :class:`StaticFiles`."""

import asyncio
from pathlib import Path

import yaml

from apimachinery.meta import uid_of
from apimachinery.times import format_time
from component import logs
from component.clock import Clock
from node.kubelet.sources.static_pods import Pod, StaticPods, static_pod

_SUFFIXES = (".yaml", ".yml", ".json")
_log = logs.get(__name__)


class StaticFiles:
    """Reads a folder (or one file) whenever something in it changed."""

    def __init__(self, path: Path, node_name: str, clock: Clock, pods: StaticPods, period: float = 1.0) -> None:
        self._path = path
        self._node_name = node_name
        self._clock = clock
        self._pods = pods
        self._period = period
        self._stamp: tuple[tuple[str, int, int], ...] | None = None
        self.looked = asyncio.Event()
        """Set once it is known which pods there are: before that, none that runs may be taken for unwanted."""

    async def run(self) -> None:
        """Look at the files' time stamps every ``period`` seconds, until cancelled."""
        while True:
            stamp = await asyncio.to_thread(self._look)
            if stamp != self._stamp:
                self._stamp = stamp
                self._pods.take(await asyncio.to_thread(self._read))
            if self._pods.start_waiting():
                self.looked.set()
            await self._clock.sleep(self._period)

    def _files(self) -> list[Path]:
        if self._path.is_dir():
            listed = sorted(entry for entry in self._path.iterdir() if not entry.name.startswith("."))
            return [entry for entry in listed if entry.is_file() and entry.suffix in _SUFFIXES]
        return [self._path] if self._path.is_file() else []

    def _look(self) -> tuple[tuple[str, int, int], ...]:
        return tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in self._files())

    def _read(self) -> dict[str, Pod]:
        found: dict[str, Pod] = {}
        for file in self._files():
            try:
                pod = pod_of(file.read_text(), file, self._node_name, format_time(self._clock.now()))
            except (OSError, ValueError) as error:
                _log.error("Cannot use a static pod's manifest", file=str(file), err=error)
                continue
            found[uid_of(pod)] = pod
        return found


def pod_of(text: str, file: Path, node_name: str, seen: str) -> Pod:
    """The pod of a file. Raises ValueError that says what is wrong with it. Pure."""
    try:
        manifest = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None
    return static_pod(manifest, text, str(file), node_name, seen)
