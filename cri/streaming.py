"""The runtime's streaming server: what to do with the URL that CRI's Exec, Attach and PortForward answer.

``node.kubelet.server.exec`` dials for the clients of the kubelet; :func:`run` executes a command whole. SPDY/3.1 always:
containerd offers WebSocket v4 too, but v4 cannot close stdin.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from component.streams import channels, upgrade
from component.streams.channels import Options, Role
from component.streams.session import Session, Stream
from component.streams.upgrade import Refusal, Upgraded, UpgradeError


class StreamingError(Exception):
    """The runtime's streaming server did not play its part; the message says how."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """``status`` is the runtime's final ``metav1.Status``."""

    stdout: bytes
    stderr: bytes
    status: Mapping[str, Any]

    @property
    def exit_code(self) -> int | None:
        return channels.exit_code(self.status)


async def dial(url: str, protocols: tuple[str, ...] = (channels.V4,)) -> Upgraded | Refusal:
    """Ask the streaming server to switch to SPDY/3.1. Raises StreamingError when it cannot be reached."""
    if urlsplit(url).scheme != "http":
        raise StreamingError(f"the runtime answered with an address that cannot be dialled: {url.split('?')[0]}")
    try:
        return await upgrade.connect("POST", url, upgrade.spdy_headers(protocols))
    except UpgradeError as error:
        raise StreamingError(str(error)) from error


async def session(url: str, protocols: tuple[str, ...] = (channels.V4,)) -> Session:
    """A SPDY session with the streaming server. Raises StreamingError, with its words when it refuses."""
    answer = await dial(url, protocols)
    if isinstance(answer, Refusal):
        raise StreamingError(f"the runtime refused the stream ({answer.status}): {answer.body.decode(errors='replace').strip()}")
    opened = Session(client=True)
    answer.duplex.switch(opened)
    return opened


async def run(url: str, options: Options, stdin: bytes = b"", limit: int = 1 << 20) -> CommandResult:
    """Run the command behind an Exec URL to its end; of each output at most ``limit`` bytes are kept."""
    opened = await session(url)
    try:
        streams = await channels.open_streams(opened, options)
        async with asyncio.TaskGroup() as group:
            if Role.STDIN in streams:
                group.create_task(_feed(streams[Role.STDIN], stdin))
            outputs = {
                role: group.create_task(streams[role].read_all(limit)) for role in (Role.STDOUT, Role.STDERR) if role in streams
            }
            status = group.create_task(streams[Role.ERROR].read_all())
    except* ConnectionError as group_error:
        raise StreamingError(f"the stream broke: {group_error.exceptions[0]}") from None
    finally:
        opened.close()
    texts = {role: task.result() for role, task in outputs.items()}
    if not status.result():
        raise StreamingError("the stream ended without a status")
    return CommandResult(texts.get(Role.STDOUT, b""), texts.get(Role.STDERR, b""), orjson.loads(status.result()))


async def _feed(stream: Stream, data: bytes) -> None:
    try:
        if data:
            await stream.write(data)
        stream.close_write()
    except ConnectionError:
        return  # a command need not read its input
