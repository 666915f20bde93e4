"""A runtime's streaming server in process, spoken to by SPDY/3.1 as containerd's is. It runs no container: each path has a
small command written here. It does not imitate containerd's time limits, nor more than one request on a URL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import orjson
from aiohttp import web

from component import serving
from component.streams import upgrade
from component.streams.hijacked import Hijacked
from component.streams.session import Session, Stream

Streams = Mapping[str, Stream]
Command = Callable[[Streams], Awaitable[bytes]]


async def cat(streams: Streams) -> bytes:
    while data := await streams["stdin"].read():
        await streams["stdout"].write(data)
    return orjson.dumps({"metadata": {}, "status": "Success"})


async def fail(streams: Streams) -> bytes:
    await streams["stderr"].write(b"oh no\n")
    causes = [{"reason": "ExitCode", "message": "3"}]
    details = {"causes": causes}
    message = "command terminated with non-zero exit code: exit status 3"
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode", "details": details}
    return orjson.dumps(status)


async def flood(streams: Streams) -> bytes:
    for _ in range(200):
        await streams["stdout"].write(b"x" * 50_000)
    return orjson.dumps({"metadata": {}, "status": "Success"})


async def resize(streams: Streams) -> bytes:
    await streams["stdout"].write(await streams["resize"].read())
    return orjson.dumps({"metadata": {}, "status": "Success"})


COMMANDS: Mapping[str, Command] = {"cat": cat, "fail": fail, "flood": flood, "resize": resize}


async def _run(session: Session, command: Command, expected: set[str]) -> None:
    streams: dict[str, Stream] = {}
    while set(streams) != expected:
        stream = await session.accept()
        assert stream is not None
        streams[stream.headers["streamtype"]] = stream
    status = await command(streams)
    await streams["error"].write(status)
    for stream in streams.values():
        stream.close_write()


async def _echo_ports(session: Session) -> None:
    async def echo(stream: Stream) -> None:
        while data := await stream.read():
            await stream.write(stream.headers["port"].encode() + b":" + data)
        stream.close_write()

    async with asyncio.TaskGroup() as group:
        while (stream := await session.accept()) is not None:
            if stream.headers["streamtype"] == "data":
                group.create_task(echo(stream))
            else:
                stream.close_write()


async def handle(request: web.BaseRequest) -> web.StreamResponse:
    kind, _, rest = request.path.strip("/").partition("/")
    name, _, roles = rest.partition("/")
    if kind == "refuse":
        return web.Response(status=404, text='container not found ("c")')
    session = Session(client=False)
    protocol = request.headers.getall("X-Stream-Protocol-Version", ["none"])[0]
    headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)]
    upgrade.hijack(request, session, headers)
    try:
        if kind == "portforward":
            await _echo_ports(session)
        else:
            await _run(session, COMMANDS[name], set(roles.split(",")))
    except ConnectionError:
        pass
    finally:
        session.close()
    return Hijacked()


@asynccontextmanager
async def running_streaming_server() -> AsyncIterator[str]:
    """The base URL. ``/exec/cat/error,stdin,stdout`` names a command and the streams it waits for."""
    async with serving.listening(handle, "127.0.0.1", 0, drain_seconds=1) as address:
        yield address.url
