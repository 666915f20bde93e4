"""`make machines`: the playbooks on Debian machines with systemd, over SSH, from nothing to an upgraded cluster and back.

    python -m tests.ansible.run [--machines 2] [--control-planes 1] [--steps site,smoke,again,check,...] [--keep]

Each machine is a Debian with namespaces of its own (:mod:`tests.support.systemd_machines`); the first ones are control plane and
etcd, all run pods. A step that fails shows what ansible said and ends the run.
"""

import argparse
import functools
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ansible import machine
from tests.ansible.machine import CACHE, ROOT
from tests.support.debian import DebianError, install
from tests.support.systemd_machines import DebianMachine, debian_machines, ssh_options

PLAYBOOKS = ROOT / "ansible"
DIST = CACHE / "dist"
KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/admin.conf"
_CHANGED = re.compile(r"^(\S+) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", re.MULTILINE)


_SECRET = re.compile(r"PRIVATE KEY|client-key-data|token: ?[a-z0-9]{6}[.]")


class StepError(Exception):
    """A step did not do what it should; the text says what."""


@dataclass
class Run:
    inventory: str
    connections: Path  # sockets of ssh: addresses are those of the machines of every other run
    all_machines: Sequence[DebianMachine] = ()
    control_planes: int = 1
    machines: Sequence[DebianMachine] = ()  # those in the inventory

    def use(self, found: Sequence[DebianMachine]) -> None:
        """Write these into the inventory."""
        self.machines = found
        Path(self.inventory).write_text(json.dumps(_inventory(found, self.control_planes), indent=1))

    def playbook(self, name: str, *more: str) -> dict[str, int]:
        """Changes per machine. Raises StepError with the end of what ansible said."""
        command = [
            shutil.which("ansible-playbook") or str(Path(sys.executable).with_name("ansible-playbook")),
            f"--inventory={self.inventory}",
            str(PLAYBOOKS / name),
            *more,
        ]
        settings = {"ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "LANG": "C.UTF-8"}
        settings["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(self.connections)
        with (CACHE / f"{name}.log").open("w") as log:
            done = subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **settings})
        said = (CACHE / f"{name}.log").read_text()
        if done.returncode != 0:
            raise StepError(f"{name} ended with {done.returncode}:\n{said[-6000:]}")
        return {found[1]: int(found[2]) for found in _CHANGED.finditer(said)}

    def unchanged(self, name: str, *more: str) -> None:
        changes = self.playbook(name, *more)
        if any(changes.values()) or not changes:
            log = (CACHE / f"{name}.log").read_text()
            raise StepError(f"{name} changed something: {changes}\n{log[-6000:]}")

    def first(self, command: str) -> str:
        """What a command prints on the first control plane."""
        done = self.machines[0].ssh(command)
        if done.returncode != 0:
            raise StepError(f"{command}: {done.stderr}")
        return done.stdout


def site(run: Run) -> None:
    """Everything that ansible could say is said, and none of it is a secret."""
    run.playbook("site.yml", "-vv", "--diff")
    if found := _SECRET.search((CACHE / "site.yml.log").read_text()):
        raise StepError(f"site.yml shows a secret: {found[0]}...")


def smoke(run: Run) -> None:
    run.playbook("smoke-test.yml")
    print(run.first(f"{KUBECTL} get nodes -o wide"), end="")


def again(run: Run) -> None:
    run.unchanged("site.yml")


def check(run: Run) -> None:
    run.unchanged("site.yml", "--check", "--diff")


def drift(run: Run) -> None:
    """One file that somebody has changed is set right, and its daemon alone is restarted."""
    scheduler = "systemctl show --property=MainPID"
    before = run.first(f"{scheduler} kube-scheduler kube-apiserver kubelet")
    run.first("sed -i s/--v=2/--v=3/ /etc/systemd/system/kube-scheduler.service")
    changes = run.playbook("site.yml")
    after = run.first(f"{scheduler} kube-scheduler kube-apiserver kubelet")
    was, now = before.split(), after.split()
    if was[0] == now[0] or was[1:] != now[1:]:
        raise StepError(f"restarted the wrong daemons: {was} {now} {changes}")


def upgrade(run: Run) -> None:
    """To a version of the same wheels under another name."""
    built = json.loads((DIST / "VERSION").read_text())
    newer = f"{built['version']}-next"
    shutil.copyfile(DIST / f"pybernetes-{built['version']}.tar", DIST / f"pybernetes-{newer}.tar")
    run.playbook("upgrade.yml", f"--extra-vars=product_version={newer}")
    _all_run(run, newer)


def rollback(run: Run) -> None:
    built = json.loads((DIST / "VERSION").read_text())
    run.playbook("upgrade.yml", "--extra-vars=rollback=true")
    _all_run(run, built["version"])


def _all_run(run: Run, version: str) -> None:
    for each in run.machines:
        used = each.ssh("pgrep -fa 'bin/[p]ybernetes'").stdout.splitlines()
        if not used or not all(f"/versions/{version}/bin/" in line for line in used):
            raise StepError(f"{each.name} does not use {version}: {used}")
    ready = run.first(f"{KUBECTL} get nodes --no-headers")
    if "NotReady" in ready or "SchedulingDisabled" in ready:
        raise StepError(f"a node is not back:\n{ready}")


