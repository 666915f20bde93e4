"""From an EncryptionConfiguration file to the transformer of each resource, exchanged as a whole when the file changes.

``assembly.storage`` opens one Encryption and gives its :meth:`choose` to ``backend.EncryptedBackend``; ``assembly.server`` runs
:meth:`run` and adds :meth:`check` to the health checks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from component import logs
from component.clock import Clock, RealClock
from component.reloads import Reloads
from controlplane.apiserver.storage.encryption import config
from controlplane.apiserver.storage.encryption.config import EncryptionConfigError, Provider, Rule
from controlplane.apiserver.storage.encryption.identity import Identity
from controlplane.apiserver.storage.encryption.interface import Transformer, TransformError
from controlplane.apiserver.storage.encryption.measured import Measured, Measures
from controlplane.apiserver.storage.encryption.prefix import Prefixed, PrefixTransformers

if TYPE_CHECKING:
    from controlplane.apiserver.storage.encryption.kms import Kms

LOOK_SECONDS = 10.0  # between two looks at the file and at the plugins
PRIME_SECONDS, PRIME_PAUSE = 60.0, 3.0  # how long the start waits for KMS plugins, and between two questions
# Keys that hold no objects: no API would ever write them again under another key. Upstream encrypts none of them either.
_BOOKKEEPING = frozenset({"", "ranges", "masterleases"})
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Providers:
    """What one configuration was made into."""

    by_resource: dict[str, Transformer]
    plugins: list["Kms"] = field(default_factory=list)

    def of(self, resource: str) -> Transformer | None:
        """By upstream's order: the resource itself, its group, everything; else values are stored as they are."""
        group = resource.partition(".")[2]
        if resource in _BOOKKEEPING or group == "pybernetes.io":
            return None
        found = self.by_resource
        return found.get(resource) or found.get(f"*.{group}") or found.get("*.*")

    async def close(self) -> None:
        for plugin in self.plugins:
            await plugin.close()


def build(rules: Sequence[Rule], clock: Clock, measures: Measures | None = None) -> Providers:
    """Make the transformers of a checked configuration. Must be called on the loop that will use them."""
    lists: dict[str, list[Prefixed]] = {}
    plugins: list[Kms] = []
    measures = measures or Measures()
    for rule in rules:
        made = [_measured(_made(provider, clock, plugins, measures), measures) for provider in rule.providers]
        for resource in rule.resources:
            lists.setdefault(resource, []).extend(made)
    return Providers({name: PrefixTransformers(made, "no matching prefix found") for name, made in lists.items()}, plugins)


def _measured(made: Prefixed, measures: Measures) -> Prefixed:
    return Prefixed(made.prefix, Measured(made.transformer, made.prefix or b"identity", measures))


def _made(provider: Provider, clock: Clock, plugins: list["Kms"], measures: Measures) -> Prefixed:
    if provider.kind == "identity":
        return Prefixed(b"", Identity())
    if provider.kind == "kms":
        # gRPC costs 20 MB, ciphers some: only for those who use them
        from controlplane.apiserver.storage.encryption.kms import Kms
        from controlplane.apiserver.storage.encryption.kms_service import GrpcService

        plugin = Kms(provider.name, GrpcService(provider.endpoint, provider.timeout), clock, measures)
        plugins.append(plugin)
        return Prefixed(f"k8s:enc:kms:v2:{provider.name}:".encode(), plugin)
    family = "Secretbox" if provider.kind == "secretbox" else "AES"
    keys = [Prefixed(f"{key.name}:".encode(), _cipher(provider.kind)(key.secret)) for key in provider.keys]
    unmatched = f"no matching key was found for the provided {family} transformer"
    return Prefixed(f"k8s:enc:{provider.kind}:v1:".encode(), PrefixTransformers(keys, unmatched))


def _cipher(kind: str) -> Callable[[bytes], Transformer]:
    if kind == "secretbox":
        from controlplane.apiserver.storage.encryption.secretbox import Secretbox

        return Secretbox
    from controlplane.apiserver.storage.encryption import aes

    return aes.Gcm if kind == "aesgcm" else aes.Cbc


