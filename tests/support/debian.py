"""Debian packages of another suite, unpacked beside the machine's own: a private apt with lists of its own, installing nothing.

    folder = Packages(cache / "apt", "trixie"); folder.unpack(["containerd", "runc"], cache / "tree")

The mirror is the one that this machine's apt uses. What comes is what the suite's signed lists name.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LIBRARIES = ("libc6", "libseccomp2")  # what the fetched programs are linked with


class DebianError(Exception):
    """Something that cannot be fetched or unpacked, with what to do about it."""


def mirror() -> str:
    """The archive that this machine installs from. Raises DebianError."""
    asked = _run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"])
    found = [line.split()[1] for line in asked.splitlines() if line.startswith("Debian ") and "security" not in line]
    if not found:
        raise DebianError("apt knows no archive of Debian: run `apt-get update`, or name one in /etc/apt/sources.list")
    return found[0].rstrip("/")


@dataclass(frozen=True, slots=True)
class Packages:
    """One suite. ``folder`` holds apt's lists; it may be used again."""

    folder: Path
    suite: str

    def update(self) -> None:
        """Fetch the suite's lists."""
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        signed = f" [signed-by={_KEYRING}]" if _KEYRING.exists() else ""
        (self.folder / "sources.list").write_text(f"deb{signed} {mirror()} {self.suite} main\n")
        lines = {
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self.folder / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": self.folder / "cache",
            "APT::Sandbox::User": "root",
        }
        (self.folder / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in lines.items()))
        self._apt("update", "-q")

    def unpack(self, names: Sequence[str], tree: Path) -> dict[str, str]:
        """Download and unpack into ``tree``; the versions by name. What the machine's C library is too old for gets that of
        the suite (``adopt``)."""
        versions = {}
        with tempfile.TemporaryDirectory() as scratch:
            self._apt("download", "-q", *names, cwd=scratch)
            for file in sorted(Path(scratch).glob("*.deb")):
                name, version, _ = _run(["dpkg-deb", "--show", "--showformat=${Package} ${Version} x", str(file)]).split()
                versions[name] = version
                _run(["dpkg-deb", "--extract", str(file), str(tree)])
        return versions

    def newest(self, meta: str, pattern: re.Pattern[str]) -> str:
        """The package whose name matches among those that ``meta`` leads to. Raises DebianError."""
        said = _run(["apt-cache", "-c", str(self.folder / "apt.conf"), "depends", meta])
        found = [word for word in said.split() if pattern.match(word)]
        if not found:
            raise DebianError(f"{meta} of {self.suite} leads to no package like {pattern.pattern}")
        return found[0]

    def adopt(self, program: Path, tree: Path) -> None:
        """Let a program that this machine's C library is too old for run with the suite's, from ``tree``."""
        libraries = next(tree.glob("usr/lib/*-linux-gnu/libc.so.6"), None)
        if libraries is None:
            self.unpack(_LIBRARIES, tree)
            libraries = next(tree.glob("usr/lib/*-linux-gnu/libc.so.6"))
        with tempfile.TemporaryDirectory() as scratch:
            self._apt("download", "-q", "patchelf", cwd=scratch, environment={})
            _run(["dpkg-deb", "--extract", str(next(Path(scratch).glob("*.deb"))), scratch])
            loader = next(libraries.parent.glob("ld-linux-*.so.*"))
            patch = [f"{scratch}/usr/bin/patchelf", "--set-interpreter", str(loader), "--set-rpath", str(libraries.parent)]
            _run([*patch, str(program)])

    def _apt(self, *words: str, cwd: str | None = None, environment: Mapping[str, str] | None = None) -> str:
        own = {"APT_CONFIG": str(self.folder / "apt.conf")} if environment is None else environment
        return _run(["apt-get", *words], cwd=cwd, environment={**os.environ, **own})


def runs(program: Path, *arguments: str) -> bool:
    """Whether this machine can execute it at all."""
    return subprocess.run([program, *arguments], check=False, capture_output=True).returncode == 0


def install(program: str, package: str) -> None:
    """What a test needs of this machine's own distribution. Raises DebianError."""
    if shutil.which(program) is None:
        _run(["apt-get", "install", "-y", "-q", "--no-install-recommends", package])


def _run(command: Sequence[str], cwd: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=environment)
    except OSError as error:
        raise DebianError(f"cannot run {command[0]}: {error.strerror}; this needs Debian's apt") from None
    if done.returncode != 0:
        raise DebianError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
