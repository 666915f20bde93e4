"""Credentials from programs of the node's owner: the exec protocol of credentialprovider.kubelet.k8s.io, with its cache.

``credentials.Keyring`` asks :meth:`Plugins.credentials` for every pull. A program gets a CredentialProviderRequest on stdin and
answers a CredentialProviderResponse on stdout. One that fails, is late or answers nonsense is as good as not there: the pull goes
on with the other credentials, as upstream's. What a program prints never reaches a log: it may be a secret.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import annotations_of, name_of, namespace_of, uid_of
from apimachinery.objects import pods
from component import logs
from component.clock import Clock
from component.flags import parse_duration
from component.metrics import Registry
from component.process import ProcessError, Runner
from node.kubelet.images import image_globs
from node.kubelet.images.credential_config import Provider
from node.kubelet.images.credentials import Account, Credential, Found

TIMEOUT = 60.0
_PURGE = 900.0
_LARGEST = 1 << 20
_GLOBAL = "global"
_GROUP = "credentialprovider.kubelet.k8s.io"
_log = logs.get(__name__)

Pod = Mapping[str, Any]
Auth = Mapping[str, Credential]
"""Of an answer: patterns of images, each with what to log in with."""


class AnswerError(Exception):
    """A program's answer cannot be used. The text holds nothing of the answer but versions and kinds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``duration`` in seconds; None: as the configuration says."""

    key_type: str
    duration: float | None
    auth: Auth


