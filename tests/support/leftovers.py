"""What a node still holds of its pods, as the kernel, the runtime and the disk tell it: the judge of the chaos tests.

Nothing here asks the system under test; ``ctr``, ``ip``, ``iptables-save`` and /proc are the witnesses. Snapshots are left
out: what a crash left of them the runtime collects itself.
"""

import re
import subprocess
from pathlib import Path

from bootstrap.containerd import layout as runtime_layout
from cli.cluster.layout import Layout
from cli.cluster.teardown import mounts_below, runtime_leftovers
from tests.support.cluster import Cluster

_POD_CGROUP = re.compile(r"pod[0-9a-f-]{36}$")
_SERVICE_CHAIN = re.compile(r"^:(KUBE-(?:SVC|SVL|SEP|EXT|FW)-\w+)")


def leftovers(cluster: Cluster, kept: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """By kind, what belongs to pods other than those whose uids are ``kept``; kinds without any are left out."""
    layout = Layout(cluster.data_dir)
    found = {
        **_in_runtime(layout, kept),
        "mount": [point for point in mounts_below(cluster.data_dir) if not _owned(point, kept, layout)],
        "cgroup": [str(path) for path in _pod_cgroups(layout) if not any(uid in path.name for uid in kept)],
        "log directory": [path.name for path in _entries(layout.pod_logs) if path.name.rpartition("_")[2] not in kept],
        "local-path directory": [path.name for path in _entries(layout.local_path)],
        "staged volume": [str(path) for path in (layout.kubelet / "plugins/kubernetes.io/csi").glob("*/*")],
        "pod directory": [path.name for path in _entries(layout.kubelet / "pods") if path.name not in kept],
    }
    return {kind: items for kind, items in found.items() if items}


def counted(cluster: Cluster) -> dict[str, int]:
    """How many there are of the things that carry no pod's name: one of each for a pod with its own network."""
    layout = Layout(cluster.data_dir)
    links = cluster.run("ip", "-brief", "link").stdout.splitlines()
    return {
        "veth": sum(line.startswith("veth") for line in links),
        "network namespace": sum(len(_entries(path)) for path in (layout.containerd / "state").glob("*cri*/netns")),
        "address": sum(path.name[0].isdigit() for path in _entries(layout.kubelet / "cni-ipam" / "pybernetes")),
        "shim": len(shims(cluster)),
    }


def service_chains(cluster: Cluster) -> list[str]:
    """Chains of single services and endpoints."""
    saved = cluster.run("iptables-save").stdout.splitlines()
    return [match[1] for line in saved if (match := _SERVICE_CHAIN.match(line))]


def shims(cluster: Cluster) -> list[int]:
    return list(_shims(Layout(cluster.data_dir)))


def _shims(layout: Layout) -> dict[int, str]:
    """Shims that run, and the sandbox that each serves."""
    return runtime_leftovers(str(runtime_layout(layout.containerd).socket))


def marked_processes(cluster: Cluster) -> list[str]:
    """Every process that was started for this cluster, helpers and shims included."""
    mark = f"PYBERNETES_DATA_DIR={cluster.data_dir}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(f"{entry.name} {(entry / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()[:120]}")
        except OSError:
            continue
    return found


def _in_runtime(layout: Layout, kept: frozenset[str]) -> dict[str, list[str]]:
    listed = _ctr(layout, "containers", "list")
    mine, foreign = set(), {}
    for name in listed:
        labels = "\n".join(_ctr(layout, "containers", "info", name))
        uid = re.search(r'"io.kubernetes.pod.uid": "([^"]+)"', labels)
        if uid and uid[1] in kept:
            mine.add(name)
        else:
            kind = re.search(r'"io.cri-containerd.kind": "([^"]+)"', labels)
            foreign[name] = f"{kind[1] if kind else '?'} {name[:12]} of pod {uid[1] if uid else '?'}"
    tasks = [line.split()[0] for line in _ctr(layout, "tasks", "list")]
    return {
        "container": list(foreign.values()),
        "task": [each for each in tasks if each not in mine],
        "shim": [_described(layout, pid, pod) for pid, pod in _shims(layout).items() if pod not in mine],
    }


def _described(layout: Layout, pid: int, served: str) -> str:
    """What is there to know of a shim that serves none of the pods that are left."""
    state = layout.containerd / "state"
    bundle = [path.name for path in _entries(state / "io.containerd.runtime.v2.task" / "k8s.io" / served)]
    known = (state / "runc" / "k8s.io" / served).exists()
    children = subprocess.run(["pgrep", "--list-full", "--parent", str(pid)], capture_output=True, text=True, check=False).stdout
    age = subprocess.run(["ps", "-o", "etime=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return f"{pid} of {served[:12]}, {age} old, bundle {bundle}, known to runc: {known}, children {children.split()}"


def _ctr(layout: Layout, noun: str, verb: str, *rest: str) -> list[str]:
    """The lines of one ``ctr`` answer, without its heading; lists are reduced to names where ctr can."""
    socket = str(runtime_layout(layout.containerd).socket)
    quiet = ["--quiet"] if (noun, verb) == ("containers", "list") else []
    argv = ["ctr", "--address", socket, "--namespace", "k8s.io", noun, verb, *quiet, *rest]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    lines = done.stdout.splitlines()
    return [line.rstrip() for line in (lines[1:] if verb == "list" and not quiet else lines)]


def _owned(point: str, kept: frozenset[str], layout: Layout) -> bool:
    """A mount of the runtime's own is judged by its container; one below the kubelet's root names its pod."""
    if not point.startswith(str(layout.kubelet)):
        return True
    return any(uid in point for uid in kept)


def _pod_cgroups(layout: Layout) -> list[Path]:
    tops = [*Path("/sys/fs/cgroup").glob(f"*{layout.cgroup_root}"), *Path("/sys/fs/cgroup").glob(layout.cgroup_root[1:])]
    return [path for top in tops for path in top.rglob("pod*") if path.is_dir() and _POD_CGROUP.match(path.name)]


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
