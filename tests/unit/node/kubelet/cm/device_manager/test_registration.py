"""Who may register, what a plugin is told that may not, and who is heard when two say they are the same."""

import asyncio
import os
import socket
from pathlib import Path

import grpc
import grpc.aio
import pytest

from node.kubelet.cm.device_manager.endpoint import PluginError, check_socket
from node.kubelet.pluginregistration.watcher import PluginWatcher
from node.kubelet.sockets import clear_sockets
from tests.support.device_plugin import RESOURCE, NullPlugin, running_device_plugin
from tests.unit.node.kubelet.cm.device_manager.conftest import Kubelet, in_time, until


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        pytest.param(
            "version",
            "v1alpha1",
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="version",
        ),
        pytest.param("resource", "cpu", 'the ResourceName "cpu" is invalid', id="native"),
        pytest.param("resource", "kubernetes.io/x", 'the ResourceName "kubernetes.io/x" is invalid', id="ours"),
        pytest.param("resource", "a b/c", 'the ResourceName "a b/c" is invalid', id="name"),
    ],
)
async def test_refusals(kubelet: Kubelet, plugin: NullPlugin, field: str, value: str, told: str) -> None:
    setattr(plugin, field, value)
    async with kubelet.running(), running_device_plugin(plugin):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await plugin.register()
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNKNOWN, told)


@pytest.mark.parametrize("name", ["../x.sock", "/run/x.sock", "", "..", "kubelet.sock", "gone.sock", "file", "link.sock"])
async def test_a_plugins_socket_is_a_socket_beside_ours(kubelet: Kubelet, plugin: NullPlugin, name: str) -> None:
    async with kubelet.running(), running_device_plugin(plugin):
        (plugin.folder / "file").write_text("")
        (plugin.folder / "link.sock").symlink_to(plugin.socket)
        plugin.name = name
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await plugin.register()
        assert kubelet.manager.capacity() == ({}, {})
    assert str(kubelet.folder) in str(caught.value.details())


async def test_a_plugin_that_does_not_tell_its_options(kubelet: Kubelet, plugin: NullPlugin) -> None:
    plugin.failing["GetDevicePluginOptions"] = "what?"
    async with kubelet.running(), running_device_plugin(plugin):
        with pytest.raises(grpc.aio.AioRpcError, match="failed to get device plugin options: rpc error: code = Unknown"):
            await plugin.register()
        assert kubelet.manager.capacity() == ({}, {})


async def test_the_newest_of_a_resource_counts(kubelet: Kubelet, plugin: NullPlugin) -> None:
    second = NullPlugin(plugin.folder, plugin.devices, name="second.sock", health={"e0": "Healthy"})
    async with kubelet.running() as manager, running_device_plugin(second):
        async with running_device_plugin(plugin):
            await plugin.register()
            await until(lambda: manager.capacity()[1] == {RESOURCE: 2})
            await second.register()
            await until(lambda: manager.capacity()[1] == {RESOURCE: 1})
            await plugin.change(d2="Healthy")  # nobody listens any more
        assert await kubelet.admit({"metadata": {"uid": "u"}, "spec": {"containers": []}}) == ""
        assert manager.capacity() == ({RESOURCE: 1}, {RESOURCE: 1})
        await second.change(e1="Healthy")
        await until(lambda: manager.capacity()[1] == {RESOURCE: 2})


async def test_found_in_the_watched_folder(kubelet: Kubelet, plugin: NullPlugin, place: Path) -> None:
    watched = place / "registry"
    watched.mkdir()
    watcher = PluginWatcher(watched, {"DevicePlugin": kubelet.manager.registration}, kubelet.clock)
    async with kubelet.running() as manager:
        async with running_device_plugin(plugin, watched):
            await watcher.look()
            assert plugin.told == [(True, "")]
            await until(lambda: manager.capacity()[1] == {RESOURCE: 2})
        await watcher.look()
        await until(lambda: manager.capacity()[1] == {RESOURCE: 0})
        plugin.version = "v2"
        async with running_device_plugin(plugin, watched):
            await watcher.look()
        assert plugin.told[1:] == [(False, "manager version, v1beta1, is not among plugin supported versions [v2]")]


async def test_serving_is_tried_again(kubelet: Kubelet, plugin: NullPlugin) -> None:
    kubelet.folder.write_text("in the way")
    registration = kubelet.manager.registration
    task = asyncio.create_task(registration.run())
    assert registration.problem() == ""
    await in_time(kubelet.clock, lambda: "no device plugins can register" in registration.problem())
    assert kubelet.clock.monotonic() >= 4
    kubelet.folder.unlink()
    await in_time(kubelet.clock, lambda: registration.listening)
    async with running_device_plugin(plugin):
        await plugin.register()
        assert registration.problem() == ""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_socket_that_was_removed_is_made_again(kubelet: Kubelet, plugin: NullPlugin) -> None:
    async with kubelet.running() as manager:
        (kubelet.folder / "kubelet.sock").unlink()
        await in_time(kubelet.clock, lambda: not manager.registration.listening)
        await in_time(kubelet.clock, lambda: manager.registration.listening)
        async with running_device_plugin(plugin):
            await plugin.register()


def test_only_sockets_are_cleared(place: Path) -> None:
    folder = place / "p"
    clear_sockets(folder)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / "old.sock"))
    (folder / "kubelet_internal_checkpoint").write_text("{}")
    (folder / "sub").mkdir()
    os.symlink(folder / "old.sock", folder / "link.sock")
    clear_sockets(folder)
    assert {entry.name for entry in folder.iterdir()} == {"kubelet_internal_checkpoint", "sub", "link.sock"}


def test_a_path_must_be_absolute() -> None:
    with pytest.raises(PluginError, match="must be an absolute path"):
        check_socket(Path("x.sock"))
