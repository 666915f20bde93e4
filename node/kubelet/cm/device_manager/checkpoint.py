"""The file ``kubelet_internal_checkpoint``: who has which devices, in the form that upstream's kubelet writes and reads.

``manager`` saves it before a container gets a device and reads it when it starts. Source: upstream's
``cm/devicemanager/checkpoint``.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from node.kubelet.cm import checkpoint as files
from node.kubelet.cm.checkpoint import CheckpointError, go_map, go_slice
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb
from node.kubelet.cm.device_manager.devices import Given, Holding

NAME = "kubelet_internal_checkpoint"
_NIL = "<nil>"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``registered``: the healthy devices of each resource that has a plugin, or had one lately."""

    holdings: tuple[Holding, ...] = ()
    registered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Blocks until it is on the disk. Raises OSError."""
    files.write(folder / NAME, encode(checkpoint))


def read(folder: Path) -> Checkpoint | None:
    """None if there is none. Raises CheckpointError or OSError."""
    document = files.read(folder / NAME)
    return decode(document) if document is not None else None


def encode(checkpoint: Checkpoint) -> dict[str, Any]:
    """The file's content; devices that are only chosen are not in it. Pure."""
    rows = sorted(
        (each for each in checkpoint.holdings if each.given.response is not None),
        key=lambda each: (each.uid, each.container, each.resource),
    )
    data = {
        "PodDeviceEntries": [_entry(each) for each in rows] or None,
        "RegisteredDevices": {name: sorted(ids) for name, ids in sorted(checkpoint.registered.items())},
    }
    return {"Data": data, "Checksum": files.checksum(_shown(data))}


def decode(document: Mapping[str, Any]) -> Checkpoint:
    """Raises CheckpointError. Pure."""
    try:
        data, checksum = document["Data"], document["Checksum"]
        text = _shown(data)
        found = Checkpoint(
            tuple(_holding(each) for each in data["PodDeviceEntries"] or ()),
            {name: tuple(ids or ()) for name, ids in (data["RegisteredDevices"] or {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, DecodeError) as error:
        raise CheckpointError(f"{NAME} cannot be read: {type(error).__name__}: {error}") from None
    if files.checksum(text) != checksum:
        raise CheckpointError(f"{NAME}: checkpoint is corrupted")
    return found


def _entry(row: Holding) -> dict[str, Any]:
    assert row.given.response is not None
    return {
        "PodUID": row.uid,
        "ContainerName": row.container,
        "ResourceName": row.resource,
        "DeviceIDs": {str(node): list(ids) for node, ids in row.given.nodes.items()},
        "AllocResp": base64.b64encode(row.given.response.SerializeToString()).decode(),
    }


def _holding(entry: Mapping[str, Any]) -> Holding:
    response = pb.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"] or ""))
    nodes = {int(node): tuple(ids or ()) for node, ids in (entry["DeviceIDs"] or {}).items()}
    return Holding(str(entry["PodUID"]), str(entry["ContainerName"]), str(entry["ResourceName"]), Given(nodes, response))


# The text under the checksum: what Go's spew makes of the data


def _shown(data: Mapping[str, Any]) -> str:
    entries, registered = data["PodDeviceEntries"], data["RegisteredDevices"]
    rows = _NIL if entries is None else go_slice([_shown_entry(each) for each in entries])
    lists = _NIL if registered is None else go_map({name: _ids(ids) for name, ids in registered.items()})
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){rows} "
        f"RegisteredDevices:(map[string][]string){lists}}}"
    )


def _shown_entry(entry: Mapping[str, Any]) -> str:
    nodes, answer = entry["DeviceIDs"], entry["AllocResp"]
    devices = _NIL if nodes is None else go_map({int(node): _ids(ids) for node, ids in nodes.items()})
    octets = _NIL if answer is None else go_slice(base64.b64decode(answer, validate=True))
    return (
        f"{{PodUID:(string){entry['PodUID']} ContainerName:(string){entry['ContainerName']} "
        f"ResourceName:(string){entry['ResourceName']} DeviceIDs:(checkpoint.DevicesPerNUMA){devices} "
        f"AllocResp:([]uint8){octets}}}"
    )


def _ids(ids: Sequence[str] | None) -> str:
    return _NIL if ids is None else go_slice(ids)
