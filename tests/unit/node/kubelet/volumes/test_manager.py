import base64
import os
import stat
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apimachinery import errors, times
from component.clock import FakeClock
from node.kubelet.interface import VolumeError
from node.kubelet.volumes import mounts
from node.kubelet.volumes.manager import Manager

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting tmpfs needs root")


class Objects:
    """An ObjectSource over dicts. It does not imitate caching or latency."""

    def __init__(self, clock: FakeClock) -> None:
        self.config_maps: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.tokens = 0
        self.clock = clock

    async def config_map(self, namespace: str, name: str) -> Mapping[str, Any]:
        if name not in self.config_maps:
            raise errors.not_found("configmaps", name)
        return self.config_maps[name]

    async def secret(self, namespace: str, name: str) -> Mapping[str, Any]:
        if name not in self.secrets:
            raise errors.not_found("secrets", name)
        return self.secrets[name]

    async def service_account_token(self, namespace: str, name: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        self.tokens += 1
        expires = self.clock.now() + timedelta(seconds=spec["expirationSeconds"])
        return {"status": {"token": f"token-{self.tokens}", "expirationTimestamp": times.format_time(expires)}}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def objects(clock: FakeClock) -> Objects:
    return Objects(clock)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "pods/u1").mkdir(parents=True)
    yield tmp_path
    mounts.unmount_below(tmp_path)


@pytest.fixture
def manager(objects: Objects, root: Path, clock: FakeClock) -> Manager:
    return Manager(objects, root, allocatable=lambda: {"cpu": "2", "memory": "1Gi"}, clock=clock)


def pod(*volumes: dict[str, Any], **spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "uid": "u1", "labels": {"b": '2"x', "a": "1"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}], "volumes": list(volumes), **spec}}


async def mount(manager: Manager, root: Path, *volumes: dict[str, Any], **spec: Any) -> Path:
    mounted = await manager.mount(pod(*volumes, **spec), root / "pods/u1")
    return mounted[volumes[0]["name"]].host_path


async def test_empty_dir_keeps_its_data_over_a_restart(manager: Manager, root: Path) -> None:
    path = await mount(manager, root, {"name": "v", "emptyDir": {}})
    assert path == root / "pods/u1/volumes/kubernetes.io~empty-dir/v"
    assert stat.S_IMODE(path.stat().st_mode) == 0o777
    (path / "x").write_text("kept")
    await mount(manager, root, {"name": "v", "emptyDir": {}})
    assert (path / "x").read_text() == "kept"


async def test_memory_empty_dir_is_a_bounded_tmpfs(manager: Manager, root: Path) -> None:
    volume = {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    path = await mount(manager, root, volume)
    assert mounts.mounted_as(path) == "tmpfs"
    size = os.statvfs(path)
    assert size.f_blocks * size.f_frsize == 1 << 20
    await mount(manager, root, volume)
    assert len(mounts.mounts_below(path)) == 1


async def test_fs_group_owns_the_volume(manager: Manager, root: Path) -> None:
    path = await mount(manager, root, {"name": "v", "emptyDir": {}}, securityContext={"fsGroup": 4711})
    assert path.stat().st_gid == 4711
    assert path.stat().st_mode & stat.S_ISGID


async def test_unmount_removes_everything_but_what_links_point_to(manager: Manager, root: Path) -> None:
    outside = root / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    path = await mount(manager, root, {"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}})
    (path / "link").symlink_to(outside)
    (path / "inner").mkdir()
    mounts.bind(str(outside), str(path / "inner"))
    await manager.unmount("u1", root / "pods/u1")
    assert os.listdir(root / "pods/u1") == []
    assert (outside / "precious").exists()
    await manager.unmount("u1", root / "pods/u1")


async def test_config_map_with_items_and_modes(manager: Manager, objects: Objects, root: Path) -> None:
    objects.config_maps["c"] = {"data": {"k": "v"}, "binaryData": {"b": base64.b64encode(b"\xff").decode()}}
    items = [{"key": "k", "path": "d/k", "mode": 0o600}, {"key": "b", "path": "b"}]
    path = await mount(manager, root, {"name": "v", "configMap": {"name": "c", "items": items, "defaultMode": 0o640}})
    assert (path / "d/k").read_text() == "v"
    assert (path / "b").read_bytes() == b"\xff"
    assert [stat.S_IMODE((path / name).stat().st_mode) for name in ("d/k", "b")] == [0o600, 0o640]


async def test_secret_lives_on_tmpfs_and_follows_changes(manager: Manager, objects: Objects, root: Path) -> None:
    objects.secrets["s"] = {"data": {"k": base64.b64encode(b"one").decode()}}
    volume = {"name": "v", "secret": {"secretName": "s"}}
    path = await mount(manager, root, volume)
    assert mounts.mounted_as(path) == "tmpfs"
    objects.secrets["s"] = {"data": {"k": base64.b64encode(b"two").decode()}}
    await manager.refresh(pod(volume))
    assert (path / "k").read_bytes() == b"two"


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "x"}}, 'configmap "x" not found'),
        ({"secret": {"secretName": "x"}}, 'secret "x" not found'),
        ({"configMap": {"name": "c", "items": [{"key": "no", "path": "p"}]}}, "configmap references non-existent config key: no"),
        ({"secret": {"secretName": "s", "items": [{"key": "no", "path": "p"}]}}, "references non-existent secret key: no"),
        ({"nfs": {"server": "s"}}, "no volume plugin matched: this kubelet does not support nfs volumes"),
        ({"hostPath": {"path": "/nowhere", "type": "Directory"}}, "hostPath type check failed: /nowhere is not a directory"),
    ],
)
async def test_failures_name_volume_and_cause(
    manager: Manager, objects: Objects, root: Path, volume: dict[str, Any], message: str
) -> None:
    objects.config_maps["c"] = objects.secrets["s"] = {"data": {}}
    with pytest.raises(VolumeError) as caught:
        await mount(manager, root, {"name": "v", **volume})
    assert str(caught.value) == f'MountVolume.SetUp failed for volume "v" : {message}'


