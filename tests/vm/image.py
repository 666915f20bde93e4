"""A small Debian 13 with systemd, cgroup v2 and containerd 1.7 for :mod:`tests.vm.run`, and a kernel that boots it anywhere.

The kernel is User Mode Linux: an ordinary program of Debian's, so that neither KVM nor an emulated processor is needed. It has
cgroup v2 with cpu, io, memory and pids, namespaces, seccomp and BPF; it lacks cpuset, huge pages, PSI,
iptables (so there are no host ports, Services or ways out of the pod network) and a second CPU.

Everything lies below ``.cache/vm`` and is made again when what it is made of has changed. Needs root.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.debian import Packages, install, mirror, runs

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "vm"
KERNEL, IMAGE = CACHE / "linux", CACHE / "debian-13.ext4"
SUITE = "trixie"
KERNEL_SUITE = "forky"  # since 6.16 it catches system calls by seccomp: twice as fast as by ptrace
_ALONE = ("unshare", "--mount", "--propagation", "private", "--")  # what is mounted in the tree ends with the command
_SIZE = 6 << 30  # sparse
_PACKAGES = [
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "iproute2", "mount", "e2fsprogs", "ca-certificates", "curl"),
    *("containerd", "runc", "containernetworking-plugins", "iptables", "nftables", "ipset", "conntrack", "busybox-static"),
    *("catatonit", "kubernetes-client", "python3", "python3-venv", "python3-dev", "gcc", "libc6-dev"),
]
_MASKED = [
    *("containerd.service", "systemd-timesyncd.service", "systemd-networkd.service", "getty@.service", "apt-daily.timer"),
    *("apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
]
_SETTINGS = [Path("/etc/pip.conf"), Path("/root/.config/pip/pip.conf"), Path("/etc/ssl/certs/ca-certificates.crt")]
_SERVICE = """\
[Unit]
Description=What this machine was started for
After=basic.target dbus.service
Wants=dbus.service
[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/tty0
TimeoutStartSec=infinity
ExecStart=/bin/sh /root/guest.sh
ExecStopPost=/sbin/poweroff -f
[Install]
WantedBy=multi-user.target
"""
_GUEST = """\
mkdir -p /root/src && tar xf /dev/ubdb -C /root/src && cd /root/src && exec /bin/sh tests/vm/guest.sh
"""


def ensure(say: "Say") -> None:
    """Make what is missing or stale. Raises DebianError, or CalledProcessError with what a command said."""
    stamp = CACHE / "made-from"
    if IMAGE.exists() and KERNEL.exists() and stamp.exists() and stamp.read_text() == _made_from():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    install("debootstrap", "debootstrap")
    install("mkfs.ext4", "e2fsprogs")
    root = CACHE / "root"
    shutil.rmtree(root, ignore_errors=True)
    say(f"making a Debian 13 in {CACHE} (a few minutes)")
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", SUITE, str(root), mirror()]
    _run([*_ALONE, *command], log=CACHE / "debootstrap.log")
    say("fetching a kernel")
    _kernel(root)
    say("installing the pinned Python packages in it")
    _python(root)
    _configure(root)
    IMAGE.unlink(missing_ok=True)
    with IMAGE.open("wb") as file:
        file.truncate(_SIZE)
    _run(["mkfs.ext4", "-q", "-F", "-d", str(root), str(IMAGE)])
    shutil.rmtree(root)
    stamp.write_text(_made_from())


def _made_from() -> str:
    parts = [Path(__file__).read_bytes(), (ROOT / "requirements-dev.lock").read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _kernel(root: Path) -> None:
    packages, tree = Packages(CACHE / "apt", KERNEL_SUITE), CACHE / "kernel"
    packages.update()
    shutil.rmtree(tree, ignore_errors=True)
    packages.unpack(["user-mode-linux"], tree)
    KERNEL.unlink(missing_ok=True)
    shutil.move(tree / "usr/bin/linux.uml", KERNEL)
    if not runs(KERNEL, "--version"):
        packages.adopt(KERNEL, tree)
    for modules in (tree / "usr/lib/uml/modules").iterdir():
        shutil.rmtree(root / "usr/lib/modules" / modules.name, ignore_errors=True)
        shutil.copytree(modules, root / "usr/lib/modules" / modules.name, symlinks=True)
        _run(["depmod", "-b", str(root), modules.name])


def _python(root: Path) -> None:
    """The machine's own settings for pip hold here, too."""
    lent = [(source, root / source.relative_to("/")) for source in _SETTINGS if source.exists()]
    for source, target in lent:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    shutil.copyfile(ROOT / "requirements-dev.lock", root / "root/requirements.lock")
    inside = {"PATH": "/usr/sbin:/usr/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    inside |= {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    quietly = ["--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    _run([*_ALONE, "chroot", str(root), "python3", "-m", "venv", "/opt/venv"], environment=inside)
    _run(
        [*_ALONE, "chroot", str(root), "/opt/venv/bin/pip", "install", *quietly, "-r", "/root/requirements.lock"],
        environment=inside,
    )
    for _, target in lent[:2]:
        target.unlink()


def _configure(root: Path) -> None:
    units = root / "etc/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    (units / "guest.service").write_text(_SERVICE)
    (units / "multi-user.target.wants/guest.service").symlink_to("/etc/systemd/system/guest.service")
    for unit in _MASKED:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    (root / "root/guest.sh").write_text(_GUEST)
    (root / "etc/fstab").write_text("")
    (root / "etc/hostname").write_text("vm\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost vm\n")
    for package in (root / "var/cache/apt/archives").glob("*.deb"):
        package.unlink()


class Say:
    """Tells a person how far it is."""

    def __call__(self, text: str) -> None:
        print(f"==> {text}", flush=True)


def _run(command: Sequence[str], log: Path | None = None, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if log is not None:
        log.write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command[:3])}... ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
        )
