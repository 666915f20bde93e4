"""`make vm`: boot a Debian 13 with systemd and cgroup v2, and run the kubelet's tests in it with both cgroup drivers.

    python -m tests.vm.run [--driver systemd] [--memory 3072] [--swap ""] [--minutes 15] [pytest arguments]

The sources go in as a tar file on a second disk; what the machine says comes out on its console, and nothing else does: the
image is never written (what a run writes goes into a file that is removed). The machine has no network.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from io import BytesIO
from pathlib import Path

from tests.support.debian import DebianError
from tests.vm import image

SHORT = ["tests/e2e/test_cgroup_v2.py", "tests/contract/test_cri.py"]
LONG = ["tests/e2e/test_kubelet.py", "tests/e2e/test_kubelet_edges.py", "tests/e2e/test_kubelet_eviction.py"]
_NOT_HERE = [
    "--deselect=tests/e2e/test_kubelet.py::test_twenty_pods_at_once",  # in half a minute: not with one slow CPU
    "--deselect=tests/e2e/test_kubelet_edges.py::test_a_host_port_leads_to_the_pod",  # the kernel has no iptables
]
_SKIPPED = {".git", ".cache", ".venv", ".venv-fuzz", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis", ".pytest_cache"}
_ESCAPES = re.compile(r"\x1b(\[[0-9;?!]*[A-Za-z]|\][0-9;]*(\x07|\x1b\\)?)")  # systemd resets its console
_MEMORY = "/dev/shm"  # where the machine's memory is a file: on a tmpfs, or it is written to disk


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--driver", choices=["cgroupfs", "systemd"], default="systemd", help="of tests that do not try both")
    parser.add_argument("--memory", type=int, default=3072, help="MiB")
    parser.add_argument("--swap", default="512M", help="size of the swap file; empty for none")
    parser.add_argument("--minutes", type=float, default=15, help="when to give up")
    given, arguments = parser.parse_known_args()
    try:
        image.ensure(image.Say())
    except (DebianError, RuntimeError, OSError) as error:
        print(f"vm: cannot make the machine: {error}", file=sys.stderr)
        return 1
    words = [*(arguments or [*SHORT, *LONG]), *_NOT_HERE, "-q", "--timeout", "240", "--color", "no"]
    with tempfile.TemporaryDirectory(dir=image.CACHE) as scratch:
        sources = Path(scratch, "sources.tar")
        pack(sources, {"arguments": "\n".join(words), "settings": f"driver={given.driver}\nswap={given.swap}\n"})
        return _boot(Path(scratch), sources, given.memory, given.minutes * 60)


def pack(target: Path, settings: dict[str, str]) -> None:
    with tarfile.open(target, "w") as packed:
        packed.add(image.ROOT, ".", filter=lambda entry: None if Path(entry.name).name in _SKIPPED else entry)
        for name, text in settings.items():
            entry = tarfile.TarInfo(f"./tests/vm/{name}")
            entry.size = len(text.encode())
            packed.addfile(entry, BytesIO(text.encode()))


def _boot(scratch: Path, sources: Path, memory: int, seconds: float) -> int:
    """The exit code of what ran inside; 124 when it was given up."""
    disks = [f"ubd0={scratch}/written,{image.IMAGE}", f"ubd1r={sources}", "root=/dev/ubda", "rw"]
    consoles = ["con0=null,fd:1", "con1=null", "con=null", "ssl=null", "quiet", "loglevel=1"]
    command = [str(image.KERNEL), f"mem={memory}M", "seccomp=on", *disks, *consoles]
    began, code = time.monotonic(), 1
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(scratch), "TMPDIR": _MEMORY}
    machine = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    giving_up = threading.Timer(seconds, os.killpg, (machine.pid, signal.SIGKILL))
    try:
        assert machine.stdout is not None
        giving_up.start()
        for line in machine.stdout:
            text = _ESCAPES.sub("", line.rstrip())
            if found := re.match(r"vm: exit (\d+)", text):
                code = int(found[1])
            if text and not text.startswith("SELinux:"):
                print(text, flush=True)
    finally:
        giving_up.cancel()
        _end(machine)
    if time.monotonic() - began > seconds:
        code = 124
        print(f"vm: given up after {seconds:g} s", file=sys.stderr)
    print(f"==> vm: {'passed' if code == 0 else 'failed'} after {time.monotonic() - began:.0f} s")
    return code


def _end(machine: "subprocess.Popen[str]") -> None:
    """The machine is a tree of processes in a session of its own."""
    try:
        machine.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(machine.pid, signal.SIGKILL)
        machine.wait()


if __name__ == "__main__":
    sys.exit(main())
