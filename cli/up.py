"""``pybernetes up``: the whole single-node cluster in one folder, started or resumed. `down` is its opposite."""

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.cluster import containerd, etcd, external, lost_networks, plan, preflight, probe, processes, unfinished
from cli.cluster.layout import Layout, data_dir_option, layout_of
from cli.cluster.processes import Process, ProcessSpec
from cli.cluster.settings import Settings, load, resolve, save
from cri.facts import Facts

# For the slowest machine: a part that dies is noticed at once. An emulated one took 113 s to its API server.
API_SECONDS = 180.0
NODE_SECONDS = 300.0
STOP_SECONDS = 10.0

Command = TypeVar("Command", bound=Callable[..., Any])

PORT = click.IntRange(1, 65535)

FLAGS: tuple[tuple[str, Any, str], ...] = (
    ("--node-name", str, "Name of the node object [default: the host's name]."),
    ("--node-ip", str, "Address of this node [default: that of the default route]."),
    ("--containerd", str, "Use this running runtime (unix:///...) in place of a private containerd."),
    ("--storage", click.Choice(["sqlite", "etcd"]), "Where objects are kept: a file, or a private etcd [default: sqlite]."),
    ("--etcd-servers", str, "Use this running etcd (https://HOST:2379,...) in place of a private one."),
    ("--etcd-cafile", str, "CA of the servers' certificates."),
    ("--etcd-certfile", str, "Client certificate shown to those servers."),
    ("--etcd-keyfile", str, "Key of --etcd-certfile."),
    ("--etcd-port", PORT, "Port of a private etcd, on loopback [default: 2379]."),
    ("--etcd-peer-port", PORT, "Port of a private etcd for further members [default: 2380]."),
    ("--bind-address", str, "Address the API server listens on [default: 0.0.0.0]."),
    ("--secure-port", PORT, "Port of the API server [default: 6443]."),
    ("--kubelet-port", PORT, "Port of the kubelet [default: 10250]."),
    ("--kubelet-healthz-port", PORT, "Port of the kubelet's health check [default: 10248]."),
    ("--controller-manager-port", PORT, "Port of the controller manager [default: 10257]."),
    ("--scheduler-port", PORT, "Port of the scheduler [default: 10259]."),
    ("--proxy-healthz-port", PORT, "Port of the proxy's health check [default: 10256]."),
    ("--proxy-metrics-port", PORT, "Port of the proxy's metrics [default: 10249]."),
    ("--proxy-mode", click.Choice(["iptables", "ipvs", "nftables"]), "What the proxy programs [default: iptables]."),
    ("--dns-port", PORT, "Port of the node's address to which the Service kube-dns leads [default: 10053]."),
    ("--dns-metrics-port", PORT, "Port of the DNS server's metrics [default: 9153]."),
    ("--service-cluster-ip-range", str, "Range of cluster IPs [default: 10.96.0.0/12]."),
    ("--service-node-port-range", str, "Range of node ports [default: 30000-32767]."),
    ("--cluster-cidr", str, "Range of pod addresses [default: 10.244.0.0/16]."),
    ("--cluster-domain", str, "DNS domain of the cluster [default: cluster.local]."),
    ("--bridge", str, "Name of the pod bridge [default: cni0]."),
    ("--pod-routes", click.Choice(["none", "direct"]), "Route to the pods of nodes that join, on one segment [default: none]."),
    ("--cni-bin-dir", str, "Folder of the CNI plugins [default: /usr/lib/cni]."),
    ("--v", int, "Verbosity of the daemons' logs [default: 2]."),
)


def cluster_flags(function: Command) -> Command:
    """Add one option per setting; each defaults to None, which stands for "as last time"."""
    for name, kind, text in reversed(FLAGS):
        function = click.option(name, type=kind, default=None, help=text)(function)
    return function


@click.command(
    epilog="Example: pybernetes up --detach --data-dir /tmp/k; kubectl --kubeconfig /tmp/k/admin.kubeconfig get nodes",
)
@data_dir_option
@click.option("--detach", is_flag=True, help="Return when the node is Ready; `pybernetes down` stops the cluster.")
@cluster_flags
def up(data_dir: str, detach: bool, **flags: Any) -> None:
    """Start a whole single-node cluster, or resume one: same objects, running pods adopted, nothing doubled.

    Flags are remembered in the data directory. Without --detach the command stays and watches over the daemons; Ctrl-C
    stops them and leaves the containers running for the next `up`.
    """
    preflight.require_root()
    layout = layout_of(data_dir)
    make_folders(layout)
    with exclusive(layout):
        before = load(layout.settings)
        settings = with_runtime(resolve(flags, layout.settings, tell))
        check_same_runtime(layout, before, settings)
        etcd.check_same_store(layout, before, settings)
        running = bring_up(layout, settings, moved=before.api_address not in ("", settings.api_address))
        if detach:
            return
    from cli.foreground import watch_over

    watch_over(layout, running)


