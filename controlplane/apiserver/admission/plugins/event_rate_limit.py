"""EventRateLimit: bounds how many events anybody may write, by server, namespace, user, or source and object."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery import errors
from component.errors import OperatorError
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes
from controlplane.apiserver.admission.plugins.base import Validating

_KINDS = ("Server", "Namespace", "User", "SourceAndObject")
_CACHE = 4096


@dataclass(slots=True)
class Bucket:
    tokens: float
    since: float


class Limit:
    """One limit: a bucket for the server, or the ``size`` buckets used last."""

    def __init__(self, kind: str, rate: float, burst: float, size: int, clock: Callable[[], float]) -> None:
        self.kind, self._rate, self._burst, self._size, self._clock = kind, rate, burst, size, clock
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, key: str) -> bool:
        now = self._clock()
        bucket = self._buckets.setdefault(key, Bucket(self._burst, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._size:
            self._buckets.popitem(last=False)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.since) * self._rate)
        bucket.since = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


class EventRateLimit(Validating):
    name = "EventRateLimit"

    def __init__(self, config: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        """``config`` is an ``eventratelimit.admission.k8s.io`` Configuration. Raises OperatorError for one without sense."""
        self._limits = [_limit(each, clock) for each in config.get("limits") or ()]
        if not self._limits:
            raise OperatorError("EventRateLimit needs a configuration with limits: see --admission-control-config-file")

    def handles(self, attributes: Attributes) -> bool:
        return attributes.resource == "events" and not attributes.subresource and attributes.operation in (CREATE, UPDATE)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.dry_run:
            return
        keys = [(each, _key(each.kind, attributes)) for each in self._limits]
        refused = [f"limit reached on type {each.kind} for key {key}" for each, key in keys if not each.take(key)]
        if refused:
            raise errors.too_many_requests(", ".join(refused), 1)


def _limit(given: Mapping[str, Any], clock: Callable[[], float]) -> Limit:
    kind, rate, burst = str(given.get("type")), given.get("qps"), given.get("burst")
    if kind not in _KINDS or not isinstance(rate, int) or not isinstance(burst, int) or rate < 1 or burst < 1:
        raise OperatorError(f"EventRateLimit: a limit needs a type ({', '.join(_KINDS)}), and a qps and a burst above 0")
    return Limit(kind, rate, burst, 1 if kind == "Server" else int(given.get("cacheSize") or _CACHE), clock)


def _key(kind: str, attributes: Attributes) -> str:
    if kind == "Namespace":
        return attributes.namespace
    if kind == "User":
        return attributes.user.name
    if kind == "Server":
        return ""
    event = attributes.obj or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    regarding = event.get("involvedObject") or event.get("regarding") or {}
    parts = [source.get(name) for name in ("component", "host")]
    parts += [regarding.get(name) for name in ("kind", "namespace", "name", "uid", "apiVersion")]
    return "".join(str(part or "") for part in parts)
