"""A whole cluster for end-to-end tests: ``pybernetes up`` in a network namespace of its own, on a private containerd.

Everything is driven from outside, by the commands that a user has: ``pybernetes``, ``kubectl``, ``curl``.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ADDRESS = "192.0.2.10"
GATEWAY = "192.0.2.1"


@dataclass(frozen=True)
class Cluster:
    """A running cluster and the ways to talk to it. Every command runs inside its network namespace."""

    data_dir: Path
    namespace: str  # network namespace
    kubectl_program: str = "kubectl"

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "admin.kubeconfig"

    def inside(self, *argv: str) -> list[str]:
        """The command line that runs ``argv`` in the cluster's network (and only there)."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--", *argv]

    def run(
        self, *argv: str, timeout: float = 60, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; with ``check``, a failure is an AssertionError that shows both outputs."""
        done = subprocess.run(
            self.inside(*argv), input=stdin, capture_output=True, text=True, timeout=timeout, check=False, env=environment()
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(argv)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *argv: str, **options: Any) -> "subprocess.Popen[str]":
        """Start a command and leave it running; the caller ends it."""
        return subprocess.Popen(self.inside(*argv), text=True, env=environment(), **options)

    def pybernetes(self, verb: str, *arguments: str, check: bool = True, timeout: float = 120) -> str:
        argv = [sys.executable, "-m", "cli", *verb.split(), *arguments, "--data-dir", str(self.data_dir)]
        done = self.run(*argv, check=check, timeout=timeout)
        return done.stdout + done.stderr

    def kubectl_argv(self, *arguments: str) -> list[str]:
        """For commands that are started rather than run, or whose exit code matters."""
        return [self.kubectl_program, f"--kubeconfig={self.kubeconfig}", *arguments]

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None, timeout: float = 60) -> str:
        """Stock kubectl as the administrator; its standard output (and error, when it failed and ``check`` is off)."""
        done = self.run(*self.kubectl_argv(*arguments), check=check, stdin=stdin, timeout=timeout)
        return done.stdout if check else done.stdout + done.stderr

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, manifest: str) -> str:
        return self.kubectl("apply", "-f", "-", stdin=manifest)

    def curl(self, url: str, seconds: float = 3) -> str:
        return self.run("curl", "--silent", "--show-error", "--fail", "--max-time", str(seconds), url).stdout

    def inside_pod(self, name: str, namespace: str = "default") -> list[str]:
        """The beginning of a command line that runs in a pod's network: for images without a client that could ask."""
        uid = self.get("pod", name, "-n", namespace)["metadata"]["uid"]
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if uid in (entry / "cgroup").read_text():
                    return ["nsenter", f"--net=/proc/{entry.name}/ns/net", "--"]
        raise AssertionError(f"no process of pod {name}")

    def processes(self) -> dict[str, int]:
        """Pids of the parts that run."""
        parts = json.loads(self.pybernetes("status", "-o", "json", check=False))["parts"]
        return {part["name"]: part["pid"] for part in parts if part["running"]}

    def containers(self) -> dict[str, str]:
        """Container id by ``pod/container``, as the API tells them."""
        pods = self.get("pods", "--all-namespaces")["items"]
        statuses = [
            (pod["metadata"]["name"], item) for pod in pods for item in pod.get("status", {}).get("containerStatuses", [])
        ]
        return {f"{pod}/{item['name']}": item["containerID"] for pod, item in statuses if item.get("containerID")}


def environment() -> Mapping[str, str]:
    """The caller's, with this source tree importable and no kubeconfig of the caller's own."""
    root = str(Path(__file__).parents[2])
    kept = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return {**kept, "PYTHONPATH": root}


def eventually(check: Callable[[], Any], seconds: float = 20, what: str = "") -> Any:
    """Poll until ``check`` returns something true (its value), or fail with what it last said."""
    deadline = time.monotonic() + seconds
    last: object = None
    while True:
        try:
            last = check()
            if last:
                return last
        except (AssertionError, KeyError, IndexError, ValueError) as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or check}; last: {last!r}")
        time.sleep(0.1)


def require_node() -> None:
    """Skip, saying why, where no real node can run."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for program in ("containerd", "runc", "kubectl", "iptables-restore", "nsenter", "ip"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (make setup)")


@contextmanager
def network() -> Iterator[str]:
    """A network namespace with loopback and one more address, as a machine has; its name."""
    name = f"pyb-{uuid.uuid4().hex[:8]}"
    ip = lambda *words: subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: E731
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "uplink")
        ip("-n", name, "address", "add", f"{ADDRESS}/24", "dev", "eth0")
        for interface in ("eth0", "uplink"):
            ip("-n", name, "link", "set", interface, "up")
        # Without a route the kernel refuses cluster IPs before any rule sees them; nobody answers at this gateway.
        ip("-n", name, "route", "add", "default", "via", GATEWAY, "dev", "eth0")
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@contextmanager
def running_cluster(*flags: str) -> Iterator[Cluster]:
    """A cluster that is Ready; stopped and removed at the end, whatever happened."""
    require_node()
    data_dir = Path(tempfile.mkdtemp(prefix="pyb-", dir="/var/tmp"))
    with network() as name:
        cluster = Cluster(data_dir, name)
        try:
            cluster.pybernetes("up", "--detach", "--node-name", "node-1", *flags)
            yield cluster
        finally:
            if os.environ.get("KEEP_CLUSTER"):
                print(f"kept: {cluster}")  # noqa: T201 - for a person who looks into a failure
            else:
                cluster.pybernetes("down", "--purge", check=False)
                shutil.rmtree(data_dir, ignore_errors=True)