def with_runtime(settings: Settings) -> Settings:
    """With what a runtime that is not ours says of itself. Raises click.ClickException when it does not answer."""
    facts = external.ask(settings.containerd) if settings.containerd else Facts()
    return replace(
        settings, cni_conf_dir=facts.cni_conf_dir, sandbox_image=facts.sandbox_image, systemd_cgroup=facts.systemd_cgroup
    )


def check_same_runtime(layout: Layout, before: Settings, settings: Settings) -> None:
    """A runtime cannot be exchanged under running pods: nobody would look after them. Raises click.ClickException."""
    # `down` takes the records away, after the pods
    if before.containerd != settings.containerd and any(layout.run.glob("*.json")):
        old = before.containerd or "its private containerd"
        raise click.ClickException(f"the cluster has its pods in {old}: pybernetes down --data-dir {layout.data_dir} first")


def make_folders(layout: Layout) -> None:
    """Create the data directory, private to root. Raises click.ClickException when that cannot be done."""
    try:
        for folder in (layout.data_dir, layout.pki, layout.kubeconfigs, layout.run, layout.audit_log.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (layout.logs, layout.images, layout.cni_conf, layout.kubelet):
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        # Pods run as any user, and bind mounts below this folder must be reachable for them; secrets are 0700 below.
        layout.data_dir.chmod(0o711)
    except OSError as error:
        raise click.ClickException(f"cannot make {error.filename}: {error.strerror}; choose another --data-dir") from error


class LockedError(click.ClickException):
    """Somebody else holds the cluster's lock."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(f"another `pybernetes up` or `down` is at work on {layout.data_dir}; wait for it, or stop it")


@contextlib.contextmanager
def exclusive(layout: Layout) -> Iterator[None]:
    """Hold the lock of `up` and `down`, so that two of them never act on one cluster at once. Raises LockedError."""
    with (layout.run / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(layout) from error
        yield


def bring_up(layout: Layout, settings: Settings, moved: bool) -> dict[str, Process]:
    """Start or adopt every process and wait until the node is Ready. Returns the processes by name.

    When the API server ``moved`` to another address, the daemons that know only the old one are started anew.
    """
    began = time.monotonic()
    found = {name: processes.find(name, layout.data_dir, layout.run) for name in plan.PROCESSES}
    ours = any(process is not None for name, process in found.items() if name != plan.CONTAINERD)
    preflight.check(settings, layout.data_dir, own_containerd=not settings.containerd, runs_already=ours)
    preflight.prepare_kernel()
    # imported late: cryptography is heavy and `down` and `status` share this module
    from bootstrap.encryption import ensure_encryption_config
    from bootstrap.kubeconfigs import write_kubeconfigs
    from bootstrap.pki import Identity, ensure_pki

    identity = Identity(
        node_name=settings.node_name,
        node_ip=settings.node_ip,
        service_ip=settings.service_ip,
        cluster_domain=settings.cluster_domain,
        api_port=settings.secure_port,
    )
    ensure_pki(layout.pki, identity)
    ensure_encryption_config(layout.encryption_config)
    write_kubeconfigs(layout.pki, layout.kubeconfigs, layout.admin_kubeconfig, identity)
    save(settings, layout.settings)
    if moved:
        for name in (plan.CONTROL, plan.NODE):
            if process := found.pop(name, None):
                processes.stop(process, STOP_SECONDS)
    running = start_all(layout, settings, found)
    wait_for_api(layout, settings, running, began)
    apply_cluster_dns(layout, settings)
    wait_for_node(layout, settings, running, began)
    tell(f"kubeconfig: {layout.admin_kubeconfig}")
    return running


def start_all(layout: Layout, settings: Settings, found: Mapping[str, Process | None]) -> dict[str, Process]:
    """Start what does not run. All at once: each part waits for the ones it needs, and two cores share the imports."""
    running: dict[str, Process] = {}
    endpoint = containerd.endpoint(layout, settings)
    apiserver, *others = plan.daemons(layout, settings, endpoint)
    first = [apiserver]
    if not settings.containerd:
        first.insert(0, containerd.specification(layout, settings))
        if found.get(plan.CONTAINERD) is None:
            unfinished.clear(containerd.private(layout, settings))
            lost_networks.clear(containerd.private(layout, settings))
    if plan.ETCD in plan.uses(settings):
        first.insert(0, etcd.specification(layout, settings))
    for spec in first:
        running[spec.name] = adopt_or_start(layout, spec, found.get(spec.name))
    load_pause_image(layout, settings, running)
    for spec in others:
        running[spec.name] = adopt_or_start(layout, spec, found.get(spec.name))
    return running


def adopt_or_start(layout: Layout, spec: ProcessSpec, found: Process | None) -> Process:
    """Keep a process that runs the same code with the same arguments, replace one that does not, start one that is missing."""
    if found is not None:
        difference = what_differs(spec, found)
        if not difference:
            tell(f"{spec.name} runs already (pid {found.pid})")
            return found
        tell(f"{spec.name} runs {difference} (pid {found.pid}): replacing it")
        processes.stop(found, STOP_SECONDS)
    rotate(spec.log)
    started = processes.start(spec, layout.data_dir, layout.run)
    tell(f"started {spec.name} (pid {started.pid})")
    return started


def what_differs(spec: ProcessSpec, found: Process) -> str:
    """Why a running process is not the wanted one, in words that follow "runs"; empty when it is."""
    if found.argv != tuple(spec.argv):
        return "with other flags"
    return "other code" if found.code() != spec.env.get(processes.MARK_CODE, "") else ""


def rotate(log: Path, limit: int = 20 << 20) -> None:
    """Keep a daemon's log from growing for ever: one older generation is kept."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > limit:
            log.rename(log.with_suffix(".log.1"))


def load_pause_image(layout: Layout, settings: Settings, running: Mapping[str, Process]) -> None:
    """Give the runtime its sandbox image, made here from catatonit, unless it has it."""
    from bootstrap.images import PAUSE_REFERENCE, pause_image, write_archive

    socket = containerd.socket_of(layout, settings)
    wait_for_runtime(layout, socket, running.get(plan.CONTAINERD))
    reference = settings.sandbox_image or PAUSE_REFERENCE
    if reference not in containerd.image_references(socket):
        archive = layout.images / "pause.tar"
        write_archive([pause_image(reference)], archive)
        containerd.import_archive(socket, archive)


def wait_for_runtime(layout: Layout, socket: str, ours: Process | None) -> None:
    """Wait until the runtime answers; ``ours`` is its process when it is the private one."""
    watched = {plan.CONTAINERD: ours} if ours is not None else {}
    seconds = API_SECONDS if watched else STOP_SECONDS
    wait_until(lambda: containerd.answers(socket), seconds, f"the container runtime at {socket} does not answer", layout, watched)


def wait_for_api(layout: Layout, settings: Settings, running: Mapping[str, Process], began: float) -> None:
    def ready() -> bool:
        status, _ = probe.api_get(layout, settings.node_ip, settings.secure_port, "/readyz")
        return status == 200

    needed = {name: running[name] for name in (plan.ETCD, plan.APISERVER) if name in running}
    wait_until(ready, API_SECONDS, "the API server does not become ready", layout, needed)
    tell(f"API server ready after {time.monotonic() - began:.1f} s at https://{settings.node_ip}:{settings.secure_port}")


def apply_cluster_dns(layout: Layout, settings: Settings) -> None:
    """Give the cluster the objects that its DNS servers need. Raises click.ClickException when it refuses one."""
    from bootstrap.cluster_dns import objects

    try:
        probe.api_apply(layout, settings.node_ip, settings.secure_port, objects(settings.dns_ip))
    except OSError as error:
        raise click.ClickException(f"cannot give the cluster what its DNS needs: {error}") from error


def wait_for_node(layout: Layout, settings: Settings, running: Mapping[str, Process], began: float) -> None:
    def ready() -> bool:
        path = f"/api/v1/nodes/{settings.node_name}"
        status, node = probe.api_get(layout, settings.node_ip, settings.secure_port, path)
        return status == 200 and probe.node_ready(node)

    wait_until(ready, NODE_SECONDS, f"node {settings.node_name} does not become Ready", layout, running)
    tell(f"node {settings.node_name} Ready after {time.monotonic() - began:.1f} s")


def wait_until(
    ready: Callable[[], bool], seconds: float, complaint: str, layout: Layout, watched: Mapping[str, Process], pause: float = 0.05
) -> None:
    """Poll until ``ready``; stops early, with the log's last lines, when a process that it needs has died."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if ready():
                return
        for name, process in watched.items():
            processes.reap(process.pid)
            if not process.alive():
                raise click.ClickException(f"{complaint}: {name} has stopped{last_words(layout, process)}")
        if time.monotonic() > deadline:
            detail = last_words(layout, list(watched.values())[-1]) if watched else ""
            raise click.ClickException(f"{complaint} within {seconds:.0f} s{detail}")
        time.sleep(pause)


def last_words(layout: Layout, process: Process, lines: int = 12) -> str:
    """The end of what a process wrote to its log, indented, to stand in an error message."""
    log = layout.logs / f"{process.name}.log"
    try:
        text = log.read_bytes()[process.log_start :].decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return ""
    return f"\nthe end of {log}:\n" + "\n".join(f"  {line}" for line in text) if text else f"; {log} is empty"


def tell(text: str) -> None:
    """One line of progress."""
    click.echo(f"  {text}")
