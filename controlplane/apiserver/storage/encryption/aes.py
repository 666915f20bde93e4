"""AES at rest: GCM (``aesgcm``), CBC (``aescbc``), and GCM under a key derived for each value, which KMS v2 uses.

Formats are upstream's (k8s.io/apiserver ``pkg/storage/value/encrypt/aes``): nonce or IV first; GCM authenticates the storage key,
CBC does not. ``cryptography`` does the work.
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from controlplane.apiserver.storage.encryption.interface import TransformError

KEY_SIZES = (16, 24, 32)
SEED_SIZE = 32
_NONCE, _BLOCK, _INFO = 12, 16, 32
_SHORT = "the stored data was shorter than the required size"


class Gcm:
    """See ``Transformer``. Nonces are random, so a key must not serve more than some billions of writes."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        return self.open(data, key), False

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        return self.seal(data, key)

    def open(self, data: bytes, key: bytes) -> bytes:
        if len(data) < _NONCE:
            raise TransformError(_SHORT)
        try:
            return self._cipher.decrypt(data[:_NONCE], data[_NONCE:], key)
        except InvalidTag:
            raise TransformError("cipher: message authentication failed") from None

    def seal(self, data: bytes, key: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, key)


class DerivedGcm:
    """See ``Transformer``. Each value has a key of its own, ``HKDF-Expand(seed, info)``; ``info`` is random and stored first.

    So a seed never wears out, and may serve over restarts.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) < SEED_SIZE:
            raise TransformError(f"invalid seed length {len(seed)} used for key generation")
        self._seed = seed

    def _cipher(self, info: bytes) -> Gcm:
        return Gcm(HKDFExpand(SHA256(), 32, info).derive(self._seed))

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        if len(data) < _INFO:
            raise TransformError(_SHORT)
        return self._cipher(data[:_INFO]).open(data[_INFO:], key), False

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        info = os.urandom(_INFO)
        return info + self._cipher(info).seal(data, key)


class Cbc:
    """See ``Transformer``. Authenticates nothing: for values that older clusters wrote; upstream advises against it."""

    def __init__(self, key: bytes) -> None:
        self._algorithm = algorithms.AES(key)

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        if len(data) < _BLOCK:
            raise TransformError(_SHORT)
        if len(data) % _BLOCK:
            raise TransformError("the stored data is not a multiple of the block size")
        decryptor = Cipher(self._algorithm, modes.CBC(data[:_BLOCK])).decryptor()
        padded = decryptor.update(data[_BLOCK:]) + decryptor.finalize()
        length = padded[-1] if padded else 0
        if not 0 < length <= min(_BLOCK, len(padded)) or padded[-length:] != bytes([length]) * length:
            raise TransformError("invalid padding on input")
        return padded[:-length], False

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        vector = os.urandom(_BLOCK)
        length = _BLOCK - len(data) % _BLOCK
        encryptor = Cipher(self._algorithm, modes.CBC(vector)).encryptor()
        return vector + encryptor.update(data + bytes([length]) * length) + encryptor.finalize()
