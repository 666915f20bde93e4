"""Keys as storage names them (``/registry/...``) and as they are in etcd, under the prefix that was asked for. Pure."""

from controlplane.apiserver.storage.backends.etcd.config import DEFAULT_PREFIX

WHOLE = b"\0"  # as a key: the first one; as the end of a range: no end
COMPACT_KEY = b"compact_rev_key"  # upstream's: its version counts compactions, its value is the last compacted revision


class Keys:
    """With the default prefix both are the same, so that other tools' keys are told apart by nothing but their names."""

    def __init__(self, prefix: str = DEFAULT_PREFIX) -> None:
        self.root = prefix.rstrip("/").encode()
        self._same = self.root == DEFAULT_PREFIX.encode()

    def outer(self, key: str) -> bytes:
        return key.encode() if self._same else self.root + key.removeprefix(DEFAULT_PREFIX).encode()

    def inner(self, key: bytes) -> str:
        if self._same:
            return key.decode(errors="surrogateescape")
        if key.startswith(self.root + b"/"):
            return DEFAULT_PREFIX + key[len(self.root) :].decode(errors="surrogateescape")
        return ""  # another cluster's

    def span(self, prefix: str) -> tuple[bytes, bytes]:
        """First key and end of everything with ``prefix``."""
        if not prefix:
            return (WHOLE, WHOLE) if self._same else (self.root + b"/", end_of(self.root + b"/"))
        first = self.outer(prefix)
        return first, end_of(first)


def end_of(prefix: bytes) -> bytes:
    """The first key after all those with ``prefix``; ``WHOLE`` when there is no such bound."""
    for at in range(len(prefix) - 1, -1, -1):
        if prefix[at] < 0xFF:
            return prefix[:at] + bytes([prefix[at] + 1])
    return WHOLE
