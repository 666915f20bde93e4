"""gRPC to a program of the same machine, by its socket: the runtime, CSI and device plugins, DRA drivers, KMS plugins.

A channel opens when it is first used and reconnects by itself, soon after the other side is back; calls made meanwhile fail at
once, so that their callers back off instead of hanging.
"""

from typing import Any

import grpc.aio

_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.default_authority", "localhost"),  # Go's server refuses the escaped socket path as an authority
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # how long an attempt may take, despite its name: a busy machine needs its time
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]


def local_channel(target: str, *more: tuple[str, Any]) -> grpc.aio.Channel:
    """``target`` as gRPC has it: ``unix:/path`` or ``unix-abstract:name``. To be made inside the loop that will use it."""
    return grpc.aio.insecure_channel(target, options=[*_OPTIONS, *more])
