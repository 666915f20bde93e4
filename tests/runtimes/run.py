"""`make runtimes`: fetch the other container runtimes, then run what concerns the runtime on each of them.

    python -m tests.runtimes.run [--only containerd-2] [--fetch] [pytest arguments]

Once fetched, `make test` runs a short form on each (``tests/contract/test_cri.py``, ``tests/e2e/test_runtimes.py``).
"""

import argparse
import os
import subprocess
import sys
import time

from tests.support import runtimes
from tests.support.debian import DebianError

LONG = [
    "tests/contract/test_cri.py",
    *(f"tests/e2e/test_{name}.py" for name in ("kubelet", "kubelet_edges", "kubelet_images", "kubelet_eviction", "resize")),
    *(f"tests/e2e/test_{name}.py" for name in ("streams_and_volumes", "reboot", "pod_states", "restart", "runtimes")),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=sorted(runtimes.SUITES), action="append", help="this runtime (may be repeated)")
    parser.add_argument("--fetch", action="store_true", help="fetch and test nothing")
    given, arguments = parser.parse_known_args()
    failed = []
    for name in given.only or runtimes.SUITES:
        try:
            versions = (
                (runtimes.tree(name) / "versions").read_text().strip() if runtimes.is_fetched(name) else runtimes.fetch(name)
            )
        except DebianError as error:
            print(f"runtimes: {name}: {error}", file=sys.stderr)
            return 1
        print(f"==> {name}: {versions}", flush=True)
        if given.fetch:
            continue
        began = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", *(arguments or LONG)]
        ended = subprocess.run(command, check=False, env={**os.environ, "RUNTIME": name}).returncode
        print(f"==> {name}: {'passed' if ended == 0 else 'failed'} after {time.monotonic() - began:.0f} s", flush=True)
        failed += [name] if ended else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
