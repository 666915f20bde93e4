"""Carry a stream from the client's WebSocket to the backend's SPDY connection and back. Used by API server and kubelet.

Where both sides speak the same protocol nothing here is needed: ``duplex.splice`` moves the bytes.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping, Sequence

from component.streams import channels
from component.streams.channels import Options, Role, WebSocketChannels
from component.streams.duplex import Duplex
from component.streams.session import Session, Stream
from component.streams.wsocket import WebSocket


async def command(client: WebSocketChannels, backend: Session, options: Options) -> None:
    """Join a WebSocket client to a runtime that waits for the streams of ``options``; until the command ends, or one is gone.

    The final status is sent after all output, and then the WebSocket closes. A client that leaves takes the backend's
    connection with it.
    """
    try:
        async with asyncio.timeout(30):
            streams = await channels.open_streams(backend, options)
        await _first_of(_to_backend(client, streams), _to_client(client, streams))
    except (ConnectionError, TimeoutError) as error:
        with contextlib.suppress(ConnectionResetError):
            await client.send(Role.ERROR, _status(client, channels.failure(f"error streaming to the container: {error}")))
    finally:
        client.socket.close()
        backend.close()


async def _first_of(*parts: Awaitable[None]) -> None:
    """Run together; when one has ended, cancel the others. The first failure is raised as it is."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _to_backend(client: WebSocketChannels, streams: Mapping[Role, Stream]) -> None:
    """stdin and terminal sizes, until the client is gone. A runtime that stopped reading stdin is no reason to end."""
    while (received := await client.receive()) is not None:
        number, data, ended = received
        stream = streams.get(Role(number)) if number in (Role.STDIN, Role.RESIZE) else None
        if stream is None:
            continue
        with contextlib.suppress(ConnectionError):
            if data:
                await stream.write(data)
            if ended:
                stream.close_write()


async def _to_client(client: WebSocketChannels, streams: Mapping[Role, Stream]) -> None:
    async with asyncio.TaskGroup() as group:
        for role in (Role.STDOUT, Role.STDERR):
            if role in streams:
                group.create_task(_output(client, role, streams[role]))
        status = await _final_status(streams[Role.ERROR])
    if status := _status(client, status):
        await client.send(Role.ERROR, status)


async def _final_status(stream: Stream) -> bytes:
    with contextlib.suppress(ConnectionError):
        if status := await stream.read_all():
            return status
    return channels.failure("the connection to the container ended without a status")


async def _output(client: WebSocketChannels, role: Role, stream: Stream) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await stream.read():
            await client.send(role, data)


def _status(client: WebSocketChannels, status: bytes) -> bytes:
    return status if client.json_status else channels.plain_status(status)


async def tunnel(client: WebSocket, backend: Duplex) -> None:
    """``SPDY/3.1+portforward.k8s.io``: the client's messages are the bytes of a SPDY connection, which pass untouched."""
    try:
        await _first_of(_unwrap(client, backend), _wrap(backend, client))
    except ConnectionError:
        pass
    finally:
        client.close()
        backend.close()


async def _unwrap(client: WebSocket, backend: Duplex) -> None:
    while (message := await client.receive()) is not None:
        with contextlib.suppress(ConnectionResetError):  # the end comes in the other direction, behind the last data
            await backend.write(message)


async def _wrap(backend: Duplex, client: WebSocket) -> None:
    while data := await backend.read():
        await client.write(data)  # raises when the client is gone: then nobody waits for the rest


async def port_forward(client: WebSocketChannels, backend: Session, ports: Sequence[int]) -> None:
    """The older WebSocket port-forward: channels 2n and 2n+1 are data and errors of the n-th port of the URL.

    Each channel starts with the port number, two bytes, low first. Ends when the client leaves or every port has ended.
    """
    try:
        pairs = []
        for index, port in enumerate(ports):
            headers = {"port": str(port), "requestID": str(index)}
            error = await backend.open({"streamType": "error", **headers}, fin=True)
            pairs.append((error, await backend.open({"streamType": "data", **headers})))
            for channel in (2 * index, 2 * index + 1):
                await client.send(channel, port.to_bytes(2, "little"))
        await _first_of(_ports_in(client, [data for _, data in pairs]), _ports_out(client, pairs))
    except ConnectionError:
        pass
    finally:
        client.socket.close()
        backend.close()


async def _ports_in(client: WebSocketChannels, streams: Sequence[Stream]) -> None:
    while (received := await client.receive()) is not None:
        number, data, ended = received
        if number % 2 or number // 2 >= len(streams):
            continue
        with contextlib.suppress(ConnectionError):
            if data:
                await streams[number // 2].write(data)
            if ended:
                streams[number // 2].close_write()


async def _ports_out(client: WebSocketChannels, pairs: Sequence[tuple[Stream, Stream]]) -> None:
    async with asyncio.TaskGroup() as group:
        for index, (error, data) in enumerate(pairs):
            group.create_task(_channel_out(client, 2 * index, data))
            group.create_task(_channel_out(client, 2 * index + 1, error))


async def _channel_out(client: WebSocketChannels, channel: int, stream: Stream) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await stream.read():
            await client.send(channel, data)
