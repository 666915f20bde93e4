"""The contract of everything that turns a value into its stored form and back.

Contract suite: ``tests/contract/test_transformers.py``.
``transformers`` builds them from an EncryptionConfiguration; ``backend`` calls them for each value of an encrypted resource.
"""

from typing import Protocol

from controlplane.apiserver.storage.interface import UnreadableError


class TransformError(UnreadableError):
    """A value cannot be turned; the text says why, in upstream's words, and never holds any of the value."""


class KeyUnavailableError(TransformError):
    """The key cannot be had now: a KMS plugin does not answer. Trying again may help.

    ``status`` is the name of the gRPC status, if that is why.
    """

    def __init__(self, text: str, status: str = "") -> None:
        super().__init__(text)
        self.status = status


class Transformer(Protocol):
    """Values to and from their stored form. ``key`` is the storage key, which authenticating ciphers bind the value to.

    What ``to_storage`` makes, ``from_storage`` gives back; no two calls make the same bytes, unless nothing is encrypted.
    """

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        """The value, and whether it is stale: written in a form that ``to_storage`` would not use now. Raises TransformError."""
        ...

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        """The form to store. Raises TransformError."""
        ...
