"""The file of prepared claims, as upstream writes and reads it."""

import json
import zlib
from pathlib import Path

import pytest

from node.kubelet.cm import checkpoint
from node.kubelet.cm.checkpoint import CheckpointError
from node.kubelet.cm.dra import state
from node.kubelet.cm.dra.state import ClaimInfo, Device

DEVICE = Device("pool", "gpu-0", ("gpu",), ("example.com/gpu=gpu-0",))
INFO = ClaimInfo("claim-uid", "claim", "default", {"pod-b", "pod-a"}, {"gpu.example.com": [DEVICE], "silent.example.com": []})
DATA = (
    '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","Entries":[{"ClaimUID":"claim-uid",'
    '"ClaimName":"claim","Namespace":"default","PodUIDs":{"pod-a":{},"pod-b":{}},"DriverState":{"gpu.example.com":{"Devices":'
    '[{"PoolName":"pool","DeviceName":"gpu-0","ShareID":null,"RequestNames":["gpu"],"CDIDeviceIDs":["example.com/gpu=gpu-0"]}]},'
    '"silent.example.com":{"Devices":[]}}}]}'
)


def test_it_is_written_as_upstream_writes_it() -> None:
    assert state.encode([INFO]) == {"Data": DATA, "Checksum": zlib.crc32(DATA.encode())}


def test_it_comes_back(tmp_path: Path) -> None:
    path = tmp_path / state.FILE
    assert state.load(path) == []
    checkpoint.write(path, state.encode([INFO]))
    assert state.load(path) == [INFO]


def test_what_older_kubelets_leave_out_is_none(tmp_path: Path) -> None:
    """Before there were shares, and Go's ``null`` for an empty list."""
    entry = {"PoolName": "pool", "DeviceName": "gpu-0", "RequestNames": None, "CDIDeviceIDs": None}
    held = {"ClaimUID": "u", "ClaimName": "c", "Namespace": "n", "PodUIDs": None, "DriverState": {"d": {"Devices": [entry]}}}
    data = json.dumps({"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1", "Entries": [held]})
    (found,) = state.decode({"Data": data, "Checksum": zlib.crc32(data.encode())})
    assert found == ClaimInfo("u", "c", "n", set(), {"d": [Device("pool", "gpu-0")]})


@pytest.mark.parametrize(
    ("data", "checksum", "problem"),
    [
        (DATA, 1, "checkpoint is corrupted"),
        ('{"apiVersion":"checkpoint.dra.kubelet.k8s.io/v9"}', None, "its version 'checkpoint.dra.kubelet.k8s.io/v9' is not"),
        ('{"apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","Entries":[{}]}', None, "does not say what it should"),
        ("[", None, "does not say what it should"),
    ],
)
def test_what_cannot_be_used(data: str, checksum: int | None, problem: str) -> None:
    with pytest.raises(CheckpointError, match=problem):
        state.decode({"Data": data, "Checksum": zlib.crc32(data.encode()) if checksum is None else checksum})


@pytest.mark.parametrize(
    ("devices", "request_name", "expected"),
    [
        ([Device("p", "a", ("one",), ("x=a",)), Device("p", "b", ("two",), ("x=b",))], "two", ["x=b"]),
        ([Device("p", "a", ("one",), ("x=a",)), Device("p", "b", ("two",), ("x=b",))], "", ["x=a", "x=b"]),
        ([Device("p", "a", ("one/alternative",), ("x=a", "x=c"))], "one", ["x=a", "x=c"]),
        ([Device("p", "a", (), ("x=a",))], "any", ["x=a"]),
    ],
)
def test_ids_of_a_request(devices: list[Device], request_name: str, expected: list[str]) -> None:
    assert ClaimInfo("u", "c", "n", drivers={"d": devices}).cdi_ids(request_name) == expected
