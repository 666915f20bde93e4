"""Servers that are asked who somebody is (TokenReview) and what they may (SubjectAccessReview), by kubeconfig files.

Answers are remembered for a while. A server that does not answer knows nobody and allows nothing.
"""

import contextlib
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.errors import StatusError
from client.kubeconfig import in_cluster, load
from client.rest import Client
from component import logs
from component.metrics import Registry
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Authenticator, Credentials, UserInfo
from controlplane.apiserver.authorization.entries import WebhookEntry
from controlplane.apiserver.authorization.interface import Attributes, Authorizer, Decision
from controlplane.apiserver.authorization.match_conditions import MatchConditions, review_of
from controlplane.apiserver.config import Identity

_log = logs.get(__name__)
_REMEMBERED = 8192
_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Remote:
    tokens: Authenticator | None = None
    authorizer: Authorizer | None = None


async def remote(config: Identity, metrics: Registry, stack: contextlib.AsyncExitStack) -> Remote:
    """The servers of the flags, open as long as ``stack`` is. Raises what a kubeconfig that cannot be used raises."""
    tokens = authorizer = None
    if config.token_webhook is not None:
        hook = Hook(await stack.enter_async_context(Client(load(config.token_webhook), component="kube-apiserver")))
        tokens = WebhookTokens(hook, config.token_webhook_ttl, config.webhook_versions[0])
    if config.access_webhook is not None:
        wanted = WebhookEntry(
            config.access_webhook, _WAIT_SECONDS, False, config.access_webhook_ttls, version=config.webhook_versions[1]
        )
        authorizer = await webhook_authorizer("default", wanted, metrics, stack)
    return Remote(tokens, authorizer)


async def webhook_authorizer(
    name: str, wanted: WebhookEntry, metrics: Registry, stack: contextlib.AsyncExitStack
) -> "WebhookAuthorizer":
    """Open as long as ``stack`` is. Raises what a kubeconfig that cannot be used raises."""
    config = load(wanted.kubeconfig) if wanted.kubeconfig is not None else in_cluster()
    hook = Hook(await stack.enter_async_context(Client(config, component="kube-apiserver")), wanted.timeout)
    return WebhookAuthorizer(name, hook, wanted, WebhookMetrics(metrics))


class Hook:
    def __init__(self, client: Client, seconds: float = _WAIT_SECONDS) -> None:
        self._client, self._seconds = client, seconds

    async def ask(self, review: dict[str, Any]) -> dict[str, Any]:
        """The review's status. Raises ConnectionError when there is none to be had."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            answer = await self._client.raw("POST", "", body=orjson.dumps(review), headers=headers, timeout=self._seconds)
            status = orjson.loads(answer).get("status")
        except (StatusError, orjson.JSONDecodeError, AttributeError) as problem:
            raise ConnectionError(str(problem)) from None
        if not isinstance(status, dict):
            raise ConnectionError("the answer is no review")
        return status


def dialler(stack: contextlib.AsyncExitStack) -> Callable[[str], Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]]:
    """For admission: from a kubeconfig's path to how its server is asked, open as long as ``stack`` is."""

    def dial(path: str) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
        client = Client(load(path), component="kube-apiserver")
        stack.push_async_callback(client.close)
        return Hook(client).ask

    return dial


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
    def __init__(self, hook: Hook, seconds: float, version: str = "v1", clock: Callable[[], float] = time.monotonic) -> None:
        self._hook, self._seconds, self._memory = hook, seconds, Memory(clock)
        self._api_version = f"authentication.k8s.io/{version}"

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        token = credentials.bearer_token
        if not token:
            return None
        key = hashlib.sha256(token.encode()).digest()  # the tokens themselves are kept nowhere
        status = self._memory.get(key)
        if status is None:
            review = {"apiVersion": self._api_version, "kind": "TokenReview", "metadata": {}, "spec": {"token": token}}
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


_CONDITION_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)


