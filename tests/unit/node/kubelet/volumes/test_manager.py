import base64
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apimachinery import errors, times
from component.clock import FakeClock
from node.kubelet.interface import VolumeError
from node.kubelet.volumes import mounts
from node.kubelet.volumes.manager import Manager
from node.kubelet.volumes.plugins import empty_dir
from tests.support.storage import claim_volume, make_claim, make_volume

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting tmpfs needs root")


class Objects:
    """An ObjectSource over dicts. It does not imitate caching or latency."""

    def __init__(self, clock: FakeClock) -> None:
        self.config_maps: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.bundles: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
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

    async def trust_bundle(self, name: str) -> Mapping[str, Any]:
        if name not in self.bundles:
            raise errors.not_found("clustertrustbundles", name)
        return self.bundles[name]

    async def trust_bundles(self, signer: str, selector: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        return [each for each in self.bundles.values() if each["spec"].get("signerName") == signer]

    async def claim(self, namespace: str, name: str) -> Mapping[str, Any]:
        if name not in self.claims:
            raise errors.not_found("persistentvolumeclaims", name)
        return self.claims[name]

    async def volume(self, name: str) -> Mapping[str, Any]:
        if name not in self.volumes:
            raise errors.not_found("persistentvolumes", name)
        return self.volumes[name]

    def bind(self, volume: dict[str, Any], name: str = "c") -> None:
        """A claim of this name, bound to the volume."""
        claim = make_claim(name, uid=f"uid-{name}", volumeName=volume["metadata"]["name"], phase="Bound")
        volume["spec"]["claimRef"] = {"namespace": "ns", "name": name, "uid": f"uid-{name}"}
        self.claims[name], self.volumes[volume["metadata"]["name"]] = claim, volume

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


async def test_a_local_volume_is_shown_to_pods_and_survives_them(manager: Manager, objects: Objects, root: Path) -> None:
    data = root / "data"
    data.mkdir()
    objects.bind(make_volume("v", local={"path": str(data)}))
    path = await mount(manager, root, claim_volume("x", "c"), securityContext={"fsGroup": 4711})
    assert path == root / "pods/u1/volumes/kubernetes.io~local-volume/v"
    (path / "file").write_text("kept")
    assert data.stat().st_gid == 4711
    await mount(manager, root, claim_volume("x", "c"))
    assert len(mounts.mounts_below(path)) == 1
    await manager.unmount("u1", root / "pods/u1")
    assert not (root / "pods/u1/volumes").exists()
    assert (data / "file").read_text() == "kept"


async def test_a_claim_can_be_mounted_read_only(manager: Manager, objects: Objects, root: Path) -> None:
    data = root / "data"
    data.mkdir()
    objects.bind(make_volume("v", local={"path": str(data)}))
    volume = {"name": "x", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
    mounted = (await manager.mount(pod(volume), root / "pods/u1"))["x"]
    assert mounted.read_only
    with pytest.raises(OSError, match="Read-only file system"):
        (mounted.host_path / "file").write_text("x")


async def test_a_host_path_volume_behind_a_claim(manager: Manager, objects: Objects, root: Path) -> None:
    objects.bind(make_volume("v", hostPath={"path": str(root / "new"), "type": "DirectoryOrCreate"}))
    assert await mount(manager, root, claim_volume("x", "c")) == root / "new"
    assert (root / "new").is_dir()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("none", 'failed to fetch PVC from API server: persistentvolumeclaims "c" not found'),
        ("pending", "PVC is not bound"),
        ("deleting", "PVC is being deleted"),
        ("foreign", "pv.Spec.ClaimRef.UID other does not match the expected UID uid-c"),
    ],
)
async def test_why_a_claim_cannot_be_mounted(manager: Manager, objects: Objects, root: Path, change: str, text: str) -> None:
    objects.bind(make_volume("v", local={"path": "/nowhere"}))
    if change == "none":
        objects.claims.clear()
    elif change == "pending":
        objects.claims["c"]["status"]["phase"] = "Pending"
    elif change == "deleting":
        objects.claims["c"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    else:
        objects.volumes["v"]["spec"]["claimRef"]["uid"] = "other"
    with pytest.raises(VolumeError) as failure:
        await mount(manager, root, claim_volume("x", "c"))
    assert str(failure.value) == (
        "Unable to attach or mount volumes: unmounted volumes=[x], unattached volumes=[], "
        f"failed to process volumes=[x]: error processing PVC ns/c: {text}"
    )


@pytest.fixture
def disk(root: Path) -> Iterator[str]:
    """A block device: a loop device over a file of 16 MiB."""
    image = root / "disk.img"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    done = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no loop devices: {done.stderr.strip()}")
    yield done.stdout.strip()
    mounts.unmount_below(root)
    subprocess.run(["losetup", "--detach", done.stdout.strip()], check=True)


async def test_a_disk_is_formatted_once_and_unmounted_after_the_last_pod(
    manager: Manager, objects: Objects, root: Path, disk: str
) -> None:
    objects.bind(make_volume("v", local={"path": disk, "fsType": "ext4"}))
    path = await mount(manager, root, claim_volume("x", "c"))
    (path / "file").write_text("kept")
    await manager.sweep()
    shared = root / "plugins/kubernetes.io/local-volume/mounts/v"
    assert mounts.mounted_as(shared) == "ext4"
    await manager.unmount("u1", root / "pods/u1")
    await manager.sweep()
    assert not shared.exists()
    path = await mount(manager, root, claim_volume("x", "c"))
    assert (path / "file").read_text() == "kept"
    await manager.unmount("u1", root / "pods/u1")
    await manager.sweep()
    objects.bind(make_volume("v", local={"path": disk, "fsType": "xfs"}))
    with pytest.raises(VolumeError, match="already contains ext4"):
        await mount(manager, root, claim_volume("x", "c"))


async def test_a_bare_device_is_no_directory(manager: Manager, objects: Objects, root: Path, disk: str) -> None:
    objects.bind(make_volume("v", local={"path": disk}, volumeMode="Block"))
    raw = [{"name": "c", "volumeDevices": [{"name": "x", "devicePath": "/dev/raw"}]}]
    mounted = (await manager.mount(pod(claim_volume("x", "c"), containers=raw), root / "pods/u1"))["x"]
    assert (mounted.is_block, str(mounted.host_path)) == (True, disk)
    wrong = [{"name": "c", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}]
    with pytest.raises(VolumeError, match="volume x has volumeMode Block, but is specified in volumeMounts"):
        await manager.mount(pod(claim_volume("x", "c"), containers=wrong), root / "pods/u1")


@pytest.mark.parametrize(
    ("medium", "asked", "expected"),
    [
        ("HugePages", ["2Mi"], "2Mi"),
        ("HugePages-1Gi", ["2Mi", "1Gi"], "1Gi"),
        ("HugePages", ["2Mi", "1Gi"], "multiple huge page sizes"),
        ("HugePages-1Gi", ["2Mi"], "no huge pages of size 1Gi"),
        ("HugePages", [], "no resource request for huge pages"),
    ],
)
def test_the_size_of_huge_pages(medium: str, asked: list[str], expected: str) -> None:
    container = {"name": "c", "resources": {"requests": {f"hugepages-{size}": "4Mi" for size in asked}}}
    if expected[0].isdigit():
        assert empty_dir.page_size(pod(containers=[container]), medium) == expected
    else:
        with pytest.raises(VolumeError, match=expected):
            empty_dir.page_size(pod(containers=[container]), medium)


async def test_git_repo_is_refused(manager: Manager, root: Path) -> None:
    with pytest.raises(VolumeError, match="no volume plugin matched: this kubelet does not support gitRepo volumes"):
        await mount(manager, root, {"name": "g", "gitRepo": {"repository": "https://example.com"}})


async def test_how_full_volumes_are(manager: Manager, objects: Objects, root: Path) -> None:
    (root / "data").mkdir()
    objects.bind(make_volume("v", local={"path": str(root / "data")}))
    entries = [
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        claim_volume("mine", "c"),
        {"name": "host", "hostPath": {"path": "/tmp"}},
    ]
    mounted = await manager.mount(pod(*entries), root / "pods/u1")
    (mounted["disk"].host_path / "file").write_bytes(b"x" * 100_000)
    disk, memory, mine = await manager.stats(pod(*entries))
    assert (disk.name, disk.inodes_used) == ("disk", 2)
    assert disk.used is not None
    assert 100_000 <= disk.used < 120_000
    assert (memory.name, memory.capacity) == ("memory", 1 << 20)
    assert (mine.name, mine.claim) == ("mine", ("ns", "c"))
    assert mine.capacity == os.statvfs(root).f_blocks * os.statvfs(root).f_frsize


def certificate(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


async def test_trust_bundles_of_a_signer_become_one_file(manager: Manager, objects: Objects, root: Path) -> None:
    objects.bundles["x:one"] = {"spec": {"signerName": "x", "trustBundle": certificate("B") + certificate("A")}}
    objects.bundles["x:two"] = {"spec": {"signerName": "x", "trustBundle": f"words\n{certificate('B')}"}}
    objects.bundles["plain"] = {"spec": {"trustBundle": certificate("C")}}
    sources = [
        {"clusterTrustBundle": {"signerName": "x", "labelSelector": {}, "path": "x.pem"}},
        {"clusterTrustBundle": {"name": "plain", "path": "plain.pem"}},
        {"clusterTrustBundle": {"name": "missing", "path": "missing.pem", "optional": True}},
    ]
    path = await mount(manager, root, {"name": "v", "projected": {"sources": sources}})
    assert (path / "x.pem").read_text() == certificate("A") + certificate("B")
    assert (path / "plain.pem").read_text() == certificate("C")
    assert (path / "missing.pem").read_text() == ""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"name": "missing"}, 'clustertrustbundle "missing" not found'),
        ({"signerName": "x"}, "combination of signerName and labelSelector matched zero ClusterTrustBundles"),
    ],
)
async def test_missing_trust_hinders_the_pod(manager: Manager, root: Path, source: dict[str, Any], text: str) -> None:
    sources = [{"clusterTrustBundle": {**source, "path": "x.pem"}}]
    with pytest.raises(VolumeError, match=text):
        await mount(manager, root, {"name": "v", "projected": {"sources": sources}})


