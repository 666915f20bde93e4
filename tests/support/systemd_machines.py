"""Debian machines with systemd as their process 1, an SSH server and a network: what kind calls nodes, without docker.

    with debian_machines(base, scratch, count=2) as found:
        subprocess.run(["ssh", "-i", str(found[0].key), "root@" + found[0].address, "uptime"])

Each has namespaces, a cgroup in every hierarchy (v1, as the host's) and a root of its own over one base folder; the kernel is
shared, so modules and most settings of the kernel are the host's. They hang on the cables of :mod:`tests.support.machines`.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from component import mountinfo
from tests.support.machines import CLIENT, Machine, machines

_SECONDS = 180.0
_CGROUPS = Path("/sys/fs/cgroup")
# Runs as process 1 of the machine's namespaces, before systemd. $1 the machine's folder, $2 the base, $3 its name.
_INIT = """
set -e
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
cd "$1/root"
mkdir -p var/lib/containerd var/lib/kubelet
mount --bind "$1/containerd" var/lib/containerd
mount --bind "$1/kubelet" var/lib/kubelet
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
for controller in blkio cpu cpuacct cpuset devices freezer memory pids; do
    mkdir "sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "sys/fs/cgroup/$controller"
done
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t mqueue mqueue dev/mqueue
for node in "null 1 3" "console 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
    set -- "$1" "$2" "$3" $node
    mknod -m 666 "dev/$4" c "$5" "$6"
done
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
hostname "$3"
echo "$3" >etc/hostname
printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' "$3" >etc/hosts
mkdir -p old
pivot_root . old
umount -l /old
exec env -i container=pybernetes-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init
"""


@dataclass(frozen=True)
class DebianMachine:
    name: str
    machine: Machine
    folder: Path
    key: Path

    @property
    def address(self) -> str:
        return self.machine.address

    def ssh(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["ssh", *ssh_options(self.key), f"root@{self.address}", "--", *command], capture_output=True, text=True, check=False
        )


def ssh_options(key: Path) -> list[str]:
    settings = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=5", "BatchMode=yes")
    return ["-i", str(key), *(word for setting in settings for word in ("-o", setting))]


@contextmanager
def debian_machines(base: Path, scratch: Path, names: list[str]) -> Iterator[list[DebianMachine]]:
    """Booted, and answering on SSH for root with a key that is made for them. ``scratch`` must not be on an overlay."""
    key = scratch / "id_ed25519"
    key.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with machines(len(names)) as hosts, ExitStack() as stack:
        found = [
            stack.enter_context(_booted(DebianMachine(name, host, scratch / name, key), base))
            for name, host in zip(names, hosts, strict=True)
        ]
        deadline = time.monotonic() + _SECONDS
        while not all(each.ssh("true").returncode == 0 for each in found):
            if time.monotonic() > deadline:
                raise TimeoutError("a machine does not answer on SSH")
            time.sleep(0.2)
        yield found


@contextmanager
def _booted(each: DebianMachine, base: Path) -> Iterator[DebianMachine]:
    shutil.rmtree(each.folder, ignore_errors=True)
    for name in ("upper", "work", "root", "containerd", "kubelet"):
        (each.folder / name).mkdir(parents=True)
    _let_in(each, base)
    # Leads nowhere, but a process of the machine may address a Service, and packet rules see that.
    subprocess.run([*each.machine.wrap, "ip", "route", "add", "default", "via", CLIENT], check=True)
    cgroups = [_CGROUPS / hierarchy / each.machine.namespace for hierarchy in os.listdir(_CGROUPS)]
    for cgroup in cgroups:
        _make_cgroup(cgroup)
    flags = ["--mount", "--propagation", "private", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--cgroup"]
    enter = f'for each in {" ".join(map(str, cgroups))}; do echo $$ >"$each/cgroup.procs"; done; exec "$@"'
    inside = ["/bin/sh", "-c", _INIT, "init", str(each.folder), str(base), each.name]
    with (each.folder / "console.log").open("wb") as log:
        process = subprocess.Popen(
            [*each.machine.wrap, "/bin/sh", "-c", enter, "enter", "unshare", *flags, *inside],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield each
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _clean(each, cgroups)


def _let_in(each: DebianMachine, base: Path) -> None:
    """The key opens the accounts of root and of people."""
    for line in (base / "etc/passwd").read_text().splitlines():
        _, _, user, group, _, home, _ = line.split(":")
        if int(user) != 0 and not 1000 <= int(user) < 60000:
            continue
        keys = each.folder / "upper" / home.lstrip("/") / ".ssh/authorized_keys"
        keys.parent.mkdir(parents=True)
        keys.write_bytes(each.key.with_suffix(".pub").read_bytes())
        for path in (keys.parent.parent, keys.parent, keys):
            os.chown(path, int(user), int(group))
            path.chmod(0o700 if path != keys else 0o600)


def _make_cgroup(cgroup: Path) -> None:
    cgroup.mkdir()
    for setting in ("cpuset.cpus", "cpuset.mems"):
        if (cgroup / setting).exists():
            (cgroup / setting).write_text((cgroup.parent / setting).read_text())


def _clean(each: DebianMachine, cgroups: list[Path]) -> None:
    deadline = time.monotonic() + 10
    while any(_processes(cgroup) for cgroup in cgroups) and time.monotonic() < deadline:
        time.sleep(0.1)
    for cgroup in cgroups:
        for folder, _, _ in os.walk(cgroup, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue
    for mount in mountinfo.read(str(each.folder)):
        subprocess.run(["umount", "--lazy", mount.point], check=False, capture_output=True)


def _processes(cgroup: Path) -> bool:
    return any((Path(folder) / "cgroup.procs").read_text().strip() for folder, _, _ in os.walk(cgroup))
