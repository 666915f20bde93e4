"""Measures what the README claims, on a cluster of its own in a network namespace of its own. Run by ``make bench``.

The measuring tools drive any cluster through its API, so the same ones measure upstream beside us: ``--peer`` starts
upstream's API server in the same run (its programs must have been built), and every figure is also given as a ratio.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.peer import PORT, TOKEN, peer_apiserver  # noqa: E402
from bootstrap.images import busybox_image, write_archive  # noqa: E402
from tests.support.cluster import ADDRESS, Cluster, running_cluster  # noqa: E402

BUSYBOX = "docker.io/library/busybox:latest"
SETTLE = 30  # seconds after the start until memory is called idle


def main() -> None:
    arguments = parse_arguments()
    tools = Path(arguments.tools).resolve()
    if not (tools / "api-bench").exists():
        sys.exit(f"the measuring tools are not in {tools}; name their folder with --tools")
    if shutil.which("wrk") is None:
        sys.exit("wrk, which drives the API server, is not installed: apt-get install wrk")
    began = time.monotonic()
    with running_cluster() as cluster:
        print(f"up --detach returned after {time.monotonic() - began:.2f} s")
        measure_start(cluster)
        time.sleep(SETTLE)
        measure_memory(cluster)
        if "pods" in arguments.what:
            measure_pods(cluster, tools, arguments.pods)
        if "api" in arguments.what:
            with peer(cluster, tools, arguments.peer) as beside:
                compare(measure_api(cluster, tools), beside())


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=str(ROOT / ".." / "shared" / "bench"), help="folder of api-bench and pod-bench")
    parser.add_argument("--peer", action="store_true", help="measure upstream's API server in the same run")
    parser.add_argument("--what", nargs="+", default=["api", "pods"], choices=["api", "pods"], help="what to measure")
    parser.add_argument("--pods", type=int, default=30, help="pods made at once")
    return parser.parse_args()


def measure_start(cluster: Cluster) -> None:
    """Stop the cluster and start it again on its own state: how long until the API and the node are ready."""
    cluster.pybernetes("down")
    said = cluster.pybernetes("up", "--detach")
    for line in said.splitlines():
        if "after" in line:
            print(line.strip())


def measure_memory(cluster: Cluster) -> None:
    parts = json.loads(cluster.pybernetes("status", "-o", "json", check=False))["parts"]
    ours = [part for part in parts if part["name"] != "containerd" and part["running"]]
    for part in ours:
        print(f"  idle {part['name']}: {part['memoryBytes'] / 1e6:.0f} MB PSS")
    print(f"idle memory of everything but containerd: {sum(part['memoryBytes'] for part in ours) / 1e6:.0f} MB PSS")


def measure_pods(cluster: Cluster, tools: Path, count: int) -> None:
    applets = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    archive = cluster.data_dir / "images" / "busybox.tar"
    write_archive([busybox_image(BUSYBOX, applets)], archive)
    cluster.pybernetes("image", "import", str(archive))
    done = cluster.run(str(tools / "pod-bench"), "pybernetes", str(cluster.kubeconfig), str(count), timeout=400)
    print(done.stdout.rstrip())


def measure_api(cluster: Cluster, tools: Path) -> list[dict[str, Any]]:
    token = (cluster.data_dir / "pki" / "tokens.csv").read_text().split(",")[0]
    pid = str(cluster.processes()["apiserver"])
    url = f"https://{ADDRESS}:6443"
    return run_api_bench(
        cluster.inside(str(tools / "api-bench"), "pybernetes", url, str(cluster.data_dir / "pki" / "ca.crt"), token, pid)
    )


def run_api_bench(argv: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line.rstrip(), flush=True)
            if line.startswith("{"):
                rows.append(json.loads(line))
    return rows


@contextmanager
def peer(cluster: Cluster, tools: Path, wanted: bool) -> Iterator[Any]:
    """Upstream's API server in the same namespace; yields a function that measures it (nothing when not wanted)."""
    if not wanted:
        yield list
        return
    with (
        tempfile.TemporaryDirectory(prefix="pyb-peer-") as folder,
        peer_apiserver(tools, Path(folder), cluster.inside) as pids,
    ):
        told = f"https://127.0.0.1:{PORT}", f"{folder}/ca.crt", TOKEN, ",".join(map(str, pids))
        yield lambda: run_api_bench(cluster.inside(str(tools / "api-bench"), "peer", *told))


# What each row may cost beside the peer; a row that falls short is explained in docs/performance.md.
BARS = {
    "get pod": 0.5,
    "list 1000 pods": 0.05,
    "list 500 of 1000, paged": 0.1,
    "list by label, 0 hits": 0.02,
    "create pod": 0.8,
    "patch pod label": 0.6,
    "watch fan-out, per event": 0.4,
    "memory for each stored pod": 0.4,
}


def compare(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> None:
    """One table: our server CPU per request, theirs, the ratio and its bar; then memory in the same way."""
    beside = {operation(row): row for row in theirs}
    print(f"\n{'operation':<28}{'CPU each':>12}{'peer':>12}{'ratio':>8}{'bar':>7}{'rate':>12}{'p99':>12}")
    for row in ours:
        if "cpu_us" not in row:
            continue
        other = beside.get(operation(row), {}).get("cpu_us")
        rate = f"{row.get('rps', row.get('events_s', '-'))}/s"
        print(f"{line(operation(row), row['cpu_us'], other, 'us')}{rate:>12}{row['p99_ms']:>9} ms")
    print(line("memory for each stored pod", memory_per_pod(ours), memory_per_pod(theirs), "KB"))


def operation(row: Mapping[str, Any]) -> str:
    return re.sub(r"watch fan-out.*", "watch fan-out, per event", row["op"])


def line(name: str, ours: float | None, theirs: float | None, unit: str) -> str:
    ratio = f"{ours / theirs:.2f}" if ours and theirs else "-"
    bar = BARS.get(name)
    short = " !" if ours and theirs and bar and ours / theirs > bar else "  "
    shown = [f"{value:.0f} {unit}" if value else "-" for value in (ours, theirs)]
    return f"{name:<28}{shown[0]:>12}{shown[1]:>12}{ratio:>8}{bar or '-':>5}{short}"


def memory_per_pod(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """KB by which the run has made the server grow, for each pod that it made."""
    held = {row["op"]: row for row in rows}
    if not {"idle", "loaded", "create pod"} <= held.keys():
        return None
    pods = 1000 + held["create pod"]["rps"] * int(os.environ.get("SECS", "8"))
    return float(held["loaded"]["rss_mb"] - held["idle"]["rss_mb"]) * 1024 / pods


if __name__ == "__main__":
    main()
