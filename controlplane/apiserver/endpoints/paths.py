"""Everything that is no resource: health, version, metrics, OpenAPI, the token issuer's documents, and the index of paths."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from apimachinery import errors
from component.healthz import Health
from component.metrics import CONTENT_TYPE, Registry
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import JSON, TEXT, Answer, Reply

Object = dict[str, Any]
PathEndpoint = Callable[[Call], Awaitable[Answer]]


def health(checks: Health) -> PathEndpoint:
    """``/healthz``, ``/livez``, ``/readyz`` and one path below them per check."""

    async def answer(call: Call) -> Reply:
        report = await checks.report(call.path, call.query, call.query_all("exclude"))
        if report is None:
            return Reply(404, b"404 page not found\n", TEXT)
        return Reply(report.code, report.body.encode(), TEXT, [("X-Content-Type-Options", "nosniff")])

    return answer


def document(value: Object, content_type: str = JSON, headers: Sequence[tuple[str, str]] = ()) -> PathEndpoint:
    """A JSON document that never changes."""
    body = orjson.dumps(value)

    async def answer(call: Call) -> Reply:
        return Reply(200, body, content_type, headers)

    return answer


def metrics(registry: Registry, refresh: Callable[[], None]) -> PathEndpoint:
    async def answer(call: Call) -> Reply:
        refresh()
        return Reply(200, registry.expose(), CONTENT_TYPE)

    return answer


def version(git_version: str, commit: str, major: str, minor: str, platform: str, language: str) -> Object:
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": commit,
        "gitTreeState": "clean",
        "buildDate": "2026-11-30T00:00:00Z",
        "goVersion": language,
        "compiler": "cpython",
        "platform": platform,
    }


def openid_configuration(issuer: str, algorithms: Sequence[str]) -> Object:
    return {
        "issuer": issuer,
        "jwks_uri": f"{issuer.rstrip('/')}/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": list(algorithms),
    }


class Paths:
    """Exact paths, and prefixes that end in a slash. ``/`` lists them."""

    def __init__(
        self, exact: Mapping[str, PathEndpoint], prefixes: Mapping[str, PathEndpoint], listed: Callable[[], Sequence[str]]
    ) -> None:
        self._exact, self._prefixes, self._listed = dict(exact), dict(prefixes), listed

    async def __call__(self, call: Call) -> Answer:
        path = call.path
        endpoint = self._exact.get(path) or self._exact.get(path.rstrip("/"))
        if endpoint is None:
            endpoint = next((found for prefix, found in self._prefixes.items() if path.startswith(prefix)), None)
        if endpoint is not None:
            if call.method not in ("GET", "HEAD"):
                raise errors.method_not_allowed()
            return await endpoint(call)
        if path in ("", "/", "/index.html") and call.method in ("GET", "HEAD"):
            return Reply(200, orjson.dumps({"paths": sorted(self._listed())}))
        raise errors.path_not_found()
