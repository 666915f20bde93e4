"""The file sink loses no line when it is stopped, in whatever way."""

import asyncio
import json
from pathlib import Path

import pytest

from controlplane.apiserver.audit.sinks import FileSink


@pytest.mark.parametrize("pause", [0.0, 0.03, 0.051, 0.08])
@pytest.mark.parametrize("cancelled", [False, True], ids=["left", "cancelled"])
async def test_every_line_is_in_the_file_in_order(tmp_path: Path, pause: float, cancelled: bool) -> None:
    path, recorded = tmp_path / "audit.log", asyncio.Event()

    async def life() -> None:
        async with FileSink(path, 0, 0).running() as sink:
            for number in range(1000):
                sink.record({"n": number})
                if number % 500 == 0:
                    await asyncio.sleep(pause)
            recorded.set()
            if cancelled:
                await asyncio.Event().wait()

    living = asyncio.ensure_future(life())
    if cancelled:
        await recorded.wait()
        living.cancel()
        with pytest.raises(asyncio.CancelledError):
            await living
    else:
        await living
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == list(range(1000))
