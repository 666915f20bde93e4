"""The kubelet's side of CSI, with a real driver on real sockets that makes real mounts."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apimachinery import errors, times
from component.clock import FakeClock
from node.kubelet.interface import VolumeError
from node.kubelet.pluginregistration.watcher import PluginWatcher
from node.kubelet.volumes import mounts
from node.kubelet.volumes.csi import records, resize, spec
from node.kubelet.volumes.csi.plugin import Csi
from node.kubelet.volumes.csi.registry import NODE_ID_ANNOTATION, CsiRegistry, with_driver
from node.kubelet.volumes.manager import Manager
from tests.support.csi_driver import NAME, FolderDriver, Types, running_csi_driver
from tests.support.storage import claim_volume, make_claim, make_volume

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


class Api:
    """The API server's part, in dicts: an ObjectSource, and the client of the registry."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.claims: dict[str, Any] = {}
        self.volumes: dict[str, Any] = {}
        self.drivers: dict[str, Any] = {}
        self.attachments: dict[str, Any] = {}
        self.node: dict[str, Any] = {"metadata": {"name": "node-1", "uid": "n1"}}
        self.csi_node: dict[str, Any] | None = None
        self.failing = False
        self.in_use: list[list[str]] = []
        self.grown: list[tuple[str, str]] = []

    def bind(self, name: str = "c", **more: Any) -> None:
        volume = make_volume(f"pv-{name}", csi={"driver": NAME, "volumeHandle": f"handle-{name}", **more.pop("csi", {})}, **more)
        volume["spec"]["claimRef"] = {"namespace": "ns", "name": name, "uid": f"uid-{name}"}
        self.volumes[f"pv-{name}"] = volume
        self.claims[name] = make_claim(name, uid=f"uid-{name}", volumeName=f"pv-{name}", phase="Bound")

    async def claim(self, namespace: str, name: str) -> Mapping[str, Any]:
        return self.claims[name]

    async def volume(self, name: str) -> Mapping[str, Any]:
        return self.volumes[name]

    async def csi_driver(self, name: str) -> Mapping[str, Any] | None:
        return self.drivers.get(name, {"spec": {"attachRequired": False}})

    async def volume_attachment(self, name: str) -> Mapping[str, Any]:
        if name not in self.attachments:
            raise errors.not_found("volumeattachments", name)
        return self.attachments[name]

    async def secret(self, namespace: str, name: str) -> Mapping[str, Any]:
        return {"data": {"key": "dmFsdWU="}}

    async def config_map(self, namespace: str, name: str) -> Mapping[str, Any]:
        raise errors.not_found("configmaps", name)

    async def service_account_token(self, namespace: str, name: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        expires = self.clock.now() + timedelta(seconds=asked["expirationSeconds"])
        return {"status": {"token": f"for-{asked['audiences'][0]}", "expirationTimestamp": times.format_time(expires)}}

    # as the registry's client

    async def get(self, resource: Any, name: str, namespace: str | None = None) -> dict[str, Any]:
        if resource.resource == "nodes":
            return self.node
        if self.csi_node is None:
            raise errors.not_found("csinodes", name)
        return self.csi_node

    async def create(self, resource: Any, obj: dict[str, Any]) -> dict[str, Any]:
        self.csi_node = obj
        return obj

    async def update(self, resource: Any, obj: dict[str, Any]) -> dict[str, Any]:
        if self.failing:
            raise ConnectionError("the API server is away")
        self.csi_node = obj
        return obj

    async def patch(self, resource: Any, name: str, body: dict[str, Any], **more: Any) -> None:
        for part, entries in body["metadata"].items():
            held = self.node["metadata"].setdefault(part, {})
            held.update(entries)

    # as InUse, and for who has grown

    async def tell(self, names: list[str]) -> None:
        self.in_use.append(names)

    async def check(self, names: list[str]) -> None:
        self.in_use.append(names)

    async def resized(self, pod: Any, claim: Any, volume: Any) -> None:
        self.grown.append((claim["metadata"]["name"], volume["spec"]["capacity"]["storage"]))
        self.claims[claim["metadata"]["name"]]["status"].update(resize.grown_status(claim, volume))


class Node:
    """A kubelet's volumes, which can be replaced by a fresh kubelet's on the same disk."""

    def __init__(self, root: Path, clock: FakeClock) -> None:
        self.root, self.clock, self.api = root, clock, Api(clock)
        self.start()

    def start(self) -> None:
        self.registry = CsiRegistry(self.api, "node-1")  # type: ignore[arg-type]
        self.watcher = PluginWatcher(self.root / "plugins_registry", {"CSIPlugin": self.registry}, self.clock)

        def csi(tokens: Any) -> Csi:
            api: Any = self.api
            self.csi = Csi(self.root, "node-1", self.registry, api, tokens, self.clock, api, api.resized)
            return self.csi

        self.manager = Manager(self.api, self.root, clock=self.clock, csi=csi)

    async def restart(self) -> None:
        await self.registry.close()
        self.start()
        await self.watcher.look()

    def pod_dir(self, uid: str) -> Path:
        return self.root / "pods" / uid

    async def mount(self, uid: str = "u1", *entries: dict[str, Any], **more: Any) -> Path:
        mounted = await self.manager.mount(pod(uid, *(entries or (claim_volume("x", "c"),)), **more), self.pod_dir(uid))
        return next(iter(mounted.values())).host_path

    async def mount_and_unmount(self) -> None:
        await self.mount()
        await self.unmount()

    async def unmount(self, uid: str = "u1") -> None:
        await self.manager.unmount(uid, self.pod_dir(uid))


def pod(uid: str, *entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": f"p-{uid}", "namespace": "ns", "uid": uid}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}], "volumes": list(entries), **more}}


@pytest.fixture
def root() -> Iterator[Path]:
    """Short, because the path of a socket may have no more than 107 characters."""
    with tempfile.TemporaryDirectory(prefix="pyb-csi-") as folder:
        yield Path(folder, "kubelet")
        mounts.unmount_below(Path(folder))


@pytest.fixture
async def driver(root: Path) -> AsyncIterator[FolderDriver]:
    async with running_csi_driver(FolderDriver(root.parent / "driver"), root) as running:
        yield running


@pytest.fixture
async def node(root: Path, driver: FolderDriver) -> AsyncIterator[Node]:
    made = Node(root, FakeClock())
    await made.watcher.look()
    yield made
    await made.registry.close()


async def test_a_driver_registers_and_goes(node: Node, driver: FolderDriver, root: Path) -> None:
    assert driver.registered == [(True, "")]
    assert node.api.csi_node is not None
    assert node.api.csi_node["spec"]["drivers"] == [{"name": NAME, "nodeID": "node-1", "topologyKeys": None}]
    assert node.api.node["metadata"]["annotations"] == {NODE_ID_ANNOTATION: f'{{"{NAME}":"node-1"}}'}
    node.api.csi_node = None  # gone with its Node
    await node.registry.ensure_node()
    assert len(node.api.csi_node["spec"]["drivers"]) == 1
    (root / "plugins_registry" / f"{NAME}-reg.sock").unlink()
    node.api.failing = True
    await node.watcher.look()
    node.api.failing = False
    await node.watcher.look()
    assert node.api.csi_node["spec"]["drivers"] == []
    node.api.csi_node = None
    await node.registry.ensure_node()
    assert node.api.csi_node["spec"]["drivers"] == []
    node.api.bind()
    with pytest.raises(VolumeError, match=f"driver name {NAME} not found in the list of registered CSI drivers"):
        await node.mount()


async def test_a_driver_that_is_not_wanted_hears_why_and_may_try_again(root: Path) -> None:
    async with running_csi_driver(FolderDriver(root.parent / "driver", versions=["0.3.0"]), root) as driver:
        node = Node(root, FakeClock())
        await node.watcher.look()
        await node.watcher.look()
        assert len(driver.registered) == 1
        assert "no version of 1.x" in driver.registered[0][1]
        driver.versions, driver.topology, driver.most = ["1.5.0"], {"rack.example.com/name": "r1"}, 3
        await node.clock.advance(1)
        await node.watcher.look()
        assert driver.registered[-1] == (True, "")
        assert node.api.csi_node is not None
        entry = {"name": NAME, "nodeID": "node-1", "topologyKeys": ["rack.example.com/name"], "allocatable": {"count": 3}}
        assert node.api.csi_node["spec"]["drivers"] == [entry]
        assert node.api.node["metadata"]["labels"] == {"rack.example.com/name": "r1"}
        await node.registry.close()


async def test_a_volume_is_staged_once_and_published_for_each_pod(node: Node, driver: FolderDriver) -> None:
    node.api.bind(csi={"volumeAttributes": {"a": "b"}, "nodeStageSecretRef": {"namespace": "s", "name": "t"}})
    first, second = await node.mount("u1"), await node.mount("u2")
    (first / "file").write_text("shared")
    assert (second / "file").read_text() == "shared"
    assert (driver.folder("handle-c") / "file").exists()
    staging = records.staging_of(node.root, NAME, "handle-c")
    asked = driver.requests("NodeStageVolume")[0]
    assert (asked.staging_target_path, dict(asked.volume_context), dict(asked.secrets)) == (
        str(staging),
        {"a": "b"},
        {"key": "value"},
    )
    assert asked.volume_capability.access_mode.mode == 1
    await node.mount("u1")  # a container starts again
    assert len(driver.requests("NodePublishVolume")) == 2
    await node.unmount("u1")
    assert not driver.requests("NodeUnstageVolume")
    await node.unmount("u2")
    assert len(driver.requests("NodeUnstageVolume")) == 1
    assert not staging.parent.exists()
    assert not mounts.mounts_below(node.root)
    assert (driver.folder("handle-c") / "file").read_text() == "shared"


async def test_nothing_is_lost_when_the_kubelet_dies_at_any_step(node: Node, driver: FolderDriver) -> None:
    node.api.bind()
    for method in ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"):
        driver.failing = {method: "killed"}
        with pytest.raises(VolumeError, match="rpc error: code = Internal desc = killed"):
            await node.mount_and_unmount()
        await node.restart()
        driver.failing = {}
        await node.unmount()
        await node.manager.sweep()
        assert not mounts.mounts_below(node.root), method
        assert not records.staged(node.root), method


async def test_unstaging_that_a_kubelet_was_killed_before_is_made_up_for(node: Node, driver: FolderDriver) -> None:
    node.api.bind()
    await node.mount()
    record = records.of_pod(node.pod_dir("u1"))[0]
    await node.registry.driver(NAME).unpublish(record.handle, str(record.target))
    records.forget(record)
    await node.restart()
    await node.manager.sweep()
    assert len(driver.requests("NodeUnstageVolume")) == 1
    assert not records.staged(node.root)


async def test_a_pod_stays_until_its_driver_has_let_go(node: Node, driver: FolderDriver) -> None:
    node.api.bind()
    path = await node.mount()
    (path / "file").write_text("x")
    driver.failing = {"NodeUnpublishVolume": "busy"}
    with pytest.raises(VolumeError, match="busy"):
        await node.unmount()
    assert (driver.folder("handle-c") / "file").exists()
    driver.failing = {}
    await node.unmount()
    assert (driver.folder("handle-c") / "file").exists()


async def test_a_volume_is_used_only_once_it_is_attached_and_known_to_be_in_use(node: Node, driver: FolderDriver) -> None:
    node.api.bind()
    node.api.drivers[NAME] = {"spec": {"attachRequired": True}}
    from apimachinery.objects import attachments

    name = attachments.attachment_name("handle-c", NAME, "node-1")
    node.api.attachments[name] = {"status": {"attached": False, "attachError": {"message": "no such disk"}}}
    with pytest.raises(VolumeError, match="no such disk"):
        await node.mount()
    called = f"kubernetes.io/csi/{NAME}^handle-c"
    assert node.api.in_use == [[called]]
    assert not driver.requests("NodeStageVolume")
    await node.unmount()  # the pod is deleted while it waits
    assert node.csi.in_use() == []
    node.api.attachments[name] = {"status": {"attached": True, "attachmentMetadata": {"device": "/dev/x"}}}
    await node.mount()
    assert dict(driver.requests("NodeStageVolume")[0].publish_context) == {"device": "/dev/x"}
    await node.restart()
    assert node.csi.in_use() == [called]
    await node.unmount()
    assert node.csi.in_use() == []
    assert node.api.in_use[-1] == []


async def test_an_inline_volume_lives_with_its_pod(node: Node, driver: FolderDriver) -> None:
    inline = {"name": "x", "csi": {"driver": NAME, "volumeAttributes": {"a": "b"}}}
    with pytest.raises(VolumeError, match='volume mode "Ephemeral" not supported by driver'):
        await node.mount("u1", inline)
    node.api.drivers[NAME] = {"spec": {"volumeLifecycleModes": ["Ephemeral"], "podInfoOnMount": True, "attachRequired": False}}
    path = await node.mount("u1", inline)
    (path / "file").write_text("x")
    asked = driver.requests("NodePublishVolume")[0]
    assert not driver.requests("NodeStageVolume")
    assert dict(asked.volume_context) == {
        "a": "b",
        "csi.storage.k8s.io/pod.name": "p-u1",
        "csi.storage.k8s.io/pod.namespace": "ns",
        "csi.storage.k8s.io/pod.uid": "u1",
        "csi.storage.k8s.io/serviceAccount.name": "default",
        "csi.storage.k8s.io/ephemeral": "true",
    }
    await node.unmount()
    assert not driver.folder(asked.volume_id).exists()
    node.api.bind()
    with pytest.raises(VolumeError, match=r'only supports \["Ephemeral"\]'):
        await node.mount()


async def test_drivers_get_tokens_and_are_asked_again_when_they_want(node: Node, driver: FolderDriver) -> None:
    node.api.bind()
    requests = [{"audience": "vault", "expirationSeconds": 600}]
    node.api.drivers[NAME] = {"spec": {"attachRequired": False, "tokenRequests": requests, "requiresRepublish": True}}
    await node.mount()
    context = dict(driver.requests("NodePublishVolume")[0].volume_context)
    assert '"vault":{"token":"for-vault","expirationTimestamp":' in context["csi.storage.k8s.io/serviceAccount.tokens"]
    running = pod("u1", claim_volume("x", "c"))
    await node.manager.refresh(running)
    assert len(driver.requests("NodePublishVolume")) == 1
    await node.clock.advance(61)
    await node.manager.refresh(running)
    assert len(driver.requests("NodePublishVolume")) == 2


async def test_a_volume_that_has_grown_is_made_to_fit_while_it_is_used(node: Node, driver: FolderDriver) -> None:
    node.api.bind()
    await node.mount()
    node.api.claims["c"]["status"]["capacity"] = {"storage": "1Gi"}
    node.api.volumes["pv-c"]["spec"]["capacity"] = {"storage": "2Gi"}
    running = pod("u1", claim_volume("x", "c"))
    for _ in range(3):
        await node.manager.refresh(running)
        await node.clock.advance(61)
    assert driver.sizes == {"handle-c": 2 << 30}
    assert node.api.grown == [("c", "2Gi")]


@pytest.mark.parametrize(
    ("policy", "fs_type", "modes", "expected"),
    [
        ("File", "", ["ReadWriteMany"], True),
        ("None", "ext4", ["ReadWriteOnce"], False),
        ("ReadWriteOnceWithFSType", "ext4", ["ReadWriteOnce"], True),
        ("ReadWriteOnceWithFSType", "", ["ReadWriteOnce"], False),
        ("ReadWriteOnceWithFSType", "ext4", ["ReadWriteMany"], False),
    ],
)
async def test_who_sets_the_group(
    node: Node, driver: FolderDriver, policy: str, fs_type: str, modes: list[str], expected: bool
) -> None:
    node.api.bind(csi={"fsType": fs_type}, accessModes=modes)
    node.api.drivers[NAME] = {"spec": {"attachRequired": False, "fsGroupPolicy": policy}}
    path = await node.mount(securityContext={"fsGroup": 4711})
    assert (path.stat().st_gid == 4711) is expected


async def test_a_driver_that_mounts_for_a_group_is_told_the_group(node: Node, driver: FolderDriver) -> None:
    driver.capabilities = [Types.VOLUME_MOUNT_GROUP, Types.SINGLE_NODE_MULTI_WRITER]
    node.api.bind(csi={"fsType": "ext4"}, accessModes=["ReadWriteOncePod"], mountOptions=["noatime"])
    path = await node.mount(securityContext={"fsGroup": 4711})
    capability = driver.requests("NodePublishVolume")[0].volume_capability
    assert (capability.mount.volume_mount_group, list(capability.mount.mount_flags)) == ("4711", ["noatime"])
    assert capability.access_mode.mode == 6
    assert path.stat().st_gid != 4711


async def test_a_device_is_published_as_one_file_and_goes_again(node: Node, driver: FolderDriver) -> None:
    node.api.bind(volumeMode="Block")
    raw = [{"name": "c", "volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]}]
    mounted = (await node.manager.mount(pod("u1", claim_volume("x", "c"), containers=raw), node.pod_dir("u1")))["x"]
    assert (mounted.is_block, mounted.host_path.is_file()) == (True, True)
    assert driver.requests("NodePublishVolume")[0].volume_capability.HasField("block")
    assert await node.manager.stats(pod("u1", claim_volume("x", "c"))) == []
    await node.restart()
    await node.unmount()
    assert not mounted.host_path.exists()
    assert not node.pod_dir("u1").exists() or not list(node.pod_dir("u1").iterdir())
    assert not mounts.mounts_below(node.root)


async def test_the_driver_says_how_full_its_volumes_are(node: Node, driver: FolderDriver) -> None:
    node.api.bind()
    await node.mount()
    (stats,) = await node.manager.stats(pod("u1", claim_volume("x", "c")))
    assert (stats.name, stats.claim, stats.capacity, stats.used, stats.inodes_free) == ("x", ("ns", "c"), 100, 30, 7)
    driver.capabilities = [Types.STAGE_UNSTAGE_VOLUME]
    await node.restart()
    assert await node.manager.stats(pod("u1", claim_volume("x", "c"))) == []


def test_one_driver_s_entry_leaves_the_others_alone() -> None:
    held = [{"name": "a", "nodeID": "1"}, {"name": "b", "nodeID": "2"}]
    assert with_driver(held, "a", {"name": "a", "nodeID": "3"}) == [held[1], {"name": "a", "nodeID": "3"}]
    assert with_driver(held, "a", None) == [held[1]]


def test_what_is_left_to_grow() -> None:
    volume = make_volume(size="2Gi")
    assert spec.size_to_reach(volume, make_claim()) == 0  # nobody has said yet what it has
    for has, expected in (("1Gi", 2 << 30), ("2Gi", 0), ("3Gi", 0)):
        claim = {**make_claim(), "status": {"capacity": {"storage": has}}}
        assert spec.size_to_reach(volume, claim) == expected