class Encryption:
    """The providers in effect. Made by :meth:`open`; ``close`` ends its tasks."""

    def __init__(self, path: Path, clock: Clock, providers: Providers, data: bytes, measures: Measures) -> None:
        self._path, self._clock, self._data = path, clock, data
        self._providers, self.measures = providers, measures
        measures.sources = lambda: {plugin.name: plugin.keys_held for plugin in self._providers.plugins}
        self._chosen: dict[str, Transformer | None] = {}
        self._retired: Providers | None = None
        self.catch_up: Callable[[], Awaitable[None]] | None = None  # called when what could not be read may be readable
        self.reloads = Reloads(data)

    @classmethod
    async def open(cls, path: Path, clock: Clock | None = None) -> "Encryption":
        """Read the file, and wait a while for its KMS plugins. Raises EncryptionConfigError."""
        clock = clock or RealClock()
        rules, data = await asyncio.to_thread(_read, path)
        measures = Measures()
        providers = build(rules, clock, measures)
        await _prime(providers, clock, PRIME_SECONDS)
        return cls(path, clock, providers, data, measures)

    def choose(self, resource: str) -> Transformer | None:
        """See ``backend.Choose``."""
        try:
            return self._chosen[resource]
        except KeyError:
            found = self._chosen[resource] = self._providers.of(resource)
            return found

    async def check(self) -> None:
        """The health check ``kms-providers``: raises with what each sick plugin says."""
        problems = []
        for position, plugin in enumerate(self._providers.plugins):
            try:
                await plugin.check()
            except TransformError as error:
                problems.append(f"kms-provider-{position}: {error}")
        if problems:
            raise TransformError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    async def run(self, follow_file: bool) -> None:
        """For ever: look after the plugins, and after the file (``--encryption-provider-config-automatic-reload``)."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.look(follow_file)

    async def look(self, follow_file: bool) -> None:
        if follow_file:
            await self.reload_if_changed()
        for plugin in self._providers.plugins:
            await plugin.look_after()
        if self._providers.plugins and self.catch_up is not None:
            await self.catch_up()

    async def reload_if_changed(self) -> bool:
        """Take what the file says now, if it can be used and its plugins answer; else keep what there is."""
        try:
            rules, data = await asyncio.to_thread(_read, self._path)
        except EncryptionConfigError as error:
            return self._kept(error)
        if data == self._data:
            return False
        providers = build(rules, self._clock, self.measures)
        try:
            for plugin in providers.plugins:
                await plugin.check()
        except TransformError as error:
            await providers.close()
            return self._kept(error)
        if self._retired is not None:
            await self._retired.close()
        # what is under way may still use them
        self._retired, self._providers, self._data, self._chosen = self._providers, providers, data, {}
        self.reloads.note(data)
        _log.info("Loaded new encryption config content", path=str(self._path))
        if self.catch_up is not None:
            await self.catch_up()
        return True

    def _kept(self, error: Exception) -> bool:
        self.reloads.note(None)
        _log.error("Cannot use the changed encryption config, keeping the old one", path=str(self._path), err=error)
        return False

    async def close(self) -> None:
        if self._retired is not None:
            await self._retired.close()
        await self._providers.close()


def _read(path: Path) -> tuple[tuple[Rule, ...], bytes]:
    """What the file says, and its bytes."""
    data = config.read(path)
    return config.parse(data, str(path)), data


async def _prime(providers: Providers, clock: Clock, seconds: float) -> None:
    """Wait until every plugin has answered, or for ``seconds``: then the server starts without, and reading will say why."""
    deadline = clock.monotonic() + seconds
    for plugin in providers.plugins:
        while True:
            try:
                await plugin.check()
            except TransformError as error:
                if clock.monotonic() >= deadline:
                    break
                _log.warning("Waiting for a KMS plugin", name=plugin.name, err=error)
                await clock.sleep(PRIME_PAUSE)
            else:
                break
