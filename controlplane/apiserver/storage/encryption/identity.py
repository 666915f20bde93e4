"""The provider ``identity``: values as they are. It refuses to hand out an encrypted value as if it were one."""

from controlplane.apiserver.storage.encryption.interface import TransformError
from controlplane.apiserver.storage.interface import UNREADABLE


class Identity:
    """See ``Transformer``."""

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        if data.startswith(UNREADABLE):
            raise TransformError("identity transformer tried to read encrypted data")
        return data, False

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        return data
