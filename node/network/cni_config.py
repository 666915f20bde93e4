"""The CNI configuration of this node: a bridge for its pod CIDR, addresses by host-local, host ports by portmap.

The kubelet writes it as soon as it knows the node's pod CIDR; the runtime watches the folder. A folder in which somebody
else (a network add-on) has put a configuration is left alone.
"""

import ipaddress
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE_NAME = "10-pybernetes.conflist"
NETWORK = "pybernetes"
_SUFFIXES = (".conf", ".conflist", ".json")


def conflist(pod_cidrs: Sequence[str], bridge: str, data_dir: Path) -> dict[str, Any]:
    """The network of one node. ``data_dir`` is where host-local remembers leases."""
    networks = [ipaddress.ip_network(cidr) for cidr in pod_cidrs]
    routes = [{"dst": "0.0.0.0/0" if network.version == 4 else "::/0"} for network in networks]
    bridged = {
        "type": "bridge",
        "bridge": bridge,
        "isGateway": True,
        "ipMasq": False,  # masquerade.py does it for all pods at once
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": str(network)}] for network in networks],
            "routes": routes,
            "dataDir": str(data_dir),
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": NETWORK, "plugins": [bridged, portmap]}


def foreign_config(conf_dir: Path) -> Path | None:
    """A configuration in the folder that is not ours."""
    if not conf_dir.is_dir():
        return None
    found = (entry for entry in sorted(conf_dir.iterdir()) if entry.suffix in _SUFFIXES and entry.name != FILE_NAME)
    return next(found, None)


def write(conf_dir: Path, config: dict[str, Any]) -> bool:
    """Put the configuration in place atomically; whether it changed. Blocks."""
    conf_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
    target = conf_dir / FILE_NAME
    text = json.dumps(config, indent=2) + "\n"
    if target.exists() and target.read_text() == text:
        return False
    temporary = conf_dir / f".{FILE_NAME}.{os.getpid()}"
    temporary.write_text(text)
    temporary.chmod(0o600)
    temporary.replace(target)
    return True
