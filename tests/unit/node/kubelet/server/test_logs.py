import asyncio
import os
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apimachinery.errors import StatusError
from node.kubelet.interface import ContainerLog
from node.kubelet.server import log_file, logs
from node.kubelet.server.cri_log import Options

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def line(text: str) -> bytes:
    return f"2026-11-30T11:29:38Z stdout F {text}\n".encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "0.log"


async def stopped() -> bool:
    return False


async def read(path: Path, options: Options) -> bytes:
    log = ContainerLog(path, "id", running=False)
    return b"".join([chunk async for chunk in logs.read(log, options, stopped)])


@pytest.mark.parametrize(("tail", "expected"), [(0, b""), (1, b"c\n"), (2, b"b\nc\n"), (3, b"a\nb\nc\n"), (9, b"a\nb\nc\n")])
async def test_tail(path: Path, tail: int, expected: bytes) -> None:
    path.write_bytes(line("a") + line("b") + line("c"))
    assert await read(path, Options(tail=tail)) == expected


async def test_tail_across_blocks(path: Path) -> None:
    path.write_bytes(b"".join(line(f"{number:080}") for number in range(5000)))
    assert await read(path, Options(tail=3000)) == b"".join(b"%080d\n" % number for number in range(2000, 5000))


async def test_last_line_without_end_is_shown(path: Path) -> None:
    path.write_bytes(line("a") + line("b")[:-1])
    assert await read(path, Options()) == b"a\nb"
    assert await read(path, Options(tail=1)) == b"b"


async def test_big_file_in_chunks(path: Path) -> None:
    path.write_bytes(b"".join(line(f"{number}") for number in range(30_000)))
    assert await read(path, Options()) == b"".join(b"%d\n" % number for number in range(30_000))


async def test_limit_stops_reading(path: Path) -> None:
    path.write_bytes(line("abc") * 3)
    assert await read(path, Options(limit=6)) == b"abc\nab"


async def test_missing_file_is_404(path: Path) -> None:
    with pytest.raises(StatusError) as caught:
        await read(path, Options())
    assert caught.value.code == 404


async def test_links_are_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="link"):
        await read(path, Options())
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="directory"):
        await read(tmp_path / "link" / "x.log", Options())


async def test_fifo_is_refused(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(OSError, match="regular file"):
        await read(path, Options())


async def test_follow_sees_growth_and_rotation_and_ends_with_the_container(path: Path) -> None:
    path.write_bytes(line("a"))
    alive = True

    async def running() -> bool:
        return alive

    received = b""
    log = ContainerLog(path, "id", running=True)
    async with asyncio.timeout(5), aclosing(logs.read(log, Options(follow=True), running)) as chunks:
        async for chunk in chunks:
            received += chunk
            if received == b"a\n":
                with path.open("ab") as file:
                    file.write(line("b"))
            elif received == b"a\nb\n":
                with path.open("ab") as file:
                    file.write(line("c"))
                path.rename(path.with_suffix(".log.20261130"))
                path.write_bytes(line("d"))
            elif received == b"a\nb\nc\nd\n":
                alive = False
                with path.open("ab") as file:
                    file.write(line("last"))
    assert received == b"a\nb\nc\nd\nlast\n"


async def test_growth_wakes_at_once(tmp_path: Path) -> None:
    with log_file.Growth(tmp_path) as growth:
        (tmp_path / "x").write_text("x")
        async with asyncio.timeout(5):
            await growth.wait(60)


def test_options_from_the_url() -> None:
    query = {"follow": "true", "tailLines": "5", "sinceSeconds": "60", "timestamps": "true", "limitBytes": "7"}
    options = logs.parse_options(query, NOW)
    assert options == Options(True, 5, datetime(2026, 11, 29, 23, 59, tzinfo=UTC), True, 7)
    assert logs.parse_options({"sinceTime": "2026-11-30T00:00:00Z"}, NOW).since == NOW


@pytest.mark.parametrize("query", [{"tailLines": "x"}, {"sinceTime": "noon"}])
def test_bad_options_are_400(query: dict[str, str]) -> None:
    with pytest.raises(StatusError) as caught:
        logs.parse_options(query, NOW)
    assert caught.value.code == 400
