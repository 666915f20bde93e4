"""Servers that are asked who somebody is (TokenReview) and what they may (SubjectAccessReview), by kubeconfig files.

Answers are remembered for a while. A server that does not answer knows nobody and allows nothing.
"""

import contextlib
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from apimachinery.errors import StatusError
from client.kubeconfig import load
from client.rest import Client
from component import logs
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Authenticator, Credentials, UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Authorizer, Decision
from controlplane.apiserver.config import Identity

_log = logs.get(__name__)
_REMEMBERED = 8192
_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Remote:
    tokens: Authenticator | None = None
    authorizer: Authorizer | None = None


async def remote(config: Identity, stack: contextlib.AsyncExitStack) -> Remote:
    """Open as long as ``stack`` is. Raises what a kubeconfig that cannot be used raises."""

    async def hook(path: Path) -> "Hook":
        return Hook(await stack.enter_async_context(Client(load(path), component="kube-apiserver")))

    tokens = authorizer = None
    if config.token_webhook is not None:
        tokens = WebhookTokens(await hook(config.token_webhook), config.token_webhook_ttl)
    if config.access_webhook is not None:
        authorizer = WebhookAuthorizer(await hook(config.access_webhook), config.access_webhook_ttls)
    return Remote(tokens, authorizer)


class Hook:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, review: dict[str, Any]) -> dict[str, Any]:
        """The review's status. Raises ConnectionError when there is none to be had."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            answer = await self._client.raw("POST", "", body=orjson.dumps(review), headers=headers, timeout=_WAIT_SECONDS)
            status = orjson.loads(answer).get("status")
        except (StatusError, orjson.JSONDecodeError, AttributeError) as problem:
            raise ConnectionError(str(problem)) from None
        if not isinstance(status, dict):
            raise ConnectionError("the answer is no review")
        return status


class Memory:
    """The newest answers, each until its time is over."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._held: OrderedDict[Any, tuple[float, Any]] = OrderedDict()
        self._clock = clock

    def get(self, key: Any) -> Any:
        until, value = self._held.get(key, (0.0, None))
        return value if self._clock() < until else None

    def put(self, key: Any, value: Any, seconds: float) -> None:
        self._held[key] = (self._clock() + seconds, value)
        self._held.move_to_end(key)
        if len(self._held) > _REMEMBERED:
            self._held.popitem(last=False)


class WebhookTokens:
    def __init__(self, hook: Hook, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._hook, self._seconds, self._memory = hook, seconds, Memory(clock)

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        token = credentials.bearer_token
        if not token:
            return None
        key = hashlib.sha256(token.encode()).digest()  # the tokens themselves are kept nowhere
        status = self._memory.get(key)
        if status is None:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": {"token": token}}
            try:
                status = await self._hook.ask(review)
            except ConnectionError as problem:
                _log.warning("The webhook for tokens does not answer", err=problem)
                raise AuthenticationFailed("the token could not be reviewed") from None
            self._memory.put(key, status, self._seconds)
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        extra = {str(name).lower(): list(values) for name, values in (user.get("extra") or {}).items()}
        return UserInfo(str(user["username"]), str(user.get("uid") or ""), tuple(user.get("groups") or ()), extra)


class WebhookAuthorizer:
    """``seconds`` that permissions and refusals are remembered."""

    def __init__(self, hook: Hook, seconds: tuple[float, float], clock: Callable[[], float] = time.monotonic) -> None:
        self._hook, self._seconds, self._memory = hook, seconds, Memory(clock)

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        spec = review_spec(attributes)
        key = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        status = self._memory.get(key)
        if status is None:
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
            try:
                status = await self._hook.ask(review)
            except ConnectionError as problem:
                _log.warning("The webhook for authorization does not answer", err=problem)
                return Decision.NO_OPINION, "the authorization webhook does not answer"
            self._memory.put(key, status, self._seconds[0 if status.get("allowed") else 1])
        reason = str(status.get("reason") or "")
        if status.get("allowed"):
            return (Decision.NO_OPINION, reason) if status.get("denied") else (Decision.ALLOW, reason)
        return (Decision.DENY if status.get("denied") else Decision.NO_OPINION), reason


def review_spec(asked: Attributes) -> dict[str, Any]:
    user = asked.user
    spec: dict[str, Any] = {"user": user.name, "groups": list(user.groups)}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    if not asked.is_resource:
        return {**spec, "nonResourceAttributes": {"path": asked.path, "verb": asked.verb}}
    what = {
        "namespace": asked.namespace,
        "verb": asked.verb,
        "group": asked.api_group,
        "version": asked.api_version,
        "resource": asked.resource,
        "subresource": asked.subresource,
        "name": asked.name,
    }
    return {**spec, "resourceAttributes": {key: value for key, value in what.items() if value}}
