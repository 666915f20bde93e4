"""A certificate and its key in one file, exchanged atomically: upstream's layout, so that either kubelet finds the other's.

``NAME-2026-11-30-12-00-00.pem`` holds certificate and key; ``NAME-current.pem`` is a link to the one in use. Used by
``bootstrap`` and ``rotation``; TLS reads the link.
"""

import contextlib
import os
from datetime import datetime
from pathlib import Path

from component import x509
from component.x509 import KeyPair, write_private

_KEEP = 3  # the one in use and some to look back at


class CertificateStore:
    """Blocks on the disk: call it from a thread."""

    def __init__(self, folder: Path, name: str) -> None:
        """``name`` is ``kubelet-client`` or ``kubelet-server``."""
        self._folder, self._name = folder, name

    @property
    def path(self) -> Path:
        """What TLS and kubeconfigs are given."""
        return self._folder / f"{self._name}-current.pem"

    def current(self) -> KeyPair | None:
        """What is in use; None when there is nothing, or nothing that can be used."""
        try:
            pair = split(self.path.read_bytes())
        except (OSError, ValueError):
            return None
        return pair if x509.is_pair(pair) else None

    def update(self, pair: KeyPair, now: datetime) -> None:
        """Put another pair into use. Killed at any moment, either the old or the new one is complete and in use.

        :raises ValueError: when key and certificate do not belong together.
        """
        if not x509.is_pair(pair):
            raise ValueError("the key does not belong to the certificate")
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = self._folder / f"{self._name}-{now:%Y-%m-%d-%H-%M-%S}.pem"
        count = 0
        while target.exists():  # twice within a second
            count += 1
            target = self._folder / f"{self._name}-{now:%Y-%m-%d-%H-%M-%S}-{count}.pem"
        write_private(target, pair.certificate.rstrip(b"\n") + b"\n" + pair.key)
        link = self._folder / f"{self._name}-updated.pem"
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        os.replace(link, self.path)
        self._prune(target)

    def _prune(self, current: Path) -> None:
        dated = [path for path in self._folder.glob(f"{self._name}-[0-9]*.pem") if path != current]
        for path in sorted(dated, key=lambda one: one.stat().st_mtime, reverse=True)[_KEEP - 1 :]:
            with contextlib.suppress(OSError):
                path.unlink()


def split(data: bytes) -> KeyPair:
    """Certificates and key of one PEM file. Raises ValueError when either is missing."""
    certificates: list[bytes] = []
    keys: list[bytes] = []
    for block in data.split(b"-----BEGIN ")[1:]:
        (keys if block.split(b"-----", 1)[0].endswith(b"PRIVATE KEY") else certificates).append(b"-----BEGIN " + block)
    if not certificates or not keys:
        raise ValueError("needs a certificate and its key")
    return KeyPair(b"".join(certificates), keys[0])
