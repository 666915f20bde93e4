"""Networks of pods that a killed containerd had made, or was making, for sandboxes of which it then knows nothing.

containerd 1.6 makes a pod's network before it records the sandbox: killed in between, a network namespace, an address and
packet rules would stay for good. ``up`` and ``down`` call :func:`clear` after ``unfinished.clear``, before they start a private
containerd: what belongs to no task is then nobody's, or that of a dead sandbox, whose end containerd brings about without it.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bootstrap.containerd import Layout
from node.network.cni_config import FILE_NAME

_PATIENCE = 5.0
_RESULTS = Path("/var/lib/cni/results")  # where the runtime's library remembers what plugins answered
_BUNDLES = Path("io.containerd.runtime.v2.task", "k8s.io")


def clear(where: Layout) -> list[str]:
    """Give back every address of our pod network, and remove every network namespace of ``where``, that no task uses; ids
    and paths of what went. Call while no containerd runs there."""
    _end_plugins(where)
    bundles = [entry for entry in (where.state / _BUNDLES).glob("*") if entry.is_dir()]
    owners, used = {entry.name for entry in bundles}, {path for entry in bundles for path in _namespaces(entry)}
    config = _configuration(where)
    lost = sorted({owner for owner in _owners(config) if owner[0] not in owners})
    for sandbox, interface in lost:
        _delete(where, config, sandbox, interface)
    unused = sorted(str(path) for path in where.state.glob("*cri*/netns/*") if str(path) not in used)
    for path in unused:
        subprocess.run(["umount", "--lazy", "--", path], capture_output=True, check=False)
        with contextlib.suppress(OSError):
            os.unlink(path)
    return [sandbox for sandbox, _ in lost] + unused


def _configuration(where: Layout) -> dict[str, Any]:
    """The network that our kubelet writes. Of somebody else's nothing is known, so nothing is taken away."""
    try:
        found: dict[str, Any] = json.loads((where.cni_conf_dir / FILE_NAME).read_bytes())
    except (OSError, ValueError):
        return {"plugins": []}
    return found


def _namespaces(bundle: Path) -> list[str]:
    """Paths of network namespaces that a task runs in. One whose description is not written yet has none."""
    try:
        listed = json.loads((bundle / "config.json").read_bytes())["linux"]["namespaces"]
        return [str(each["path"]) for each in listed if each["type"] == "network" and each.get("path")]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _owners(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(sandbox, interface) of each address; host-local writes one file for each, named by the address."""
    for plugin in config["plugins"]:
        folder = (plugin.get("ipam") or {}).get("dataDir")
        for file in Path(folder, config["name"]).glob("[0-9]*") if folder else ():
            with contextlib.suppress(OSError, IndexError):
                lines = file.read_text().split()
                yield lines[0], lines[1] if len(lines) > 1 else "eth0"


def _delete(where: Layout, config: Mapping[str, Any], sandbox: str, interface: str) -> None:
    """What the runtime would ask the network plugins, last first; a namespace that may be gone is not named, as CNI allows."""
    environment = {
        **os.environ,
        "CNI_COMMAND": "DEL",
        "CNI_CONTAINERID": sandbox,
        "CNI_NETNS": "",
        "CNI_IFNAME": interface,
        "CNI_PATH": str(where.cni_bin_dir),
    }
    for plugin in reversed(config["plugins"]):
        given = json.dumps({"cniVersion": config["cniVersion"], "name": config["name"], **plugin}).encode()
        program = [str(where.cni_bin_dir / plugin["type"])]
        subprocess.run(program, input=given, env=environment, capture_output=True, check=False, timeout=30)
    for name in (f"{config['name']}-{sandbox}-{interface}", f"cni-loopback-{sandbox}-lo"):
        (_RESULTS / name).unlink(missing_ok=True)


def _end_plugins(where: Layout) -> None:
    """Wait for the network plugins that the dead containerd started: they would add what was just taken away. One that takes
    too long is killed; one that cannot even be killed is left."""
    began = time.monotonic()
    while (running := _plugins(where)) and (waited := time.monotonic() - began) < 2 * _PATIENCE:
        for pid in running if waited > _PATIENCE else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _plugins(where: Layout) -> list[int]:
    found, mark = [], f"CNI_NETNS={where.state}/".encode()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and mark in Path("/proc", entry, "environ").read_bytes():
                found.append(int(entry))
        except OSError:
            continue
    return found
