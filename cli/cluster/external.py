"""What a container runtime that is not ours to configure says of itself: where it looks for pod networks, and which sandbox
image it starts. ``up --containerd`` asks before anything starts; grpc is imported only then."""

import asyncio
from pathlib import Path

import click

from cri.facts import Facts, parse

SECONDS = 10.0


def socket_path(endpoint: str) -> Path:
    """The socket of ``unix:///path``. Raises click.ClickException for other forms, and when nothing is there."""
    path = Path(endpoint.removeprefix("unix://"))
    if not endpoint.startswith("unix:///"):
        raise click.ClickException(f"--containerd {endpoint}: write a socket, such as unix:///run/containerd/containerd.sock")
    if not path.is_socket():
        raise click.ClickException(f"--containerd {endpoint}: no container runtime listens there; start it first")
    return path


def ask(endpoint: str) -> Facts:
    """Raises click.ClickException when the runtime does not answer."""
    socket_path(endpoint)
    from cri.errors import RuntimeServiceError

    try:
        return asyncio.run(_ask(endpoint))
    except (RuntimeServiceError, TimeoutError) as error:
        raise click.ClickException(f"--containerd {endpoint}: the runtime does not answer: {error}") from None


async def _ask(endpoint: str) -> Facts:
    from cri.channel import Channel
    from cri.runtime import GrpcRuntime

    channel = Channel(endpoint)
    try:
        async with asyncio.timeout(SECONDS):
            status = await GrpcRuntime(channel).status(verbose=True)
    finally:
        await channel.close()
    return parse(status.info.get("config", ""))
