"""postStart and preStop: run a lifecycle handler of a container. Called by ``containers``."""

from collections.abc import Mapping
from typing import Any

from component.clock import Clock, timeout
from cri import errors
from cri.interface import RuntimeService
from node.kubelet import handlers

_HTTP_TIMEOUT = 30.0


class HookError(Exception):
    """The handler failed; the text is what the event says of it."""


async def run_hook(
    handler: Mapping[str, Any],
    container: Mapping[str, Any],
    container_id: str,
    ip: str,
    runtime: RuntimeService,
    clock: Clock,
    limit: float | None = None,
) -> None:
    """Run one handler to its end, at most ``limit`` seconds. Raises HookError."""
    try:
        if limit is None:
            await _run(handler, container, container_id, ip, runtime, clock, 0)
        else:
            async with timeout(clock, limit):
                await _run(handler, container, container_id, ip, runtime, clock, limit)
    except TimeoutError:
        raise HookError(f"did not end within {limit:g}s") from None
    except (errors.RuntimeServiceError, handlers.HandlerError) as error:
        raise HookError(str(error)) from None


async def _run(
    handler: Mapping[str, Any],
    container: Mapping[str, Any],
    container_id: str,
    ip: str,
    runtime: RuntimeService,
    clock: Clock,
    limit: float,
) -> None:
    if action := handler.get("exec"):
        result = await runtime.exec_sync(container_id, action.get("command") or (), limit)
        if result.exit_code != 0:
            said = (result.stdout + result.stderr).decode(errors="replace")
            words = " ".join(action.get("command") or ())
            raise HookError(f"command '{words}' exited with {result.exit_code}: {said}")
    elif action := handler.get("httpGet"):
        target = handlers.http_target(action, container, ip)
        await handlers.http_get(target, limit or _HTTP_TIMEOUT)
    elif action := handler.get("sleep"):
        await clock.sleep(float(action.get("seconds") or 0))
    elif action := handler.get("tcpSocket"):
        port = handlers.port_of(container, action["port"])
        await handlers.tcp_connect(str(action.get("host") or ip), port, limit or _HTTP_TIMEOUT)
    else:
        raise HookError("the handler names no action")
