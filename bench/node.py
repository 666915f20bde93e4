"""What a node costs while nothing happens on it, and whether its pods stay Ready. Run as root by ``make bench-node``.

    python -m bench.node [--pods 50] [--minutes 1] [--probes mixed] [--alone]

A cluster of its own in a network namespace, real containers with probes every ten seconds; each minute the processor time and
memory of the kubelet and of containerd, at the end how often a pod was not Ready and was restarted. ``--alone`` runs the
kubelet as its own verb rather than in one process with the proxy. CPU is counted, not timed, so other load disturbs it little.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bootstrap.demo import PORT, REFERENCE
from cli.cluster import containerd, plan, processes
from cli.cluster.layout import Layout
from cli.cluster.settings import load
from tests.support.cluster import Cluster, environment, running_cluster
from tests.support.daemons import processor_seconds

TCP = {"tcpSocket": {"port": PORT}}
HTTP = {"httpGet": {"port": PORT, "path": "/cgi-bin/index.cgi"}}
EXEC = {"exec": {"command": ["/bin/sh", "-c", "exit 0"]}}
# Probes of each kind of pod, and its share of all.
KINDS: dict[str, dict[str, tuple[dict[str, Any], float]]] = {
    "none": {"plain": ({}, 1.0)},
    "tcp": {"tcp": ({"readinessProbe": TCP}, 1.0)},
    "mixed": {
        "tcp": ({"readinessProbe": TCP, "livenessProbe": TCP}, 0.4),
        "http": ({"readinessProbe": HTTP, "livenessProbe": HTTP}, 0.4),
        "exec": ({"readinessProbe": EXEC, "livenessProbe": TCP}, 0.2),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--minutes", type=int, default=1)
    parser.add_argument("--probes", choices=KINDS, default="mixed")
    parser.add_argument("--alone", action="store_true", help="the kubelet without the proxy in its process")
    arguments = parser.parse_args()
    with running_cluster() as cluster:
        cluster.pybernetes("demo")
        cluster.kubectl("delete", "deployment,service", "web")
        with kubelet(cluster, arguments.alone) as pid:
            start(cluster, arguments.pods, arguments.probes)
            with not_ready(cluster) as flaps:
                watch_over(cluster, pid, arguments.minutes)
            tell(cluster, flaps)


@contextlib.contextmanager
def kubelet(cluster: Cluster, alone: bool) -> Iterator[int]:
    """Its pid: that of the process which it shares with the proxy, or of one of its own."""
    if not alone:
        yield cluster.processes()[plan.NODE]
        return
    layout = Layout(cluster.data_dir)
    settings = load(layout.settings)
    if process := processes.find(plan.NODE, layout.data_dir, layout.run):
        processes.stop(process, 10.0)
    flags = {
        "kubelet": plan.kubelet_flags(layout, settings, containerd.endpoint(layout, settings)),
        "proxy": plan.proxy_flags(layout, settings),
    }
    with (layout.logs / "alone.log").open("wb") as log:
        running = [
            subprocess.Popen(cluster.inside(sys.executable, "-m", "cli", verb, *given), stdout=log, stderr=log, env=environment())
            for verb, given in flags.items()
        ]
    try:
        yield running[0].pid
    finally:
        for each in running:
            each.kill()
            each.wait()


def start(cluster: Cluster, count: int, probes: str) -> None:
    """As many pods, all Ready; then a while for what follows a start."""
    began = time.monotonic()
    for name, (fields, share) in KINDS[probes].items():
        container = {"name": "main", "image": REFERENCE, **fields}
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }
        spec = {"replicas": round(count * share), "selector": {"matchLabels": {"app": name}}, "template": template}
        made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
        cluster.apply(json.dumps(made))
    for name in KINDS[probes]:
        cluster.kubectl("rollout", "status", f"deployment/{name}", "--timeout=300s", timeout=310)
    print(f"{count} pods Ready after {time.monotonic() - began:.1f} s")
    time.sleep(15)


@contextlib.contextmanager
def not_ready(cluster: Cluster) -> Iterator[list[str]]:
    """Names of pods and nodes, once for each time that one was seen not to be Ready."""
    seen: list[str] = []
    watches = [
        cluster.start(*cluster.kubectl_argv("get", kind, "--watch", "-o", "json"), stdout=subprocess.PIPE)
        for kind in ("pods", "nodes")
    ]
    readers = [threading.Thread(target=_read, args=(watch, seen)) for watch in watches]
    for reader in readers:
        reader.start()
    try:
        yield seen
    finally:
        for watch in watches:
            watch.kill()
        for reader in readers:
            reader.join()


def _read(watch: "subprocess.Popen[str]", seen: list[str]) -> None:
    decoder, text = json.JSONDecoder(), ""
    assert watch.stdout is not None
    for line in watch.stdout:
        text += line
        if line != "}\n":
            continue
        found, _ = decoder.raw_decode(text)
        text = ""
        conditions = found.get("status", {}).get("conditions", [])
        if any(each["type"] == "Ready" and each["status"] != "True" for each in conditions):
            seen.append(found["metadata"]["name"])


def watch_over(cluster: Cluster, pid: int, minutes: int) -> None:
    pids = {"kubelet": pid, "containerd": cluster.processes()["containerd"]}
    for minute in range(1, minutes + 1):
        before, began = {name: processor_seconds(each) for name, each in pids.items()}, time.monotonic()
        time.sleep(60)
        passed = time.monotonic() - began
        shown = [
            f"{name} {(processor_seconds(each) - before[name]) / passed:.1%} of a core, {memory(each)}"
            for name, each in pids.items()
        ]
        print(f"minute {minute}, load {os.getloadavg()[0]:.0f}: {'; '.join(shown)}", flush=True)


def tell(cluster: Cluster, flaps: list[str]) -> None:
    statuses = [status for pod in cluster.get("pods")["items"] for status in pod["status"]["containerStatuses"]]
    ready = sum(status["ready"] for status in statuses)
    print(f"{len(statuses)} pods, {ready} ready, {sum(status['restartCount'] for status in statuses)} restarts")
    print(f"seen not to be Ready: {len(flaps)} times {sorted(set(flaps))}")


def memory(pid: int) -> str:
    text = Path("/proc", str(pid), "smaps_rollup").read_text()
    found = dict(re.findall(r"^(Rss|Pss):\s+(\d+)", text, re.MULTILINE))
    return ", ".join(f"{name.upper()} {int(size) / 1024:.0f} MB" for name, size in found.items())


if __name__ == "__main__":
    main()
