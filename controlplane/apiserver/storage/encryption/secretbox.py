"""The provider ``secretbox``: XSalsa20 and Poly1305 through libsodium (PyNaCl), as upstream's: a random nonce, then the box.

Its nonces are long enough to be random for ever. The storage key is not authenticated.
"""

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from controlplane.apiserver.storage.encryption.interface import TransformError

KEY_SIZES = (SecretBox.KEY_SIZE,)
_OVERHEAD = SecretBox.NONCE_SIZE + SecretBox.MACBYTES


class Secretbox:
    """See ``Transformer``."""

    def __init__(self, key: bytes) -> None:
        self._box = SecretBox(key)

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        if len(data) < _OVERHEAD:
            raise TransformError("the stored data was shorter than the required size")
        try:
            return self._box.decrypt(data), False
        except CryptoError:
            raise TransformError("the stored data cannot be authenticated: it was damaged, or written with another key") from None

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        return bytes(self._box.encrypt(data))
