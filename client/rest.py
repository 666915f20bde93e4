"""The REST client: verbs on collections, objects as plain dicts, failures as StatusError.

Made once per daemon from ``client.kubeconfig.load``; informers, leader election and events all go through it. Below it
is one ``client.transport.Transport``.
"""

import random
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

import orjson

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from client.failures import from_answer, is_too_large_version, retry_after
from client.kubeconfig import Config
from client.ratelimit import TokenBucket
from client.transport import AioTransport, Request, Response, Transport, TransportError
from client.watch import Watch
from component import logs
from component.clock import Clock, RealClock

if TYPE_CHECKING:
    from prometheus_client import Counter

    from component.metrics import Registry

Object = dict[str, Any]
_log = logs.get(__name__)
_MAX_RETRIES = 10
_CONNECT_RETRIES = 3
_JSON = {"Accept": "application/json", "Content-Type": "application/json"}


class PatchKind(StrEnum):
    """The content types of PATCH."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


JSON, MERGE, STRATEGIC, APPLY = PatchKind.JSON, PatchKind.MERGE, PatchKind.STRATEGIC, PatchKind.APPLY


class Client:
    """A connection pool to one API server, with the identity of one Config.

    Every verb raises StatusError for an answer of 400 and above, and TransportError (a ConnectionError) when none came.
    A 429 or 5xx with Retry-After is waited out and tried again, up to ten times; a server that cannot be connected to is
    tried three times. Requests that may have reached the server are repeated only when they read.
    """

    def __init__(
        self,
        config: Config,
        *,
        component: str = "client",
        clock: Clock | None = None,
        transport: Transport | None = None,
        limiter: TokenBucket | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or RealClock()
        self.user_agent = f"pybernetes-{component}/0.1.0 (linux) kubernetes/v1.36"
        self._transport = transport or AioTransport(config, self.user_agent, self.clock)
        self._limiter = limiter
        self._requests: Counter | None = None
        self._host = urlsplit(config.server).netloc
        self._random = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self.guard: Callable[[], None] | None = None
        """Called before every request that changes something; it raises to prevent it (see ``leaderelection``)."""

    def count_requests(self, metrics: "Registry") -> None:
        """Count answers and failures from now on, by upstream's name."""
        labels = ("code", "host", "method")
        self._requests = metrics.counter("rest_client_requests", "Requests by status code, method, and host.", labels)

    def _count(self, method: str, code: str) -> None:
        if self._requests is not None:
            self._requests.labels(code, self._host, method).inc()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def get(
        self,
        gvr: GroupVersionResource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        resource_version: str | None = None,
    ) -> Object:
        """One object, or one of its subresources such as ``scale``."""
        query = _query(resourceVersion=resource_version)
        return await self._object("GET", gvr.path(namespace, name, subresource), query)

    async def list(
        self,
        gvr: GroupVersionResource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        continue_token: str | None = None,
        accept: str | None = None,
    ) -> Object:
        """One page (or all, without ``limit``) as the server's List: ``items`` and ``metadata``.

        ``accept`` asks for another form, such as nothing but the metadata of each item.
        """
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=limit,
            resourceVersion=resource_version,
            resourceVersionMatch=resource_version_match,
        ) + _query(**{"continue": continue_token})
        headers = {**_JSON, "Accept": accept} if accept else _JSON
        return await self._object("GET", gvr.path(namespace), query, headers=headers)

    async def create(
        self,
        gvr: GroupVersionResource,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Create an object; ``namespace`` defaults to the object's own."""
        where = gvr.path(namespace or obj.get("metadata", {}).get("namespace"))
        return await self._object("POST", where, _write(field_manager, dry_run), obj)

    async def update(
        self,
        gvr: GroupVersionResource,
        obj: Mapping[str, Any],
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Replace an object; with its resourceVersion set, only if nobody changed it meanwhile."""
        metadata = obj["metadata"]
        where = gvr.path(metadata.get("namespace"), metadata["name"], subresource)
        return await self._object("PUT", where, _write(field_manager, dry_run), obj)

    async def update_status(
        self, gvr: GroupVersionResource, obj: Mapping[str, Any], *, field_manager: str | None = None
    ) -> Object:
        return await self.update(gvr, obj, subresource="status", field_manager=field_manager)

    async def patch(
        self,
        gvr: GroupVersionResource,
        name: str,
        body: Any,
        kind: PatchKind = PatchKind.MERGE,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        """Change parts of an object. APPLY needs ``field_manager``; ``force`` takes fields from other managers."""
        query = _write(field_manager, dry_run) + _query(force="true" if force else None)
        headers = {"Accept": "application/json", "Content-Type": str(kind)}
        return await self._object("PATCH", gvr.path(namespace, name, subresource), query, body, headers)

    async def delete(
        self,
        gvr: GroupVersionResource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: str | None = None,
        grace: int | None = None,
        preconditions: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Delete an object. ``preconditions`` may hold ``uid`` and ``resourceVersion``. Returns a Status or the object."""
        options = _delete_options(propagation, grace, preconditions, dry_run)
        return await self._object("DELETE", gvr.path(namespace, name), (), options)

    async def delete_collection(
        self,
        gvr: GroupVersionResource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        propagation: str | None = None,
        grace: int | None = None,
    ) -> Object:
        query = _query(labelSelector=label_selector, fieldSelector=field_selector)
        return await self._object("DELETE", gvr.path(namespace), query, _delete_options(propagation, grace, None, False))

    async def post_subresource(
        self,
        gvr: GroupVersionResource,
        name: str,
        subresource: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
    ) -> Object:
        """POST to a subresource: ``binding``, ``eviction``, ``token``."""
        return await self._object("POST", gvr.path(namespace, name, subresource), (), body)

    def watch(
        self,
        gvr: GroupVersionResource,
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int | None = None,
        bookmarks: bool = False,
        send_initial_events: bool | None = None,
        accept: str = "application/json",
    ) -> Watch:
        """Follow changes: ``async with client.watch(...) as events: async for kind, obj in events``.

        Ends when the server ends it; an ERROR event raises StatusError. See ``client.watch``.
        """
        query = _query(
            watch="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=timeout_seconds,
            allowWatchBookmarks="true" if bookmarks else None,
            sendInitialEvents=None if send_initial_events is None else str(send_initial_events).lower(),
            resourceVersionMatch="NotOlderThan" if send_initial_events else None,
        )
        # a server that ends watches in time stays silent no longer than this; TCP keep-alive finds dead ones sooner
        silence = timeout_seconds + 30.0 if timeout_seconds else None
        request = Request("GET", _url(gvr.path(namespace), query), {"Accept": accept}, None, silence, stream=True)
        return Watch(lambda: self._checked(request))

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = 60.0,
    ) -> bytes:
        """The body of an answer to any path, such as ``/version`` or a pod's log. Raises StatusError as all verbs do."""
        where = _url(path, tuple((query or {}).items()))
        response = await self._checked(Request(method, where, headers or {"Accept": "*/*"}, body, timeout))
        return await response.read()

    async def stream(self, path: str, *, query: Mapping[str, str] | None = None, silence: float | None = None) -> Response:
        """An answer to read in chunks, such as a followed log; the caller closes it."""
        where = _url(path, tuple((query or {}).items()))
        return await self._checked(Request("GET", where, {"Accept": "*/*"}, None, silence, stream=True))

    async def _object(
        self,
        method: str,
        path: str,
        query: tuple[tuple[str, str], ...],
        body: Any = None,
        headers: Mapping[str, str] = _JSON,
    ) -> Object:
        encoded = None if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        if self._limiter is not None:
            await self._limiter.wait()
        response = await self._checked(Request(method, _url(path, query), headers, encoded))
        data = await response.read()
        try:
            parsed: Object = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise TransportError(f"{method} {path}: the answer is not JSON: {error}", sent=True) from None
        return parsed

    async def _checked(self, request: Request) -> Response:
        """Send, wait out what the server asks to wait out, and turn failures into StatusError."""
        refused = 0
        for attempt in range(_MAX_RETRIES + 1):
            if self.guard is not None and request.method not in ("GET", "HEAD"):
                self.guard()
            try:
                response = await self._transport.send(request)
            except TransportError as error:
                self._count(request.method, "<error>")
                refused += 1
                if refused > _CONNECT_RETRIES or (error.sent and request.method not in ("GET", "HEAD")):
                    raise
                await self.clock.sleep(0.05 * 2**refused * (1 + self._random.random()))
                continue
            self._count(request.method, str(response.status))
            if response.status < 400:
                return response
            pause = retry_after(response.status, response.headers)
            body = await response.read()
            failure = from_answer(request.method, request.path, response.status, response.headers, body)
            # a version from a storage that is gone will not come, however long one waits
            if pause is None or attempt == _MAX_RETRIES or is_too_large_version(failure):
                raise failure
            _log.v(4, "Server asked to wait", method=request.method, path=request.path, status=response.status, seconds=pause)
            await self.clock.sleep(pause)
        raise AssertionError("unreachable")


def _url(path: str, query: tuple[tuple[str, str], ...]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _query(**values: str | int | None) -> tuple[tuple[str, str], ...]:
    return tuple((key, str(value)) for key, value in values.items() if value is not None)


def _write(field_manager: str | None, dry_run: bool) -> tuple[tuple[str, str], ...]:
    return _query(fieldManager=field_manager, dryRun="All" if dry_run else None)


def _delete_options(
    propagation: str | None, grace: int | None, preconditions: Mapping[str, str] | None, dry_run: bool
) -> Object | None:
    options = {
        "propagationPolicy": propagation,
        "gracePeriodSeconds": grace,
        "preconditions": dict(preconditions) if preconditions else None,
        "dryRun": ["All"] if dry_run else None,
    }
    given = {key: value for key, value in options.items() if value is not None}
    return {"kind": "DeleteOptions", "apiVersion": "v1", **given} if given else None


def is_not_found(error: BaseException) -> bool:
    """Whether a verb failed because the object is not there."""
    return isinstance(error, StatusError) and error.reason == "NotFound"


def is_conflict(error: BaseException) -> bool:
    return isinstance(error, StatusError) and error.reason == "Conflict"


def is_already_exists(error: BaseException) -> bool:
    return isinstance(error, StatusError) and error.reason == "AlreadyExists"
