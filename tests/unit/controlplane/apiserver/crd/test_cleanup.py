"""The end of a definition whose instances cannot be seen: it waits, for they would come back with the next of its name."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from controlplane.apiserver.crd.cleanup import Cleanup
from controlplane.apiserver.crd.conditions import FINALIZER, condition, find, put

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Definitions:
    """The one definition, as a store of definitions has it."""

    def __init__(self) -> None:
        status = put({}, condition("Established", True, "InitialNamesAccepted", ""), NOW)
        meta = {"name": "foos.example.com", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]}
        self.ended = asyncio.Event()
        self.crd: dict[str, Any] = {"metadata": meta, "status": status}

    async def update(self, ctx: Any, change: Any, admit: Any, part: Any) -> Any:
        self.crd = await change(self.crd) or self.crd
        if (said := find(self.crd["status"], "Terminating")) is not None and said["reason"] != "InstanceDeletionInProgress":
            self.ended.set()
        return SimpleNamespace(decode=lambda: self.crd), False


async def test_a_definition_stays_while_nobody_can_tell_whether_it_has_instances() -> None:
    definitions = Definitions()
    cleanup = Cleanup(definitions, lambda name: None, lambda: NOW)  # type: ignore[arg-type]
    running = asyncio.create_task(cleanup.run("foos.example.com"))
    await definitions.ended.wait()
    running.cancel()
    assert definitions.crd["metadata"]["finalizers"] == [FINALIZER]
