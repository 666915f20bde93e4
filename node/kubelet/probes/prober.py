"""Runs one probe once: exec, HTTP, TCP or gRPC. Called by ``worker``; never raises, an error is an outcome."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from node.kubelet import handlers
from node.kubelet.probes.results import Attempt, Outcome

Exec = Callable[[str, Sequence[str], float], Awaitable[tuple[int, bytes]]]
"""Run a command in a container: (id, command, timeout) to (exit code, output). Raises TimeoutError, or OSError when it
cannot be run at all."""

_MAX_OUTPUT = 10 * 1024


async def probe_once(
    probe: Mapping[str, Any], container: Mapping[str, Any], container_id: str, address: str, timeout: float, run: Exec
) -> Attempt:
    """Carry out ``probe`` against a container that is reached at ``address``."""
    try:
        if action := probe.get("exec"):
            return await _exec(action, container_id, timeout, run)
        if action := probe.get("httpGet"):
            return await _http(action, container, address, timeout)
        if action := probe.get("tcpSocket"):
            port = handlers.port_of(container, action["port"])
            await handlers.tcp_connect(str(action.get("host") or address), port, timeout)
            return Attempt(Outcome.SUCCESS)
        if action := probe.get("grpc"):
            from node.kubelet.probes import grpc_health

            return await grpc_health.check(address, int(action["port"]), str(action.get("service") or ""), timeout)
    except handlers.HandlerError as error:
        return Attempt(Outcome.FAILURE, str(error), error.refused)
    return Attempt(Outcome.UNKNOWN, "missing probe handler")


async def _exec(action: Mapping[str, Any], container_id: str, timeout: float, run: Exec) -> Attempt:
    command = [str(word) for word in action.get("command") or ()]
    try:
        code, output = await run(container_id, command, timeout)
    except TimeoutError:
        return Attempt(Outcome.FAILURE, f'command timed out: "{" ".join(command)}" timed out after {timeout:g}s')
    except OSError as error:
        return Attempt(Outcome.UNKNOWN, str(error))
    return Attempt(Outcome.SUCCESS if code == 0 else Outcome.FAILURE, output[:_MAX_OUTPUT].decode(errors="replace"))


async def _http(action: Mapping[str, Any], container: Mapping[str, Any], address: str, timeout: float) -> Attempt:
    target = handlers.http_target(action, container, address)
    code, body = await handlers.http_get(target, timeout)
    if 200 <= code < 400:
        return Attempt(Outcome.SUCCESS, body)
    return Attempt(Outcome.FAILURE, f"HTTP probe failed with statuscode: {code}")
