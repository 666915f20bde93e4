"""A finished OpenAPI document. They are large and read rarely, so what stays in memory is compressed."""

import gzip
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """``packed`` can be sent as it is to clients that accept gzip; ``body()`` unpacks it for the others."""

    packed: bytes
    etag: str
    content_type: str

    def body(self) -> bytes:
        return gzip.decompress(self.packed)


def pack(body: bytes, content_type: str) -> Document:
    digest = hashlib.sha512(body).hexdigest().upper()
    return Document(gzip.compress(body, compresslevel=4, mtime=0), f'"{digest}"', content_type)