async def test_optional_sources_may_be_missing(manager: Manager, root: Path) -> None:
    path = await mount(manager, root, {"name": "v", "configMap": {"name": "x", "optional": True}})
    assert [name for name in os.listdir(path) if not name.startswith("..")] == []


async def test_projected_token_is_renewed_at_four_fifths(
    manager: Manager, objects: Objects, root: Path, clock: FakeClock
) -> None:
    objects.config_maps["kube-root-ca.crt"] = {"data": {"ca.crt": "CA"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    volume = {"name": "v", "projected": {"sources": sources, "defaultMode": 0o644}}
    path = await mount(manager, root, volume)
    assert [(path / name).read_text() for name in ("token", "ca.crt", "namespace")] == ["token-1", "CA", "ns"]
    await clock.advance(2800)
    await manager.refresh(pod(volume))
    assert (path / "token").read_text() == "token-1"
    await clock.advance(100)
    await manager.refresh(pod(volume))
    assert (path / "token").read_text() == "token-2"


async def test_token_belongs_to_the_only_user(manager: Manager, root: Path) -> None:
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    path = await mount(manager, root, volume, securityContext={"runAsUser": 1234, "fsGroup": 77})
    found = (path / "token").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 77, 0o640)


async def test_downward_api_formats_labels_and_limits(manager: Manager, root: Path) -> None:
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}},
        {"path": "mem", "resourceFieldRef": {"containerName": "c", "resource": "requests.memory"}},
    ]
    path = await mount(manager, root, {"name": "v", "downwardAPI": {"items": items}})
    assert [(path / name).read_text() for name in ("labels", "cpu", "mem")] == ['a="1"\nb="2\\"x"', "2000", "0"]


async def test_sub_path_binds_the_file_behind_the_data_link(manager: Manager, objects: Objects, root: Path) -> None:
    objects.config_maps["c"] = {"data": {"k": "v"}}
    mounted = await manager.mount(pod({"name": "v", "configMap": {"name": "c"}}), root / "pods/u1")
    bound = await manager.sub_path(mounted["v"], "k", root / "pods/u1", "v", "c", 0)
    assert bound.read_text() == "v"
    again = await manager.sub_path(mounted["v"], "k", root / "pods/u1", "v", "c", 0)
    assert len(mounts.mounts_below(again)) == 1


@pytest.mark.parametrize("path", ["../x", "/etc", "out", "out/passwd", "link/out2"])
async def test_sub_path_never_leaves_the_volume(manager: Manager, root: Path, path: str) -> None:
    mounted = await manager.mount(pod({"name": "v", "emptyDir": {}}), root / "pods/u1")
    volume = mounted["v"].host_path
    (volume / "out").symlink_to("/etc")
    (volume / "dir").mkdir()
    (volume / "link").symlink_to("dir")
    (volume / "dir/out2").symlink_to("../../../../../..")
    with pytest.raises(VolumeError):
        await manager.sub_path(mounted["v"], path, root / "pods/u1", "v", "c", 0)


async def test_missing_sub_path_becomes_a_directory(manager: Manager, root: Path) -> None:
    mounted = await manager.mount(pod({"name": "v", "emptyDir": {}}), root / "pods/u1")
    bound = await manager.sub_path(mounted["v"], "a/b", root / "pods/u1", "v", "c", 1)
    (bound / "f").write_text("x")
    assert (mounted["v"].host_path / "a/b/f").read_text() == "x"
    assert stat.S_IMODE((mounted["v"].host_path / "a").stat().st_mode) == 0o777
