"""`make vm-ipvs`: boot Debian's own kernel on an emulated processor, and run the proxy's tests that need IPVS in it.

    python -m tests.vm.emulated [--memory 1500] [--minutes 25] [pytest arguments]

The disk is that of :mod:`tests.vm.image`; the kernel is another, for User Mode Linux has IPVS but no iptables. The emulator
(qemu-system-x86_64, without KVM) is ten times slower than the machine itself, so only these tests are run here. Needs root.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.support.debian import DebianError, Packages, install
from tests.vm import image
from tests.vm.run import pack

TESTS = [
    *("tests/contract/test_ipvs.py", "tests/integration/netproxy/test_traffic.py", "tests/integration/netproxy/test_cleanup.py"),
    *("-k", "ipvs or servers or sets or addresses"),
]
SUITE = "trixie"
_PACKAGE = re.compile(r"linux-image-[0-9].*-cloud-amd64$")  # without drivers of real hardware: what is needed is in a few MB
_FOLDER = image.CACHE / "emulated"
_KERNEL, _RAMDISK = _FOLDER / "vmlinuz", _FOLDER / "ramdisk"
_MODULES = ("net", "lib", "crypto", "drivers/block", "drivers/net", "drivers/virtio")
_INIT = """\
#!/bin/busybox sh
for what in proc sysfs devtmpfs; do /bin/busybox mount -t $what $what /$what; done
/bin/busybox modprobe virtio_blk
until [ -e /devtmpfs/vda ] && [ -e /devtmpfs/vdb ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /devtmpfs/vda /root
/bin/busybox mount -t tmpfs tmpfs /root/usr/lib/modules && /bin/busybox cp -r /lib/modules/* /root/usr/lib/modules
/bin/busybox mount --move /proc /root/proc
/bin/busybox mount --move /sysfs /root/sys
/bin/busybox mount --move /devtmpfs /root/dev
/bin/busybox mkdir -p /root/root/src && /bin/busybox tar xf /root/dev/vdb -C /root/root/src
exec /bin/busybox switch_root /root /bin/sh /root/src/tests/vm/emulated.sh </root/dev/console >/root/dev/console 2>&1
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--memory", type=int, default=1500, help="MiB")
    parser.add_argument("--minutes", type=float, default=25, help="when to give up")
    given, arguments = parser.parse_known_args()
    try:
        image.ensure(image.Say())
        _ensure(image.Say())
    except (DebianError, RuntimeError, OSError) as error:
        print(f"vm: cannot make the machine: {error}", file=sys.stderr)
        return 1
    words = [*(arguments or TESTS), "-q", "--timeout", "240", "--color", "no"]
    with tempfile.TemporaryDirectory(dir=image.CACHE) as scratch:
        sources = Path(scratch, "sources.tar")
        pack(sources, {"arguments": "\n".join(words)})
        return _boot(sources, given.memory, given.minutes * 60)


def _ensure(say: image.Say) -> None:
    install("qemu-system-x86_64", "qemu-system-x86")
    if _KERNEL.exists() and _RAMDISK.exists():
        return
    say("fetching Debian's kernel")
    packages, tree = Packages(_FOLDER / "apt", SUITE), _FOLDER / "tree"
    packages.update()
    shutil.rmtree(tree, ignore_errors=True)
    packages.unpack([packages.newest("linux-image-cloud-amd64", _PACKAGE), "busybox-static"], tree)
    (version,) = [each.name for each in (tree / "usr/lib/modules").iterdir()]
    root = _FOLDER / "root"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "proc", "sysfs", "devtmpfs", "root"):
        (root / folder).mkdir(parents=True)
    shutil.copy(next(each for each in (tree / "bin/busybox", tree / "usr/bin/busybox") if each.exists()), root / "bin/busybox")
    modules = tree / "usr/lib/modules" / version
    for folder in _MODULES:
        shutil.copytree(modules / "kernel" / folder, root / "lib/modules" / version / "kernel" / folder)
    for file in modules.glob("modules.*"):
        shutil.copy(file, root / "lib/modules" / version)
    for packed in root.rglob("*.ko.xz"):
        subprocess.run(["unxz", str(packed)], check=True)
    subprocess.run(["depmod", "-b", str(root), version], check=True)
    (root / "init").write_text(_INIT)
    (root / "init").chmod(0o755)
    names = "\n".join(str(each.relative_to(root)) for each in sorted(root.rglob("*")))
    archive = [str(root / "bin/busybox"), "cpio", "-o", "-H", "newc"]
    with _RAMDISK.open("wb") as file:
        subprocess.run(archive, check=True, cwd=root, input=names.encode(), stdout=file, stderr=subprocess.DEVNULL)
    shutil.copy(tree / "boot" / f"vmlinuz-{version}", _KERNEL)
    shutil.rmtree(tree)
    shutil.rmtree(root)


def _boot(sources: Path, memory: int, seconds: float) -> int:
    """The exit code of what ran inside; 124 when it was given up."""
    command = ["qemu-system-x86_64", "-nographic", "-no-reboot", "-nic", "none", "-m", str(memory), "-cpu", "max"]
    command += ["-kernel", str(_KERNEL), "-initrd", str(_RAMDISK), "-append", "console=ttyS0 quiet loglevel=3"]
    command += ["-drive", f"file={image.IMAGE},format=raw,if=virtio,snapshot=on"]
    command += ["-drive", f"file={sources},format=raw,if=virtio,readonly=on"]
    code = 1
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as machine:
        giving_up = threading.Timer(seconds, machine.kill)
        giving_up.start()
        assert machine.stdout is not None
        try:
            for line in machine.stdout:
                print(line.rstrip(), flush=True)
                if found := re.match(r"vm: exit (\d+)", line):
                    code = int(found[1])
        finally:
            late = not giving_up.is_alive()
            giving_up.cancel()
            machine.kill()
    return 124 if late else code


if __name__ == "__main__":
    sys.exit(main())
