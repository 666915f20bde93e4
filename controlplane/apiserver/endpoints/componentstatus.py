"""ComponentStatuses: whether storage, scheduler and controller manager are well. Deprecated since v1.19; asked when read.

Nothing is stored: each read asks the parts' health endpoints on this machine, as upstream does, so a part that listens
elsewhere is said to be unhealthy.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery import errors
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared.columns import NAME
from controlplane.apiserver.registry.entries import PlainEntry
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Column, Object, ResourceInfo, Strategy
from controlplane.apiserver.registry.traits import extractor
from controlplane.apiserver.storage.interface import Entry, ListOptions, ListResult

COMPONENT_STATUS = ResourceInfo(
    GroupVersionKind("", "v1", "ComponentStatus"),
    "componentstatuses",
    "componentstatus",
    False,
    ("cs",),
    verbs=("get", "list"),
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)
Probe = Callable[[], Awaitable[str]]
"""Gives what a healthy part says, or raises OSError with what is wrong."""
_SECONDS = 5.0


class ComponentStatusStrategy(Strategy):
    info = COMPONENT_STATUS
    columns = (
        NAME,
        Column("Status", description="Whether the part is healthy."),
        Column("Message", description="What it says."),
        Column("Error", description="What is wrong with it."),
    )

    def row(self, obj: Object, now: datetime) -> list[Any]:
        conditions = obj.get("conditions") or ()
        healthy: Object = next((one for one in conditions if one.get("type") == "Healthy"), {})
        word = {"True": "Healthy", "False": "Unhealthy"}.get(healthy.get("status") or "", "Unknown")
        return [obj["metadata"]["name"], word, healthy.get("message") or "", healthy.get("error") or ""]


class ComponentStatuses(Store):
    """Looks like a store to the endpoints that read."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        self.strategy, self.info = ComponentStatusStrategy(), COMPONENT_STATUS
        self._probes = probes

    async def get(self, namespace: str, name: str, resource_version: str = "") -> Entry:
        if name not in self._probes:
            raise errors.StatusError(errors.make_status(404, "NotFound", f"Component not found: {name}"))
        return await self._entry(name)

    async def list(self, namespace: str, options: ListOptions) -> ListResult:
        entries: Sequence[Entry] = await asyncio.gather(*(self._entry(name) for name in self._probes))
        if options.matches is not None:
            matches, traits = options.matches, extractor(self.strategy)
            entries = [entry for entry in entries if matches(traits(entry.decode()))]
        return ListResult(entries, 0)

    async def _entry(self, name: str) -> Entry:
        condition: Object = {"type": "Healthy", "status": "True"}
        try:
            condition["message"] = await asyncio.wait_for(self._probes[name](), _SECONDS)
        except (OSError, TimeoutError, ssl.SSLError) as problem:
            condition |= {"status": "False", "message": str(problem) or "no answer in time"}
        kind = COMPONENT_STATUS.gvk
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "conditions": [condition]}
        return PlainEntry(name, 0, obj)


def healthz(port: int) -> Probe:
    """Asks ``/healthz`` of a part on this machine. Its certificate is its own and proves nothing, so it is not checked."""

    async def probe() -> str:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        except ConnectionRefusedError:
            where = f"127.0.0.1:{port}"
            raise OSError(f'Get "https://{where}/healthz": dial tcp {where}: connect: connection refused') from None
        try:
            writer.write(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            answer = await reader.read(65536)
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise OSError(body.decode(errors="replace").strip() or "the answer is no success")
        return body.decode(errors="replace").strip()

    return probe
