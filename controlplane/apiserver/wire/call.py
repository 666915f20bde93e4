"""The request on its way down the road: made by ``chain`` for each request, filled by filters, read by endpoints."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp.web_request import BaseRequest
from multidict import CIMultiDictProxy

from controlplane.apiserver.audit.record import Record
from controlplane.apiserver.authentication.interface import ANONYMOUS, UserInfo
from controlplane.apiserver.wire.info import RequestInfo
from controlplane.apiserver.wire.query import pairs

NO_INFO = RequestInfo("", "")


class Call:
    """One request. Filters set ``info``, ``user`` and ``audit_id``; endpoints add ``warnings``.

    ``finishers`` run in reverse order once the answer (or the whole of a stream) has been handed to the connection.
    """

    __slots__ = (
        "_query",
        "annotations",
        "audit_id",
        "constraint",
        "dry_run",
        "finishers",
        "flow_headers",
        "headers",
        "http",
        "impersonator",
        "info",
        "method",
        "on_caught_up",
        "on_response",
        "path",
        "query_string",
        "received",
        "record",
        "routed",
        "seconds",
        "started",
        "stored_as",
        "user",
        "warnings",
    )

    def __init__(self, http: BaseRequest) -> None:
        self.http = http
        self.method: str = http.method
        self.path, _, self.query_string = http.raw_path.partition("?")
        self.headers: CIMultiDictProxy[str] = http.headers
        self.received = time.time()
        self.started = time.perf_counter()
        self.info = NO_INFO
        self.user: UserInfo = ANONYMOUS
        self.impersonator: UserInfo | None = None  # the real user, when they act as somebody else
        self.constraint = ""  # the permission that allowed a constrained impersonation
        self.audit_id = ""
        self.dry_run = False
        self.routed = False  # whether the URL names something that is served
        self.warnings: list[str] = []
        self.annotations: dict[str, str] = {}
        self.stored_as: tuple[str, str, str] | None = None  # name, uid, resourceVersion of what a write stored, for the audit log
        self.record: Record | None = None  # what an audit policy keeps of this request
        self.on_response: Callable[[int], None] | None = None  # called when a stream begins to answer
        self.seconds = 60.0  # how long it may take, unless it is long-running
        self.flow_headers = b""  # lines for the answer's head that name its priority level
        self.on_caught_up: Callable[[], None] | None = None  # to be called when a watch has sent the state it begins with
        self.finishers: list[Callable[[int], None]] = []
        self._query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        """Query parameters, the first of each name, as upstream reads them."""
        if self._query is None:
            found: dict[str, str] = {}
            if self.query_string:
                for name, value in pairs(self.query_string):
                    found.setdefault(name, value)
            self._query = found
        return self._query

    def query_all(self, name: str) -> list[str]:
        """Every value of a parameter, such as the words of an exec ``command``."""
        return [value for key, value in pairs(self.query_string) if key == name]

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.received, UTC)

    @property
    def connection(self) -> dict[str, Any]:
        """A cache that lives as long as the client's connection."""
        return self.http.protocol.memory  # type: ignore[attr-defined, no-any-return]
