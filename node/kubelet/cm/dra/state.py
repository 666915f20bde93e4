"""Which claims were made ready for which pods, and the file that says so to the next kubelet: ``dra_manager_state``.

The file is upstream's (``pkg/kubelet/cm/dra/state``), so that either kubelet adopts what the other has prepared. ``manager``
keeps the claims in memory and writes the file before it asks a driver for anything.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node.kubelet.cm import checkpoint
from node.kubelet.cm.checkpoint import CheckpointError

FILE = "dra_manager_state"
_KIND, _VERSION = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Device:
    """What a driver says of one device of a claim. Without ``requests`` it belongs to all of them."""

    pool: str
    name: str
    requests: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    share: str = ""


@dataclass(slots=True)
class ClaimInfo:
    """A claim of this node. ``drivers`` has every driver that gives devices to it, answered or not."""

    uid: str
    name: str
    namespace: str
    pods: set[str] = field(default_factory=set)
    drivers: dict[str, list[Device]] = field(default_factory=dict)
    prepared: bool = False
    """Of what was read from the file nobody knows: drivers are asked once more, as they may have lost it with the node."""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def cdi_ids(self, request: str) -> list[str]:
        """Ids for the runtime, of one request, or of all (``request`` is empty)."""
        devices = [device for listed in self.drivers.values() for device in listed]
        return [name for device in devices if _belongs(device, request) for name in device.cdi]


def _belongs(device: Device, request: str) -> bool:
    """A container names requests; a driver may name the alternative (``request/alternative``) that was chosen."""
    return not request or not device.requests or any(name.partition("/")[0] == request for name in device.requests)


def encode(infos: Iterable[ClaimInfo]) -> dict[str, Any]:
    """The document of the file. Pure."""
    entries = [
        {
            "ClaimUID": info.uid,
            "ClaimName": info.name,
            "Namespace": info.namespace,
            "PodUIDs": {uid: {} for uid in sorted(info.pods)},
            "DriverState": {driver: {"Devices": [_entry(each) for each in devices]} for driver, devices in info.drivers.items()},
        }
        for info in infos
    ]
    data = json.dumps({"kind": _KIND, "apiVersion": _VERSION, "Entries": entries}, separators=(",", ":"))
    return {"Data": data, "Checksum": zlib.crc32(data.encode())}


def _entry(device: Device) -> dict[str, Any]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.name,
        "ShareID": device.share or None,
        "RequestNames": list(device.requests) or None,
        "CDIDeviceIDs": list(device.cdi) or None,
    }


def decode(document: Mapping[str, Any]) -> list[ClaimInfo]:
    """Raises CheckpointError. Pure."""
    data, checksum = document.get("Data"), document.get("Checksum")
    if not isinstance(data, str) or zlib.crc32(data.encode()) != checksum:
        raise CheckpointError("checkpoint is corrupted")
    try:
        written = json.loads(data)
        if written.get("apiVersion") != _VERSION:
            raise CheckpointError(f"its version {written.get('apiVersion')!r} is not {_VERSION}")
        return [_info(entry) for entry in written.get("Entries") or ()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"it does not say what it should: {error}") from None


def _info(entry: Mapping[str, Any]) -> ClaimInfo:
    states = entry.get("DriverState") or {}
    drivers = {driver: [_device(each) for each in (held or {}).get("Devices") or ()] for driver, held in states.items()}
    return ClaimInfo(entry["ClaimUID"], entry["ClaimName"], entry["Namespace"], set(entry.get("PodUIDs") or ()), drivers)


def _device(entry: Mapping[str, Any]) -> Device:
    requests, cdi = entry.get("RequestNames") or (), entry.get("CDIDeviceIDs") or ()
    return Device(entry["PoolName"], entry["DeviceName"], tuple(requests), tuple(cdi), entry.get("ShareID") or "")


def load(path: Path) -> list[ClaimInfo]:
    """What a predecessor left. Raises CheckpointError, OSError."""
    document = checkpoint.read(path)
    return decode(document) if document is not None else []
