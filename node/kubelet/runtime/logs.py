"""Rotation of container logs by size: ``0.log`` is renamed with a time stamp, the runtime reopens, old ones are compressed.

``kubelet.py`` runs :class:`LogRotator` for the running containers of every pod. Upstream's names and limits.
"""

import asyncio
import gzip
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from component import logs
from component.clock import Clock
from cri import errors
from cri.interface import RuntimeService
from node.kubelet.runtime import files
from node.kubelet.runtime.observed import ObservedPod

_PERIOD = 10.0
_log = logs.get(__name__)


class LogRotator:
    """Keeps each container's log below ``max_size`` and its files at most ``max_files``."""

    def __init__(
        self,
        runtime: RuntimeService,
        clock: Clock,
        observed: Callable[[], Mapping[str, ObservedPod]],
        max_size: int,
        max_files: int,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._observed = observed
        self._max_size = max_size
        self._max_files = max_files

    async def run(self) -> None:
        """Look every ten seconds until cancelled."""
        while True:
            await self._clock.sleep(_PERIOD)
            for pod in list(self._observed().values()):
                for container in pod.running():
                    if container.log_path and _size(container.log_path) >= self._max_size:
                        await self._rotate(container.id, Path(container.log_path))

    async def _rotate(self, container_id: str, path: Path) -> None:
        stamp = self._clock.now().strftime("%Y%m%d-%H%M%S")
        rotated = path.with_name(f"{path.name}.{stamp}")
        try:
            await asyncio.to_thread(prepare, path, self._max_files)
            os.rename(path, rotated)
        except OSError as error:
            _log.error("Cannot rotate a container's log", path=str(path), err=error)
            return
        try:
            await self._runtime.reopen_container_log(container_id)
        except errors.RuntimeServiceError as error:
            os.rename(rotated, path)  # the runtime goes on writing to it
            _log.error("The runtime cannot reopen a log", path=str(path), err=error)


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0


def prepare(path: Path, max_files: int) -> None:
    """Before a rotation: compress all earlier files, and delete the oldest beyond ``max_files`` (the live one counts, and
    so does the one about to be made)."""
    rotated = sorted(entry for entry in path.parent.glob(f"{path.name}.*") if not entry.name.endswith(".tmp"))
    for old in rotated[: max(0, len(rotated) - (max_files - 2))]:
        old.unlink(missing_ok=True)
    for entry in rotated[max(0, len(rotated) - (max_files - 2)) :]:
        if entry.suffix != ".gz" and os.path.lexists(entry):
            try:
                _compress(entry)
            except OSError as error:
                _log.warning("Cannot compress a rotated log", path=str(entry), err=error)


def _compress(path: Path) -> None:
    """Links in a log directory are nobody's logs: they go, and what they lead to is never read or written."""
    temporary = path.with_name(f"{path.name}.gz.tmp")
    if path.is_symlink():
        path.unlink()
        return
    temporary.unlink(missing_ok=True)
    with (
        files.open_regular(path) as source,
        temporary.open("xb") as made,
        gzip.GzipFile(fileobj=made, mode="wb", compresslevel=6) as target,
    ):
        shutil.copyfileobj(source, target)
    temporary.rename(path.with_name(f"{path.name}.gz"))
    path.unlink()
