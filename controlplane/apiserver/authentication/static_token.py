"""``--token-auth-file``: CSV lines of ``token,user,uid[,"group1,group2"]``. Only hashes of the tokens are kept."""

import csv
import hashlib
import hmac
from pathlib import Path

from controlplane.apiserver.authentication.interface import Credentials, UserInfo


class StaticTokens:
    def __init__(self, users: dict[bytes, UserInfo]) -> None:
        self._users = users

    @classmethod
    def load(cls, path: Path) -> "StaticTokens":
        """Raises ValueError naming the line that cannot be used; tokens are not shown."""
        with path.open(newline="") as lines:
            return cls.parse(lines.read().splitlines(), str(path))

    @classmethod
    def parse(cls, lines: list[str], source: str = "token file") -> "StaticTokens":
        users: dict[bytes, UserInfo] = {}
        for number, row in enumerate(csv.reader(lines, skipinitialspace=True), 1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3 or not row[0] or not row[1]:
                raise ValueError(f"{source}, line {number}: expected token,user,uid and optionally groups in quotes")
            groups = tuple(part.strip() for part in row[3].split(",") if part.strip()) if len(row) > 3 else ()
            users[_digest(row[0])] = UserInfo(row[1], row[2], groups)
        return cls(users)

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        if credentials.bearer_token is None:
            return None
        digest = _digest(credentials.bearer_token)
        # Every entry is compared, and in constant time: how long this takes tells nothing about any token.
        found = None
        for known, user in self._users.items():
            if hmac.compare_digest(known, digest):
                found = user
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
