"""A real KMS v2 plugin for tests: gRPC on a unix socket, AES-GCM under named keys that the test rotates.

async with running_plugin(folder / "kms.sock") as plugin:
    plugin.rotate("key-2")
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from controlplane.apiserver.storage.encryption.api import kms_v2_pb2, kms_v2_pb2_grpc


@dataclass
class Plugin(kms_v2_pb2_grpc.KeyManagementServiceServicer):
    """``keys`` by key id; ``calls`` counts by name. A key that was removed cannot decrypt any more."""

    socket: Path
    keys: dict[str, AESGCM] = field(default_factory=dict)
    current: str = ""
    healthz: str = "ok"
    calls: dict[str, int] = field(default_factory=dict)

    def rotate(self, key_id: str) -> None:
        self.keys.setdefault(key_id, AESGCM(AESGCM.generate_key(256)))
        self.current = key_id

    async def Status(self, request: Any, context: Any) -> Any:
        self._count("Status")
        return kms_v2_pb2.StatusResponse(version="v2", healthz=self.healthz, key_id=self.current)

    async def Encrypt(self, request: Any, context: Any) -> Any:
        self._count("Encrypt")
        nonce = os.urandom(12)
        sealed = nonce + self.keys[self.current].encrypt(nonce, request.plaintext, None)
        where = {"kms.example.com": b"test"}
        return kms_v2_pb2.EncryptResponse(ciphertext=sealed, key_id=self.current, annotations=where)

    async def Decrypt(self, request: Any, context: Any) -> Any:
        self._count("Decrypt")
        if request.key_id not in self.keys or request.annotations.get("kms.example.com") != b"test":
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no key {request.key_id}")
        plaintext = self.keys[request.key_id].decrypt(request.ciphertext[:12], request.ciphertext[12:], None)
        return kms_v2_pb2.DecryptResponse(plaintext=plaintext)

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1


@asynccontextmanager
async def running_plugin(socket: Path, plugin: Plugin | None = None) -> AsyncIterator[Plugin]:
    """``plugin`` takes up an older one with its keys."""
    served = plugin or Plugin(socket)
    if not served.keys:
        served.rotate("key-1")
    server = grpc.aio.server()
    kms_v2_pb2_grpc.add_KeyManagementServiceServicer_to_server(served, server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield served
    finally:
        await server.stop(None)