async def test_a_shared_local_volume_keeps_the_group_of_its_first_pod(objects: Objects, root: Path, clock: FakeClock) -> None:
    notes: list[str] = []
    manager = Manager(objects, root, clock=clock, warn=lambda pod, reason, note: notes.append(f"{reason}: {note}"))
    (root / "data").mkdir()
    objects.bind(make_volume("v", local={"path": str(root / "data")}))
    for uid, group in (("u1", 4711), ("u2", 4712)):
        given = pod(claim_volume("x", "c"), securityContext={"fsGroup": group})
        given["metadata"]["uid"] = uid
        await manager.mount(given, root / "pods" / uid)
    assert (root / "data").stat().st_gid == 4711
    text = "The requested fsGroup is 4712, but the volume v has GID 4711. The volume may not be shareable."
    assert notes == [f"AlreadyMountedVolume: {text}"]
    for uid in ("u1", "u2"):
        await manager.unmount(uid, root / "pods" / uid)
    await mount(manager, root, claim_volume("x", "c"), securityContext={"fsGroup": 4712})
    assert (root / "data").stat().st_gid == 4712


async def test_a_volume_for_one_pod_is_not_given_to_another(manager: Manager, objects: Objects, root: Path) -> None:
    (root / "data").mkdir()
    objects.bind(make_volume("v", local={"path": str(root / "data")}))
    objects.claims["c"]["spec"]["accessModes"] = ["ReadWriteOncePod"]
    other = pod(claim_volume("x", "c"))
    other["metadata"]["uid"] = "u2"
    await manager.mount(other, root / "pods/u2")
    with pytest.raises(VolumeError, match="ReadWriteOncePod access mode and is already in use by another pod"):
        await mount(manager, root, claim_volume("x", "c"))
    await manager.unmount("u2", root / "pods/u2")
    assert await mount(manager, root, claim_volume("x", "c"))