def certs(run: Run) -> None:
    """Every server shows a new certificate, nobody was restarted, and the cluster works on."""
    ports = [(run.machines[0].address, 6443), *((each.address, 10250) for each in run.machines)]
    pids = "systemctl show --property=MainPID kube-apiserver kube-scheduler kubelet kube-proxy kube-dns"
    before, was = [ssl.get_server_certificate(port) for port in ports], run.first(pids)
    run.playbook("certs.yml")
    deadline = time.monotonic() + 120
    while any(ssl.get_server_certificate(port) == old for port, old in zip(ports, before, strict=True)):
        if time.monotonic() > deadline:
            raise StepError("a server keeps its old certificate")
        time.sleep(1)
    if run.first(pids) != was:
        raise StepError("somebody was restarted")
    smoke(run)


def scale(run: Run) -> None:
    """The machine that stood by becomes a node; what runs on the others is left alone."""
    pids = "systemctl show --property=MainPID kube-apiserver kubelet kube-proxy kube-dns"
    was = run.first(pids)
    run.use(run.all_machines)
    run.playbook("scale.yml", f"--limit={run.all_machines[-1].name}")
    if run.first(pids) != was:
        raise StepError("scale.yml restarted a daemon of another machine")
    smoke(run)
    run.unchanged("site.yml")


def remove(run: Run) -> None:
    """It leaves, with its object and all that was on it."""
    gone = run.all_machines[-1]
    run.playbook("remove.yml", f"--limit={gone.name}")
    run.use(run.all_machines[:-1])
    if gone.name in run.first(f"{KUBECTL} get nodes --output=name"):
        raise StepError(f"the object of {gone.name} is still there")
    _nothing_left(gone)
    smoke(run)


def _nothing_left(each: DebianMachine) -> None:
    left = each.ssh(
        "ls -d /etc/kubernetes /opt/pybernetes /var/lib/kubelet/* /var/lib/etcd/default 2>/dev/null;"
        "ip link show cni0 2>/dev/null; ip route | grep 'proto 80'; iptables-save | grep KUBE; pgrep -f 'bin/[p]ybernetes'"
    ).stdout
    if left.strip():
        raise StepError(f"{each.name} keeps {left}")


def reset(run: Run) -> None:
    """Nothing of the product is left running, and a cluster can be made again."""
    run.playbook("reset.yml", "--extra-vars=reset_confirmed=true")
    for each in run.machines:
        _nothing_left(each)


STEPS: dict[str, Callable[[Run], None]] = {
    "site": site,
    "smoke": smoke,
    "again": again,
    "check": check,
    "drift": drift,
    "certs": certs,
    "scale": scale,
    "remove": remove,
    "upgrade": upgrade,
    "rollback": rollback,
    "reset": reset,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machines", type=int, default=3, help="the last one is a node only after the step scale")
    parser.add_argument("--control-planes", type=int, default=1)
    parser.add_argument("--steps", default=",".join(STEPS), help="in this order")
    parser.add_argument("--python", default="/usr/bin/python3", help="builds the wheels; of the machines' version")
    parser.add_argument("--built", action="store_true", help="use the last build as it is")
    parser.add_argument("--wait", action="store_true", help="keep the machines until a line is read")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the machines end, too
    try:
        install("ssh", "openssh-client")
        machine.ensure()
        with tempfile.TemporaryDirectory() as connections:
            if not given.built:
                _timed("build", lambda: _build(Run("localhost,", Path(connections)), given.python))
            _go(given, Path(connections))
    except (StepError, DebianError, RuntimeError, TimeoutError) as error:
        print(f"==> failed: {error}", file=sys.stderr)
        return 1
    return 0


def _build(run: Run, python: str) -> None:
    run.playbook("build.yml", f"--extra-vars=product_python={python}", f"--extra-vars=product_dist={DIST}")


def _go(given: argparse.Namespace, connections: Path) -> None:
    scratch = CACHE / "machines"
    scratch.mkdir(parents=True, exist_ok=True)
    names = [f"cp{i + 1}" if i < given.control_planes else f"worker{i + 1 - given.control_planes}" for i in range(given.machines)]
    began, steps = time.monotonic(), given.steps.split(",")
    with debian_machines(machine.BASE, scratch, names) as found:
        print(f"==> {len(found)} machines up in {time.monotonic() - began:.0f} s", flush=True)
        run = Run(str(scratch / "hosts.json"), connections, found, given.control_planes)
        run.use(found[:-1] if "scale" in steps else found)
        try:
            for step in steps:
                _timed(step, functools.partial(STEPS[step], run))
        finally:
            if given.wait:
                sys.stdin.readline()


def _timed(name: str, do: Callable[[], object]) -> None:
    began = time.monotonic()
    do()
    print(f"==> {name}: {time.monotonic() - began:.0f} s", flush=True)


def _inventory(found: Sequence[DebianMachine], control_planes: int) -> dict[str, Any]:
    first = {each.name: {} for each in found[:control_planes]}
    return {
        "all": {
            "hosts": {each.name: {"ansible_host": each.address} for each in found},
            "vars": {
                "ansible_user": machine.USER,
                "ansible_become": True,
                "ansible_ssh_common_args": " ".join(ssh_options(found[0].key)),
                "product_dist": str(DIST),
                # The kernel is the host's, and this host may not let anybody lower an oom score.
                "preinstall_modules": [],
                "preinstall_sysctls": {"net.ipv4.ip_forward": 1},
                "containerd_restrict_oom_score": True,
            },
            "children": {
                "kube_control_plane": {"hosts": first},
                "etcd": {"hosts": first},
                "kube_node": {"hosts": {each.name: {} for each in found}},
            },
        }
    }


if __name__ == "__main__":
    sys.exit(main())