@dataclass(frozen=True, slots=True)
class Accounts:
    """How service accounts are read, and tokens of theirs got: of (namespace, name), with the spec of a TokenRequest."""

    get: Callable[[str, str], Awaitable[Mapping[str, Any]]]
    token: Callable[[str, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What goes with a request because of the pod's account, and what an answer to it is kept for."""

    token: str = field(default="", repr=False)
    annotations: Mapping[str, str] = field(default_factory=dict)
    account: Account | None = None
    key: str = ""


@dataclass(slots=True)
class Plugin:
    """One program, and what it has said."""

    provider: Provider
    program: Path
    runner: Runner
    clock: Clock
    accounts: Accounts
    metrics: "PluginMetrics"
    _kept: dict[tuple[str, str], tuple[float, Auth]] = field(default_factory=dict)
    _running: dict[tuple[str, str], asyncio.Future[Answer | None]] = field(default_factory=dict)
    _purged_at: float = 0.0

    async def credentials(self, image: str, pod: Pod) -> list[Found]:
        """The credentials for an image, those of the most specific patterns first. Never raises: see the module."""
        if not any(image_globs.matches(pattern, image) for pattern in self.provider.match_images):
            return []
        asked = await self._for_account(pod)
        if asked is None:
            return []
        auth = self._cached(image, asked.key)
        if auth is None:
            answer = await self._ask_once(image, asked)
            auth = self._keep(image, asked.key, answer) if answer is not None else {}
        fitting = sorted((pattern for pattern in auth if image_globs.matches(pattern, image)), reverse=True)
        return [Found(auth[pattern], account=asked.account) for pattern in fitting]

    async def _for_account(self, pod: Pod) -> _Asked | None:
        """None: the program is not to be asked for this pod."""
        tokens = self.provider.tokens
        if tokens is None:
            return _Asked()
        namespace, name = namespace_of(pod), str(pods.spec_of(pod).get("serviceAccountName") or "")
        if not name:
            return None if tokens.require_account else _Asked()
        try:
            account = await self.accounts.get(namespace, name)
            given = annotations_of(account)
            if any(key not in given for key in tokens.required):
                return None  # how a workload says whether it wants this
            told = {key: given[key] for key in (*tokens.required, *tokens.optional) if key in given}
            bound = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
            spec = {"audiences": [tokens.audience], "boundObjectRef": bound}
            token = str((await self.accounts.token(namespace, name, spec))["status"]["token"])
        except (StatusError, OSError, KeyError) as error:
            _log.error("Cannot get a service account's token for a credential provider", account=f"{namespace}/{name}", err=error)
            return None
        key = json.dumps([namespace, name, uid_of(account), sorted(told.items())])
        if tokens.cache_per_token:
            key += hashlib.sha256(token.encode()).hexdigest()
        return _Asked(token, told, Account(uid_of(account), namespace, name), key)

    def _cached(self, image: str, account_key: str) -> Auth | None:
        now = self.clock.monotonic()
        if now - self._purged_at > _PURGE:
            self._kept = {key: entry for key, entry in self._kept.items() if entry[0] > now}
            self._purged_at = now
        for base in (image, registry_of(image), _GLOBAL):
            until, auth = self._kept.get((base, account_key), (0.0, {}))
            if until > now:
                return auth
        return None

    def _keep(self, image: str, account_key: str, answer: Answer) -> Auth:
        duration = self.provider.default_duration if answer.duration is None else answer.duration
        base = {"Image": image, "Registry": registry_of(image), "Global": _GLOBAL}[answer.key_type]
        if duration > 0:
            self._kept[base, account_key] = (self.clock.monotonic() + duration, answer.auth)
        return answer.auth

    async def _ask_once(self, image: str, asked: _Asked) -> Answer | None:
        """Several that want the same at the same time share one run."""
        key = (image, hashlib.sha256(f"{asked.token}{asked.key}".encode()).hexdigest())
        if (running := self._running.get(key)) is not None:
            return await asyncio.shield(running)
        future = self._running[key] = asyncio.get_running_loop().create_future()
        answer: Answer | None = None
        try:
            answer = await self._ask(image, asked)
        except (ProcessError, AnswerError) as error:
            said = error if isinstance(error, AnswerError) else _without_output(error)
            _log.error(
                "Failed getting credential from external registry credential provider", plugin=self.provider.name, err=said
            )
        finally:
            del self._running[key]
            future.set_result(answer)
        return answer

    async def _ask(self, image: str, asked: _Asked) -> Answer:
        began = self.clock.monotonic()
        try:
            done = await self.runner.run(
                [str(self.program), *self.provider.args],
                stdin=request(self.provider.api_version, image, asked.token, asked.annotations),
                timeout=TIMEOUT,
                env=dict(self.provider.env),
                max_output=_LARGEST,
            )
        except ProcessError:
            self.metrics.failed(self.provider.name)
            raise
        finally:
            self.metrics.took(self.provider.name, self.clock.monotonic() - began)
        return parse_answer(done.stdout, self.provider.api_version)


@dataclass(frozen=True, slots=True)
class Plugins:
    """All programs, in the order of their names, as upstream asks them."""

    plugins: tuple[Plugin, ...] = ()

    async def credentials(self, image: str, pod: Pod) -> list[Found]:
        found: list[Found] = []
        for plugin in self.plugins:
            found += await plugin.credentials(image, pod)
        return found


class PluginMetrics:
    """Upstream's two metrics."""

    def __init__(self, registry: Registry) -> None:
        name = "kubelet_credential_provider_plugin"
        self._errors = registry.counter(
            f"{name}_errors_total", "Number of errors from credential provider plugin", ("plugin_name",)
        )
        self._duration = registry.histogram(
            f"{name}_duration_seconds", "Duration of execution in seconds for credential provider plugin", ("plugin_name",)
        )

    def failed(self, plugin: str) -> None:
        self._errors.labels(plugin).inc()

    def took(self, plugin: str, seconds: float) -> None:
        self._duration.labels(plugin).observe(seconds)


def request(version: str, image: str, token: str, annotations: Mapping[str, str]) -> bytes:
    """A CredentialProviderRequest. Pure."""
    body: dict[str, Any] = {"kind": "CredentialProviderRequest", "apiVersion": version, "image": image}
    if version.endswith("/v1"):
        if token:
            body["serviceAccountToken"] = token
        if annotations:
            body["serviceAccountAnnotations"] = dict(annotations)
    return json.dumps(body).encode()


def parse_answer(data: bytes, version: str) -> Answer:
    """A CredentialProviderResponse. Raises AnswerError. Pure."""
    try:
        document = json.loads(data)
        found, kind = str(document.get("apiVersion") or ""), str(document.get("kind") or "")
    except (ValueError, AttributeError):
        raise AnswerError("error decoding credential provider plugin response from stdout") from None
    if found != version:
        text = "apiVersion from credential plugin response did not match expected apiVersion"
        raise AnswerError(f"{text}:{version}, actual apiVersion:{found[:100]}")
    if kind != "CredentialProviderResponse":
        raise AnswerError("error decoding credential provider plugin response from stdout")
    key_type = document.get("cacheKeyType")
    if key_type not in ("Image", "Registry", "Global"):
        raise AnswerError(f'credential provider plugin did not return a valid cacheKeyType: "{str(key_type or "")[:100]}"')
    try:
        duration = document.get("cacheDuration")
        auth = {
            str(pattern): Credential(str(each.get("username") or ""), str(each.get("password") or ""))
            for pattern, each in (document.get("auth") or {}).items()
        }
        return Answer(key_type, None if duration is None else parse_duration(str(duration)), auth)
    except (ValueError, AttributeError):
        raise AnswerError("error decoding credential provider plugin response from stdout") from None


def registry_of(image: str) -> str:
    """What stands before the first slash, with its port."""
    return image.partition("/")[0]


def _without_output(error: ProcessError) -> str:
    if error.completed is not None:
        return f"exit status {error.completed.returncode}"
    return "it could not be started, or did not end in time"
