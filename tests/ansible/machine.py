"""The base of the machines of :mod:`tests.ansible.run`: a Debian with systemd, SSH and Python, and nothing else installed.

What the playbooks install lies in apt's cache, so that the machines need no network. Everything is below ``.cache/ansible``, and
made again when this file has changed. Needs root.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.debian import install, mirror

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "ansible"
BASE = CACHE / "base"
USER = "admin"  # whom the playbooks log in as; may become root by sudo, and is nobody otherwise
SUITE = "bookworm"  # the last with a systemd that runs on cgroup v1, as test machines have it
_INSTALLED = [
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "python3-apt", "sudo"),
    *("iproute2", "kmod", "procps", "ca-certificates"),
]
_IN_CACHE = [
    *("python3-venv", "containerd", "runc", "containernetworking-plugins", "iptables", "nftables", "ipset", "conntrack"),
    *("etcd-server", "etcd-client", "kubernetes-client", "catatonit", "busybox-static", "e2fsprogs", "mount"),
]


def ensure() -> None:
    """Make the base when it is missing or stale. Raises CalledProcessError, DebianError."""
    stamp, wanted = CACHE / "made-from", hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted and BASE.exists():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    install("debootstrap", "debootstrap")
    shutil.rmtree(BASE, ignore_errors=True)
    print(f"==> making a Debian ({SUITE}) in {BASE} (a few minutes)", flush=True)
    alone = ["unshare", "--mount", "--propagation", "private", "--"]  # what is mounted in the tree ends with the command
    include = f"--include={','.join(_INSTALLED)}"
    _run([*alone, "debootstrap", "--variant=minbase", include, SUITE, str(BASE), mirror()])
    shutil.copyfile("/etc/resolv.conf", BASE / "etc/resolv.conf")
    fetch = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "--download-only", *_IN_CACHE]
    _run([*alone, "chroot", str(BASE), *fetch])
    _run([*alone, "chroot", str(BASE), "useradd", "--create-home", "--shell=/bin/bash", USER])
    (BASE / "etc/sudoers.d" / USER).write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
    stamp.write_text(wanted)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        (CACHE / "failed.log").write_text(done.stdout + done.stderr)
        raise RuntimeError(f"{' '.join(command[5:8])}... failed; see {CACHE / 'failed.log'}")
