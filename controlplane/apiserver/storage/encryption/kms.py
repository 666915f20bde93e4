"""The provider ``kms``, version 2: envelope encryption under a key that only a plugin knows.

Values are encrypted under keys derived from a *seed* (``aes.DerivedGcm``); the plugin encrypts the seed, which is stored
beside each value. One seed serves until the plugin reports another key id, so that writing costs no call. Rules and intervals are
upstream's (k8s.io/apiserver ``pkg/server/options/encryptionconfig`` and ``pkg/storage/value/encrypt/envelope/kmsv2``): reading
goes on for ever with what is known, writing for three minutes after the last good answer.

``transformers`` makes a Kms per provider and calls :meth:`Kms.look_after` every few seconds.
"""

import hashlib
import os
import re
import time
import uuid
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from google.protobuf.message import DecodeError

from component import logs
from component.clock import Clock
from controlplane.apiserver.storage.encryption.aes import SEED_SIZE, DerivedGcm, Gcm
from controlplane.apiserver.storage.encryption.api import kms_v2_pb2
from controlplane.apiserver.storage.encryption.interface import KeyUnavailableError, Transformer, TransformError
from controlplane.apiserver.storage.encryption.kms_service import Encrypted, Service, Status
from controlplane.apiserver.storage.encryption.measured import FROM, TO, Measures

POLL_SECONDS, RETRY_SECONDS = 60.0, 10.0  # between two looks at the plugin: when it is well, when it is not
WRITE_SECONDS = 180.0  # how long a seed may be used for writing after the last good answer
HEALTHY_SECONDS, FAILED_SECONDS = 20.0, 3.0  # how long a health check repeats the last answer
KEYS_HELD = 1_000  # decrypted seeds; one per key id and start of a server would do
_MAX_SOURCE, _MAX_KEY_ID, _MAX_ANNOTATIONS = 1024, 1024, 32 * 1024
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})+")

_log = logs.get(__name__)
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class _State:
    """What values are written with."""

    transformer: Transformer
    source: Encrypted
    expires: float  # monotonic


