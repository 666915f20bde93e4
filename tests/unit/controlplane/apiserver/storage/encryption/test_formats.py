"""Stored forms are upstream's: values that kube-apiserver v1.20.2 wrote to etcd are read, and KMS v2's is taken apart by hand.

``upstream_values.json`` was read from etcd, under ``CONFIGURATION`` and ``--storage-media-type=application/json``.
"""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from component.clock import FakeClock
from controlplane.apiserver.storage.encryption.config import parse
from controlplane.apiserver.storage.encryption.kms import Kms
from controlplane.apiserver.storage.encryption.kms_service import Encrypted, Status
from controlplane.apiserver.storage.encryption.transformers import build
from tests.support.encryption import cipher, configuration

CONFIGURATION = configuration(cipher("aesgcm", "one"), resources=["secrets"])
CONFIGURATION["resources"] += configuration(cipher("aescbc", "one"), resources=["configmaps"])["resources"]
CONFIGURATION["resources"] += configuration(cipher("secretbox", "one"), resources=["serviceaccounts"])["resources"]
VALUES: list[dict[str, str]] = json.loads((Path(__file__).parent / "upstream_values.json").read_bytes())
PREFIXES = {"secrets": "aesgcm", "configmaps": "aescbc", "serviceaccounts": "secretbox"}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value["resource"]))
async def test_what_upstream_wrote_is_read(value: dict[str, str]) -> None:
    resource, key = value["resource"], value["key"].encode()
    transformer = build(parse(json.dumps(CONFIGURATION).encode(), "x"), FakeClock()).of(resource)
    assert transformer is not None
    stored, plain = base64.b64decode(value["value"]), base64.b64decode(value["plain"])
    assert json.loads(plain)["metadata"]["name"] == "vector"
    assert await transformer.from_storage(stored, key) == (plain, False)
    ours = await transformer.to_storage(plain, key)
    prefix = f"k8s:enc:{PREFIXES[resource]}:v1:one:".encode()
    assert ours.startswith(prefix)
    assert stored.startswith(prefix)
    assert len(ours) == len(stored), "the same nonce and the same padding"


class Plugin:
    """Keeps the seed it was given."""

    seed = b""

    async def status(self) -> Status:
        return Status("v2", "ok", "id")

    async def encrypt(self, uid: str, plaintext: bytes) -> Encrypted:
        self.seed = plaintext
        return Encrypted(b"sealed", "id", {"a.b": b"c"})

    async def decrypt(self, uid: str, encrypted: Encrypted) -> bytes:
        return self.seed

    async def close(self) -> None:
        """Nothing to close."""


def fields(data: bytes) -> dict[int, Any]:
    """The fields of a protobuf message whose lengths fit into two bytes: numbers, and bytes."""
    found: dict[int, Any] = {}
    at = 0
    while at < len(data):
        number, kind = data[at] >> 3, data[at] & 7
        size, at = data[at + 1], at + 2
        if size & 0x80:
            size, at = (size & 0x7F) | data[at] << 7, at + 1
        if kind == 0:
            found[number] = size
        else:
            found[number], at = data[at : at + size], at + size
    return found


async def test_a_value_under_kms_v2_has_upstreams_fields_and_key() -> None:
    plugin, key = Plugin(), b"/registry/secrets/default/one"
    kms = Kms("plugin", plugin, FakeClock())
    await kms.check()
    found = fields(await kms.to_storage(b"value", key))
    data = found.pop(1)
    assert found == {2: b"id", 3: b"sealed", 4: b"\n\x03a.b\x12\x01c", 5: 1}
    assert len(plugin.seed) == 32
    info, nonce, box = data[:32], data[32:44], data[44:]
    derived = hmac.new(plugin.seed, info + b"\x01", hashlib.sha256).digest()  # HKDF-Expand of one block, RFC 5869
    assert AESGCM(derived).decrypt(nonce, box, key) == b"value"
