"""``/logs/``: folders, files, and nothing else; over the whole server."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from component import serving
from component.clock import RealClock
from component.metrics import Registry
from node.kubelet.server.auth import Gate
from node.kubelet.server.node_logs import NodeLogs, listing
from node.kubelet.server.routes import Server
from tests.support.kubelet import Facade, Reviews, Runtime

GOOD = {"Authorization": "Bearer good"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    logs = tmp_path / "log"
    (logs / "pods" / "web").mkdir(parents=True)
    (logs / "syslog").write_text("a line\n")
    (logs / "pods" / "web" / "0.log").write_bytes(b"x" * 200_000)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("secret")
    (logs / "link").symlink_to(tmp_path / "secret")
    (logs / "door").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(logs / "pipe")
    return logs


@pytest.fixture
async def http(folder: Path) -> AsyncIterator[aiohttp.ClientSession]:
    gate = Gate(Reviews({"good": "admin"}, {"admin"}), "node-1", RealClock())
    server = Server(Facade(Runtime("")), gate, Registry(process=False), node_logs=NodeLogs(folder))
    async with (
        serving.listening(server.application(), "127.0.0.1", 0, drain_seconds=1) as address,
        aiohttp.ClientSession(address.url, headers=GOOD) as session,
    ):
        yield session


async def get(http: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with http.get(path) as response:
        return response.status, await response.text()


async def test_folders_are_listed_and_files_are_sent(http: aiohttp.ClientSession) -> None:
    status, page = await get(http, "/logs/")
    assert status == 200
    assert '<a href="pods/">pods/</a>\n' in page
    assert '<a href="syslog">syslog</a>' in page
    assert await get(http, "/logs/syslog") == (200, "a line\n")
    assert await get(http, "/logs/pods/web/0.log") == (200, "x" * 200_000)
    assert '<a href="0.log">' in (await get(http, "/logs/pods/web/"))[1]


@pytest.mark.parametrize(
    "path",
    ["link", "door/file", "door/", "pipe", "nothing", "syslog/x", "%2e%2e/secret", "pods/%2e%2e/%2e%2e/secret", "a%00b"],
)
async def test_nothing_else_is_there(http: aiohttp.ClientSession, path: str) -> None:
    status, text = await get(http, f"/logs/{path}")
    assert status in (400, 404)
    assert "secret" not in text


async def test_the_handler_can_be_switched_off() -> None:
    gate = Gate(Reviews({"good": "admin"}, {"admin"}), "node-1", RealClock())
    server = Server(Facade(Runtime("")), gate, Registry(process=False))
    async with (
        serving.listening(server.application(), "127.0.0.1", 0, drain_seconds=1) as address,
        aiohttp.ClientSession(address.url, headers=GOOD) as session,
    ):
        assert await get(session, "/logs/") == (405, "logs endpoint is disabled.")


def test_names_are_shown_and_never_run() -> None:
    assert listing(['<img src="x">']) == '<pre>\n<a href="%3Cimg%20src%3D%22x%22%3E">&lt;img src=&quot;x&quot;&gt;</a>\n</pre>\n'