class Kms:
    """See ``Transformer``. ``check`` is the health check of this provider."""

    def __init__(self, name: str, service: Service, clock: Clock, measures: Measures | None = None) -> None:
        self.name = name
        self._service, self._clock, self._measures = service, clock, measures or Measures()
        self._state: _State | None = None
        self._known: dict[object, Transformer] = {}
        self._version = ""
        self._answered = float("-inf")
        self._failure: str | None = None

    # ------------------------------------------------------------------ values

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        stored, state = _decode(data), await self._ready()
        self._measures.key_used(FROM, self.name, key_hash(stored.keyID))
        source = Encrypted(stored.encryptedDEKSource, stored.keyID, dict(stored.annotations))
        transformer = await self._transformer(stored.encryptedDEKSourceType, source)
        value, stale = await transformer.from_storage(stored.encryptedData, key)
        derived = stored.encryptedDEKSourceType == kms_v2_pb2.HKDF_SHA256_XNONCE_AES_GCM_SEED
        return value, stale or not derived or stored.keyID != state.source.key_id

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        state = await self._ready()
        if self._clock.monotonic() > state.expires:
            raise KeyUnavailableError(f'encryptedDEKSource with keyID hash "{key_hash(state.source.key_id)}" expired')
        self._measures.key_used(TO, self.name, key_hash(state.source.key_id))
        stored = _object(state.source, await state.transformer.to_storage(data, key))
        encoded: bytes = stored.SerializeToString(deterministic=True)
        return encoded

    async def _ready(self) -> _State:
        """What the plugin last said; it is asked as long as it has said nothing. Raises KeyUnavailableError."""
        if self._state is None:
            await self.check()
        if self._state is None:
            raise KeyUnavailableError("got unexpected nil transformer")
        return self._state

    async def _transformer(self, kind: int, source: Encrypted) -> Transformer:
        """For a stored source: remembered, or decrypted by the plugin."""
        remembered = _cache_key(kind, source)
        if (known := self._known.get(remembered)) is not None:
            return known
        self._measures.missed()
        try:
            secret = await self._measured("Decrypt", self._service.decrypt(str(uuid.uuid4()), source))
        except KeyUnavailableError as error:
            raise KeyUnavailableError(f"failed to decrypt DEK, error: {error}", error.status) from None
        derived = kind == kms_v2_pb2.HKDF_SHA256_XNONCE_AES_GCM_SEED
        try:
            transformer: Transformer = DerivedGcm(secret) if derived else Gcm(secret)
        except ValueError as error:
            raise TransformError(str(error)) from None
        self._remember(remembered, transformer)
        return transformer

    async def _measured(self, method: str, call: Awaitable[_Answer]) -> _Answer:
        begun, failure = time.perf_counter(), None
        try:
            return await call
        except KeyUnavailableError as error:
            failure = error
            raise
        finally:
            name = f"/v2.KeyManagementService/{method}"
            self._measures.called(self.name, name, time.perf_counter() - begun, failure)

    @property
    def keys_held(self) -> int:
        return len(self._known)

    def _remember(self, remembered: object, transformer: Transformer) -> None:
        if len(self._known) >= KEYS_HELD:
            del self._known[next(iter(self._known))]
        self._known[remembered] = transformer

    # ------------------------------------------------------------------ the plugin

    async def look_after(self) -> None:
        """Check when it is time to: once a minute, every ten seconds while something is wrong. Called at least as often."""
        if self._clock.monotonic() - self._answered < (POLL_SECONDS if self._failure is None else RETRY_SECONDS):
            return
        try:
            await self.check()
        except TransformError as error:
            _log.error("kms plugin failed health check probe", name=self.name, err=error)

    async def check(self) -> None:
        """Ask the plugin how it is and which key it uses, unless that was done a moment ago. Raises KeyUnavailableError."""
        now = self._clock.monotonic()
        if now - self._answered < (HEALTHY_SECONDS if self._failure is None else FAILED_SECONDS):
            if self._failure is not None:
                raise KeyUnavailableError(self._failure)
            return
        try:
            await self._look()
        except TransformError as error:
            self._failure, self._answered = str(error), self._clock.monotonic()
            raise
        self._failure, self._answered = None, self._clock.monotonic()

    async def _look(self) -> None:
        try:
            status = await self._measured("Status", self._service.status())
        except KeyUnavailableError as error:
            text = f"failed to perform status section of the healthz check for KMS Provider {self.name}, error: {error}"
            raise KeyUnavailableError(text) from None
        problems = self._complaints(status)
        if (wrong := key_id_problem(status.key_id)) is not None:
            self._measures.invalid_key(self.name, "too_long" if status.key_id else "empty")
            problems.append(f'got invalid KMSv2 KeyID hash "{key_hash(status.key_id)}": {wrong}')
        else:
            self._measures.key_told(self.name, key_hash(status.key_id))
            if (failed := await self._rotate(status.key_id)) is not None:
                problems.append(failed)
        if problems:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise KeyUnavailableError(f"kmsv2 Provider {self.name} is not healthy, error: {text}")

    def _complaints(self, status: Status) -> list[str]:
        problems = []
        if status.healthz != "ok":
            problems.append(f"got unexpected healthz status: {status.healthz}")
        if status.version not in ("v2", "v2beta1"):
            problems.append(f"expected KMSv2 API version v2, got {status.version}")
        else:
            self._version = self._version or status.version
            if self._version != status.version:
                said = "KMSv2 API version should not change after the initial status response version"
                problems.append(f"{said} {self._version}, got {status.version}")
        return problems

    async def _rotate(self, key_id: str) -> str | None:
        """Prolong the seed if the plugin's key is the same, else make a new one. Returns what went wrong."""
        expires = self._clock.monotonic() + WRITE_SECONDS  # from before the call, so that it is an upper bound
        state = self._state
        if state is not None and state.source.key_id == key_id:
            self._state = replace(state, expires=expires)
            return None
        uid, seed = str(uuid.uuid4()), os.urandom(SEED_SIZE)
        problem, source = "<nil>", Encrypted(b"", "")
        begun = time.perf_counter()
        try:
            source = await self._measured("Encrypt", self._service.encrypt(uid, seed))
            _validate(_object(source, b"\0"))
        except TransformError as error:
            problem = f"failed to encrypt DEK, error: {error}"
        self._measures.generated(time.perf_counter() - begun, problem != "<nil>")
        if problem == "<nil>" and source.key_id == key_id:
            made = DerivedGcm(seed)
            self._state = _State(made, source, expires)
            self._remember(_cache_key(kms_v2_pb2.HKDF_SHA256_XNONCE_AES_GCM_SEED, source), made)
            _log.info("Rotated the seed of a KMS provider", name=self.name, keyIDHash=key_hash(key_id))
            return None
        hashes = f'statusKeyIDHash="{key_hash(key_id)}", encryptKeyIDHash="{key_hash(source.key_id)}"'
        return f'failed to rotate DEK uid="{uid}", useSeed=true, errGen={problem}, {hashes}'

    async def close(self) -> None:
        await self._service.close()


