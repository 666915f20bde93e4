"""APIServices of group versions that come and go while the server runs: custom resources, and metrics in place.

Upstream's autoregistration with its label ``automanaged: "true"``; those that are seen to at the start alone are
``poststart_requests``'. One that has lost the label is somebody's own, and left as it is.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersion
from component import logs
from controlplane.apiserver.aggregation.services import APIServices
from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.kinds.apiregistration.apiservice import local, managed
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Context
from controlplane.apiserver.storage.interface import StorageUnavailableError

Object = dict[str, Any]
_RETRY_SECONDS = 1.0
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Version:
    """One to have. ``yields``: a server that is named in its place stays there, as a real metrics server may."""

    version: GroupVersion
    group_priority: int
    version_priority: int
    yields: bool = False

    @property
    def name(self) -> str:
        return f"{self.version.version}.{self.version.group}"


@dataclass(frozen=True, slots=True)
class Step:
    """``verb`` is create, update or delete; ``wanted`` is None for the last."""

    verb: str
    name: str
    wanted: Object | None = None


def plan(wanted: Mapping[str, Version], held: Mapping[str, Mapping[str, Any]]) -> list[Step]:
    """What brings the APIServices that are kept always to what they must be; no others are touched. Pure."""
    steps = []
    for name, one in sorted(wanted.items()):
        made = local(one.version, one.group_priority, one.version_priority, "true")
        stored = held.get(name)
        if stored is None:
            steps.append(Step("create", name, made))
            continue
        taken_over = one.yields and (stored.get("spec") or {}).get("service") is not None
        if managed(dict(stored)) and not taken_over and stored.get("spec") != made["spec"]:
            steps.append(Step("update", name, made))
    gone = [name for name, stored in held.items() if managed(dict(stored)) == "true" and name not in wanted]
    return steps + [Step("delete", name) for name in sorted(gone)]


class Registration:
    """Run :meth:`run` for as long as the server lives, from when everything that may be wanted has been added."""

    def __init__(self, services: APIServices, store: Store) -> None:
        self._services, self._store = services, store
        self._wanted: list[Callable[[], Mapping[str, Version]]] = []
        self._changed = asyncio.Event()
        services.on_change(self._changed.set)

    def add(self, more: Callable[[], Mapping[str, Version]]) -> None:
        """Want these as well, whatever they are at the time; see :meth:`note`."""
        self._wanted.append(more)

    def note(self) -> None:
        """What is wanted may have changed."""
        self._changed.set()

    async def run(self) -> None:
        await self._services.synced.wait()
        while True:
            self._changed.clear()
            wanted = {name: one for source in self._wanted for name, one in source().items()}
            if not all([await self._act(step) for step in plan(wanted, self._services.objects)]):
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            await self._changed.wait()

    async def _act(self, step: Step) -> bool:
        """False when it should be tried again. Who was faster changed an APIService, so another round is coming anyway."""
        ctx = Context(SERVER, "", step.name, step.verb, datetime.now(UTC), field_manager="kube-apiserver")
        try:
            if step.wanted is None:
                await self._store.delete(ctx, {}, _no_admission)
            elif step.verb == "create":
                await self._store.create(ctx, step.wanted, _no_admission)
            else:
                spec = step.wanted["spec"]

                async def change(newest: Object) -> Object | None:
                    return {**newest, "spec": spec} if managed(newest) else None

                await self._store.update(ctx, change, _no_admission)
        except (StatusError, StorageUnavailableError) as problem:
            if isinstance(problem, StatusError) and problem.code in (404, 409):
                return True
            _log.warning("Cannot write an APIService, trying again", name=step.name, verb=step.verb, err=problem)
            return False
        return True


async def _no_admission(obj: Object, old: Object | None) -> None:
    """The server's own objects need nobody's leave."""
