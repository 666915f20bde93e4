"""``/checkpoint``: what the runtime is asked, and how its refusals read."""

from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from component import serving
from component.clock import FakeClock, RealClock
from component.metrics import Registry
from cri.errors import RuntimeServiceError, UnimplementedError
from node.kubelet.server.auth import Gate
from node.kubelet.server.checkpoint import Checkpoints
from node.kubelet.server.routes import Server
from tests.support.kubelet import Facade, Reviews, Runtime


@dataclass
class Checkpointing:
    """``fails`` is raised by every call."""

    fails: Exception | None = None
    asked: list[tuple[str, str, float]] = field(default_factory=list)

    async def checkpoint_container(self, container_id: str, location: str, timeout: float) -> None:
        self.asked.append((container_id, location, timeout))
        if self.fails is not None:
            raise self.fails


async def post(runtime: Checkpointing, folder: Path, path: str, token: str = "good") -> tuple[int, str]:
    facade = Facade(Runtime(""))
    gate = Gate(Reviews({"good": "admin", "weak": "weak"}, {"admin"}), "node-1", RealClock())
    checkpoints = Checkpoints(facade, runtime, folder, FakeClock())
    server = Server(facade, gate, Registry(process=False), checkpoints=checkpoints)
    async with (
        serving.listening(server.application(), "127.0.0.1", 0, drain_seconds=1) as address,
        aiohttp.ClientSession(address.url, headers={"Authorization": f"Bearer {token}"}) as session,
        session.post(path) as response,
    ):
        return response.status, await response.text()


async def test_an_archive_is_named_and_private(tmp_path: Path) -> None:
    runtime, folder = Checkpointing(), tmp_path / "checkpoints"
    status, text = await post(runtime, folder, "/checkpoint/ns/p/c?timeout=7")

    ((container_id, location, timeout),) = runtime.asked
    assert (status, text) == (200, f'{{"items":["{location}"]}}')
    assert (container_id, timeout) == ("c1", 7.0)
    assert Path(location).parent == folder
    assert Path(location).name.startswith("checkpoint-p_ns-c-")
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("fails", "path", "status", "said"),
    [
        (
            UnimplementedError("unknown method"),
            "/checkpoint/ns/p/c",
            404,
            "checkpointing of ns/p/c failed (rpc error: code = Unimplemented desc = unknown method)",
        ),
        (
            RuntimeServiceError("no CRIU"),
            "/checkpoint/ns/p/c",
            500,
            "checkpointing of ns/p/c failed (rpc error: code = Unknown desc = no CRIU)",
        ),
        (None, "/checkpoint/ns/p/missing", 404, "not found"),
        (None, "/checkpoint/ns/p/c?timeout=soon", 400, "invalid timeout"),
        (None, "/checkpoint/ns/p/c?timeout=-1", 400, "invalid timeout"),
    ],
)
async def test_refusals_say_why(tmp_path: Path, fails: Exception | None, path: str, status: int, said: str) -> None:
    found, text = await post(Checkpointing(fails), tmp_path, path)

    assert found == status
    assert said in text


@pytest.mark.parametrize(("token", "status"), [("unknown", 401), ("weak", 403)])
async def test_strangers_fill_no_disk(tmp_path: Path, token: str, status: int) -> None:
    """CVE-2025-0426: the door is that of every other page, and there is no other port."""
    runtime = Checkpointing()
    assert (await post(runtime, tmp_path / "checkpoints", "/checkpoint/ns/p/c", token))[0] == status
    assert runtime.asked == []