class WebhookMetrics:
    """Upstream's names: what became of each question, and of the conditions that keep questions from being asked."""

    def __init__(self, metrics: Registry) -> None:
        prefix = "apiserver_authorization"
        names = ("name", "result")
        self.evaluations = metrics.counter(f"{prefix}_webhook_evaluations", "Questions to authorization webhooks.", names)
        self.fail_open = metrics.counter(f"{prefix}_webhook_evaluations_fail_open", "Failures that were NoOpinion.", names)
        self.seconds = metrics.histogram(f"{prefix}_webhook_duration_seconds", "How long webhooks took.", names)
        by_type = ("type", "name")
        self.exclusions = metrics.counter(
            f"{prefix}_match_condition_exclusions", "Requests kept from a webhook by its conditions.", by_type
        )
        self.errors = metrics.counter(
            f"{prefix}_match_condition_evaluation_errors", "Conditions that could not be evaluated.", by_type
        )
        self.condition_seconds = metrics.histogram(
            f"{prefix}_match_condition_evaluation_seconds", "How long conditions took.", by_type, _CONDITION_BUCKETS
        )


class WebhookAuthorizer:
    def __init__(
        self,
        name: str,
        hook: Hook,
        wanted: WebhookEntry,
        metrics: WebhookMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._hook, self._wanted, self._metrics = name, hook, wanted, metrics
        self._memory = Memory(clock)
        self._conditions = MatchConditions(wanted.conditions)

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        begun = time.perf_counter()
        try:
            if not self._conditions.match(attributes):
                self._metrics.exclusions.labels("Webhook", self._name).inc()
                return Decision.NO_OPINION, ""
        except ValueError as problem:
            self._metrics.errors.labels("Webhook", self._name).inc()
            return self._failed(f"a match condition cannot be evaluated: {problem}")
        finally:
            if self._wanted.conditions:
                self._metrics.condition_seconds.labels("Webhook", self._name).observe(time.perf_counter() - begun)
        spec = review_spec(attributes, self._wanted.version)
        key = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        status = self._memory.get(key)
        if status is None:
            try:
                status = await self._ask(spec)
            except ConnectionError as problem:
                _log.warning("The webhook for authorization does not answer", webhook=self._name, err=problem)
                return self._failed("the authorization webhook does not answer")
            seconds = self._wanted.ttls[0 if status.get("allowed") else 1]
            if seconds > 0:
                self._memory.put(key, status, seconds)
        reason = str(status.get("reason") or "")
        if status.get("allowed"):
            return (
                self._failed("the authorization webhook both allows and denies")
                if status.get("denied")
                else (
                    Decision.ALLOW,
                    reason,
                )
            )
        return (Decision.DENY if status.get("denied") else Decision.NO_OPINION), reason

    def unlisted(self, user: UserInfo) -> str:
        return "webhook authorizer does not support user rule resolution"

    async def _ask(self, spec: dict[str, Any]) -> dict[str, Any]:
        version = f"authorization.k8s.io/{self._wanted.version}"
        review = {"apiVersion": version, "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
        begun, result = time.perf_counter(), "error"
        try:
            status = await self._hook.ask(review)
            result = "success"
        finally:
            self._metrics.evaluations.labels(self._name, result).inc()
            self._metrics.seconds.labels(self._name, result).observe(time.perf_counter() - begun)
        return status

    def _failed(self, reason: str) -> tuple[Decision, str]:
        if self._wanted.denies_on_failure:
            return Decision.DENY, reason
        self._metrics.fail_open.labels(self._name, "error").inc()
        return Decision.NO_OPINION, reason


def review_spec(asked: Attributes, version: str = "v1") -> dict[str, Any]:
    """The spec of the review that is sent: without what says nothing; v1beta1 calls the groups ``group``."""
    whole = review_of(asked)
    spec = {key: value for key, value in whole.items() if value or key == "user"}
    if "resourceAttributes" in spec:
        spec["resourceAttributes"] = {key: value for key, value in spec["resourceAttributes"].items() if value}
    if version == "v1beta1" and "groups" in spec:
        spec["group"] = spec.pop("groups")
    return spec
