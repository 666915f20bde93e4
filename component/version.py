"""Which Kubernetes this is. Read by the API server's ``/version`` and by every daemon's metrics."""

import re
from pathlib import Path

MAJOR, MINOR = "1", "36"
GIT_VERSION = "v1.36.0+pybernetes"
COMMIT_FILE = "component/commit.txt"
"""Made by the build hook, so that an installed package knows where it came from."""

_HASH = re.compile(r"[0-9a-f]{40,64}")


def git_commit(root: Path | None = None) -> str:
    """The commit that this code is from: of the checkout it runs in, else the one it was built from, else empty.

    Reads files only: there need be no git where this runs, nor may a broken checkout keep a server from starting.
    """
    root = root or Path(__file__).parent.parent
    for read in (_of_checkout, _of_build):
        try:
            found = read(root)
        except (OSError, UnicodeDecodeError):
            continue
        if _HASH.fullmatch(found):
            return found
    return ""


def _of_build(root: Path) -> str:
    return (root / COMMIT_FILE).read_text().strip()


def _of_checkout(root: Path) -> str:
    folder = root / ".git"
    if folder.is_file():  # a linked work tree says where its own part is
        folder = root / folder.read_text().removeprefix("gitdir:").strip()
    head = (folder / "HEAD").read_text().strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    shared = folder / "commondir"
    common = folder / shared.read_text().strip() if shared.exists() else folder
    if (common / name).exists():
        return (common / name).read_text().strip()
    packed = (common / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
