"""A KMS plugin over its unix socket: the three calls of ``api/kms_v2.proto``. ``kms`` decides when to make them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import grpc.aio

from component.local_grpc import local_channel
from controlplane.apiserver.storage.encryption.api import kms_v2_pb2, kms_v2_pb2_grpc
from controlplane.apiserver.storage.encryption.interface import KeyUnavailableError


@dataclass(frozen=True, slots=True)
class Status:
    version: str
    healthz: str
    key_id: str


@dataclass(frozen=True, slots=True)
class Encrypted:
    """A secret of ours as the plugin returned it. ``key_id`` and ``annotations`` go back with it for decryption."""

    ciphertext: bytes
    key_id: str
    annotations: Mapping[str, bytes] = field(default_factory=dict)


class Service(Protocol):
    """See upstream's "KMS v2 API". Each call raises KeyUnavailableError when it fails."""

    async def status(self) -> Status: ...

    async def encrypt(self, uid: str, plaintext: bytes) -> Encrypted: ...

    async def decrypt(self, uid: str, encrypted: Encrypted) -> bytes: ...

    async def close(self) -> None: ...


class GrpcService:
    """See ``Service``. Make it inside the event loop that will use it."""

    def __init__(self, endpoint: str, timeout: float) -> None:
        """``endpoint`` is ``unix:///path``, or ``unix:///@name`` (an abstract socket); ``timeout``: seconds for each call."""
        path = endpoint.removeprefix("unix://")
        target = f"unix-abstract:{path[2:]}" if path.startswith("/@") else f"unix:{path}"
        self._channel = local_channel(target)
        make_stub: Any = kms_v2_pb2_grpc.KeyManagementServiceStub  # generated without types
        self._stub = make_stub(self._channel)
        self._timeout = timeout

    async def _call(self, method: Callable[..., Awaitable[Any]], request: Any) -> Any:
        try:
            return await method(request, timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            name = "".join(part.capitalize() for part in error.code().name.split("_"))
            raise KeyUnavailableError(f"rpc error: code = {name} desc = {error.details()}", name) from None

    async def status(self) -> Status:
        answer = await self._call(self._stub.Status, kms_v2_pb2.StatusRequest())
        return Status(answer.version, answer.healthz, answer.key_id)

    async def encrypt(self, uid: str, plaintext: bytes) -> Encrypted:
        answer = await self._call(self._stub.Encrypt, kms_v2_pb2.EncryptRequest(plaintext=plaintext, uid=uid))
        return Encrypted(answer.ciphertext, answer.key_id, dict(answer.annotations))

    async def decrypt(self, uid: str, encrypted: Encrypted) -> bytes:
        request = kms_v2_pb2.DecryptRequest(
            ciphertext=encrypted.ciphertext, uid=uid, key_id=encrypted.key_id, annotations=dict(encrypted.annotations)
        )
        plaintext: bytes = (await self._call(self._stub.Decrypt, request)).plaintext
        return plaintext

    async def close(self) -> None:
        await self._channel.close()
