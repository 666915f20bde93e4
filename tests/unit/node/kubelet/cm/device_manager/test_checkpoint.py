"""``kubelet_internal_checkpoint``: files that upstream's kubelets wrote are read, and written again to the byte."""

import json
from pathlib import Path

import pytest

from node.kubelet.cm.checkpoint import CheckpointError
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb
from node.kubelet.cm.device_manager.checkpoint import NAME, Checkpoint, decode, encode, read, write
from node.kubelet.cm.device_manager.devices import Given, Holding

# as shown in public bug reports and guides: kubelets of v1.16 to v1.34 with NVIDIA's plugin
NO_PODS = """{"Data":{"PodDeviceEntries":null,
"RegisteredDevices":{"nvidia.com/gpu":["GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0"]}},"Checksum":3952659280}"""
ONE_POD = """{"Data":{"PodDeviceEntries":[{"PodUID":"bf52b2cd-b611-4e79-86b1-280b283185c3","ContainerName":"check",
"ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["tegra"]},"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"}],
"RegisteredDevices":{"nvidia.com/gpu":["tegra"]}},"Checksum":3660592824}"""


@pytest.mark.parametrize("text", [NO_PODS, ONE_POD])
def test_upstreams_files_come_back_the_same(text: str) -> None:
    document = json.loads(text)
    assert encode(decode(document)) == document


def test_what_it_says() -> None:
    found = decode(json.loads(ONE_POD))
    (row,) = found.holdings
    assert (row.container, row.resource, row.given.ids) == ("check", "nvidia.com/gpu", {"tegra"})
    assert row.given.response is not None
    assert dict(row.given.response.envs) == {"NVIDIA_VISIBLE_DEVICES": "tegra"}
    assert found.registered == {"nvidia.com/gpu": ("tegra",)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("tegra", "vegra", id="changed"),
        pytest.param('"Checksum":3660592824', '"Checksum":1', id="checksum"),
        pytest.param('"PodUID"', '"PodUiD"', id="field"),
        pytest.param("Ch8KFk5W", "Ch8K*k5W", id="base64"),
        pytest.param('{"-1":["tegra"]}', '{"x":["tegra"]}', id="node"),
        pytest.param('"AllocResp":"Ch8K', '"AllocResp":"/h8K', id="protobuf"),
    ],
)
def test_damage_is_seen(old: str, new: str) -> None:
    with pytest.raises(CheckpointError):
        decode(json.loads(ONE_POD.replace(old, new)))


def test_on_the_disk(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    answer = pb.ContainerAllocateResponse(envs={"A": "b"}, cdi_devices=[pb.CDIDevice(name="x.com/y=z")])
    there = Holding("u", "c", "x.com/r", Given({0: ("a",), 1: ("a", "b")}, answer))
    chosen = Holding("u", "d", "x.com/r", Given({-1: ("c",)}))
    write(tmp_path, Checkpoint((there, chosen), {"x.com/r": ("a", "b"), "x.com/none": ()}))
    assert read(tmp_path) == Checkpoint((there,), {"x.com/r": ("a", "b"), "x.com/none": ()})
    assert [entry.name for entry in tmp_path.iterdir()] == [NAME]
    (tmp_path / NAME).write_text("{")
    with pytest.raises(CheckpointError):
        read(tmp_path)
