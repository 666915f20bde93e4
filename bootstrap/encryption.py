"""The EncryptionConfiguration of a new cluster: Secrets under a key of its own. Called by ``cli up``.

The key lies beside the other private keys, so whoever gets the database file alone (a copy, a backup) gets no Secret.
``identity`` comes last, for Secrets that were written before there was a key.
"""

import base64
import os
from pathlib import Path

import yaml

from component.x509 import write_private

RESOURCES = ("secrets",)


def ensure_encryption_config(path: Path) -> bool:
    """Write the file (0600) unless it exists; whether it was made. A key that is lost cannot be made again."""
    if path.exists():
        return False
    key = {"name": "key1", "secret": base64.b64encode(os.urandom(32)).decode()}
    rule = {"resources": list(RESOURCES), "providers": [{"secretbox": {"keys": [key]}}, {"identity": {}}]}
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]}
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
    return True
