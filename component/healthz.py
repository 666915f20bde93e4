"""Health as upstream shows it: named checks behind ``/healthz``, ``/livez`` and ``/readyz``, plus ``/metrics``.

A daemon's wiring adds checks to one Health. The API server calls ``report`` from its own road; every other daemon serves
``health_and_metrics_handler`` on its health port.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from component import logs

if TYPE_CHECKING:
    from aiohttp import web

    from component.metrics import Registry

Check = Callable[[], Awaitable[None] | None]
"""Returns when healthy; raises, with the reason as its text, when not."""
PROBES = ("healthz", "livez", "readyz")
_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to one probe."""

    code: int
    body: str

    @property
    def headers(self) -> Mapping[str, str]:
        return _HEADERS


class Health:
    """The checks of one daemon, run in the order they were added. ``ping`` is always there and always passes."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {probe: {"ping": lambda: None} for probe in PROBES}

    def add(self, name: str, check: Check, probes: Collection[str] = PROBES) -> None:
        """Add or replace a named check for the given probes."""
        for probe in probes:
            self._checks[probe][name] = check

    async def report(self, path: str, query: Mapping[str, Any] | None = None, excluded: Collection[str] = ()) -> Report | None:
        """Answer ``/readyz`` or ``/readyz/<check>``; ``query`` needs only ``verbose``. None when there is no such path."""
        probe, _, name = path.strip("/").partition("/")
        checks = self._checks.get(probe)
        if checks is None or (name and name not in checks):
            return None
        if name:
            return await self._single(checks[name])
        return await self._all(probe, checks, set(excluded), verbose="verbose" in (query or {}))

    async def _single(self, check: Check) -> Report:
        if (failure := await _failure(check)) is not None:
            return Report(500, f"internal server error: {failure}\n")
        return Report(200, "ok")

    async def _all(self, probe: str, checks: Mapping[str, Check], excluded: set[str], *, verbose: bool) -> Report:
        lines, failed = [], {}
        for name, check in checks.items():
            if name in excluded:
                excluded.discard(name)
                lines.append(f"[+]{name} excluded: ok")
            elif (failure := await _failure(check)) is not None:
                failed[name] = failure
                lines.append(f"[-]{name} failed: reason withheld")
            else:
                lines.append(f"[+]{name} ok")
        if excluded:
            quoted = ", ".join(f'"{name}"' for name in sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            _log.v(2, "Health check failed", probe=probe, failed=failed)
            return Report(500, "\n".join([*lines, f"{probe} check failed", ""]))
        return Report(200, "\n".join([*lines, f"{probe} check passed", ""]) if verbose else "ok")


async def _failure(check: Check) -> str | None:
    try:
        outcome = check()
        if inspect.isawaitable(outcome):
            await outcome
    except Exception as error:
        return logs.describe(error)
    return None


def health_and_metrics_handler(
    health: Health, metrics: "Registry | None" = None
) -> "Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]":
    """A low-level aiohttp handler for ``component.serving.serve``: the three probes and ``/metrics``, nothing else."""
    from aiohttp import web

    from component.metrics import CONTENT_TYPE

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="Method Not Allowed\n")
        if request.path == "/metrics" and metrics is not None:
            return web.Response(body=metrics.expose(), headers={"Content-Type": CONTENT_TYPE})
        report = await health.report(request.path, request.query, request.query.getall("exclude", []))
        if report is None:
            return web.Response(status=404, text="404 page not found\n")
        return web.Response(status=report.code, body=report.body.encode(), headers=report.headers)

    return handle
