"""The connection to a runtime's socket: a busy runtime is waited for, one that is not there is told at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.api.runtime_v1_pb2_grpc import RuntimeServiceServicer, add_RuntimeServiceServicer_to_server
from cri.channel import Channel
from cri.runtime import GrpcRuntime


class Service(RuntimeServiceServicer):
    async def Version(self, request: pb.VersionRequest, context: object) -> pb.VersionResponse:
        return pb.VersionResponse(runtime_name="slow")


@asynccontextmanager
async def _busy(folder: Path, seconds: float) -> AsyncIterator[str]:
    """A runtime that takes connections at once and says its first word after ``seconds``; its endpoint."""
    server = grpc.aio.server()
    add_RuntimeServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{folder}/real.sock")
    await server.start()

    over = asyncio.Event()

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        real, back = await asyncio.open_unix_connection(f"{folder}/real.sock")
        try:
            await asyncio.gather(copy(reader, back), copy(real, writer), return_exceptions=True)
        finally:
            for end in (back, writer):
                end.transport.abort()
            over.set()

    door = await asyncio.start_unix_server(serve, f"{folder}/door.sock")
    try:
        yield f"unix://{folder}/door.sock"
    finally:
        door.close()
        await server.stop(0)
        await over.wait()
        await asyncio.sleep(0.01)  # an aborted connection is closed a turn later


async def test_a_busy_runtime_is_waited_for(tmp_path: Path) -> None:
    async with _busy(tmp_path, 0.4) as endpoint:
        channel = Channel(endpoint)
        assert (await GrpcRuntime(channel).version()).runtime_name == "slow"
        await channel.close()


async def test_one_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    channel, began = Channel(f"unix://{tmp_path}/nothing.sock"), time.monotonic()
    with pytest.raises(errors.UnavailableError):
        await GrpcRuntime(channel).version()
    assert time.monotonic() - began < 2
    await channel.close()