def key_hash(key_id: str) -> str:
    """How a key id appears in messages."""
    return f"sha256:{hashlib.sha256(key_id.encode()).hexdigest()}" if key_id else ""


def key_id_problem(key_id: str) -> str | None:
    if not key_id:
        return "keyID is empty"
    size = len(key_id.encode())
    return f"keyID is {size} bytes, which exceeds the max size of {_MAX_KEY_ID}" if size > _MAX_KEY_ID else None


def _object(source: Encrypted, data: bytes) -> kms_v2_pb2.EncryptedObject:
    return kms_v2_pb2.EncryptedObject(
        encryptedData=data,
        keyID=source.key_id,
        encryptedDEKSource=source.ciphertext,
        annotations=dict(source.annotations),
        encryptedDEKSourceType=kms_v2_pb2.HKDF_SHA256_XNONCE_AES_GCM_SEED,
    )


def _decode(data: bytes) -> kms_v2_pb2.EncryptedObject:
    try:
        stored = kms_v2_pb2.EncryptedObject.FromString(data)
    except DecodeError as error:
        raise TransformError(f"proto: {error}") from None
    _validate(stored)
    return stored


def _validate(stored: kms_v2_pb2.EncryptedObject) -> None:
    """Raise TransformError for what upstream would not store or read."""
    if stored.encryptedDEKSourceType not in (kms_v2_pb2.AES_GCM_KEY, kms_v2_pb2.HKDF_SHA256_XNONCE_AES_GCM_SEED):
        raise TransformError(f"unknown encryptedDEKSourceType: {stored.encryptedDEKSourceType}")
    if not stored.encryptedData:
        raise TransformError("encrypted data is empty")
    size = len(stored.encryptedDEKSource)
    if not size:
        raise TransformError("failed to validate encrypted DEK source: encrypted DEK source is empty")
    if size > _MAX_SOURCE:
        why = f"encrypted DEK source is {size} bytes, which exceeds the max size of {_MAX_SOURCE}"
        raise TransformError(f"failed to validate encrypted DEK source: {why}")
    if (wrong := key_id_problem(stored.keyID)) is not None:
        raise TransformError(f"failed to validate key id: {wrong}")
    if (wrong := _annotations_problem(stored.annotations)) is not None:
        raise TransformError(f"failed to validate annotations: {wrong}")


def _annotations_problem(annotations: Mapping[str, bytes]) -> str | None:
    for name in annotations:
        if len(name) > 253 or not _DOMAIN.fullmatch(name):
            return f'annotations: Invalid value: "{name}": should be a domain with at least two segments separated by dots'
    size = sum(len(name.encode()) + len(value) for name, value in annotations.items())
    return (
        f"total size of annotations is {size}, which exceeds the max size of {_MAX_ANNOTATIONS}"
        if size > _MAX_ANNOTATIONS
        else None
    )


def _cache_key(kind: int, source: Encrypted) -> object:
    return kind, source.ciphertext, source.key_id, tuple(sorted(source.annotations.items()))
