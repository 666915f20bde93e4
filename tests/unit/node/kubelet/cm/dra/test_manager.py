"""Claims are made ready and given back, by a real driver over gRPC. The API is played: it knows claims by name."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from apimachinery import errors
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object
from component.clock import FakeClock
from component.errors import OperatorError
from component.metrics import Registry
from node.kubelet.cm.dra import state
from node.kubelet.cm.dra.api import dra_v1_pb2 as pb
from node.kubelet.cm.dra.manager import DraManager
from node.kubelet.cm.dra.metrics import DraMetrics
from node.kubelet.cm.dra.registry import DraRegistry
from node.kubelet.cm.interface import DraError
from node.kubelet.pluginregistration.watcher import RegistrationError
from tests.support.dra_driver import KIND, NAME, V1, V1BETA1, NullDriver, running_dra_driver


@dataclass
class Api:
    """Serves ``claims``; keeps what was deleted in ``wiped``."""

    claims: dict[str, Object] = field(default_factory=dict)
    wiped: list[str] = field(default_factory=list)

    async def get(self, resource: GroupVersionResource, name: str, namespace: str | None = None) -> Object:
        if resource.resource == "nodes":
            return {"metadata": {"name": name}}
        if name not in self.claims:
            raise errors.not_found("resourceclaims", name)
        return self.claims[name]

    async def delete_collection(self, resource: GroupVersionResource, *, field_selector: str) -> Object:
        self.wiped.append(field_selector)
        return {}

    async def lookup(self, claim: pb.Claim) -> Sequence[Mapping[str, Any]]:
        results: list[Object] = self.claims[claim.name]["status"]["allocation"]["devices"]["results"]
        return results


@dataclass
class Node:
    api: Api
    clock: FakeClock
    registry: DraRegistry
    manager: DraManager
    driver: NullDriver
    active: set[str]


@asynccontextmanager
async def node(root: Path, *, registered: bool = True, api: Api | None = None) -> AsyncIterator[Node]:
    api, clock, active = api or Api(), FakeClock(), set[str]()
    metrics = DraMetrics(Registry(process=False))
    registry = DraRegistry(api, "node-1", clock, metrics)  # type: ignore[arg-type]
    manager = DraManager(api, registry, root, clock, metrics, lambda: active)  # type: ignore[arg-type]
    manager.restore()
    async with running_dra_driver(NullDriver(root / "driver", api.lookup)) as driver:
        running = asyncio.ensure_future(registry.run())
        await asyncio.sleep(0)
        try:
            if registered:
                await registry.register(NAME, str(driver.socket), [V1, V1BETA1])
            yield Node(api, clock, registry, manager, driver, active)
        finally:
            for each in list(registry._plugins):
                for plugin in list(registry._plugins[each]):
                    await registry.deregister(each, plugin.endpoint)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def claim(name: str, *users: str, driver: str = NAME, uid: str = "") -> Object:
    results = [
        {"request": request, "driver": driver, "pool": "node-1", "device": device}
        for request, device in (("a", "null-0"), ("b", "null-1"))
    ]
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return {"metadata": {"name": name, "namespace": "default", "uid": uid or f"{name}-uid"}, "status": status}


def pod(name: str, *names: str, container: Sequence[Mapping[str, str]] = ()) -> Object:
    entries = [{"name": each, "resourceClaimName": each} for each in names]
    main = {"name": "c", "resources": {"claims": list(container)}}
    spec = {"containers": [main], "resourceClaims": entries}
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}


def ids(node: Node, given: Object) -> tuple[str, ...]:
    return node.manager.cdi_devices(given, given["spec"]["containers"][0])


async def test_from_prepare_to_unprepare(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        here.api.claims["shared"] = claim("shared", "p", "q")
        first, second = (pod(name, "shared", container=[{"name": "shared"}]) for name in ("p", "q"))
        assert here.manager.wants(first)
        await here.manager.prepare(first)
        assert not here.manager.wants(first)
        await here.manager.prepare(second)
        assert here.driver.calls == [("prepare", "shared-uid")]
        assert here.driver.served == [V1]
        both = (f"{KIND}=shared-uid-null-0", f"{KIND}=shared-uid-null-1")
        assert ids(here, first) == ids(here, second) == both
        assert ids(here, pod("p", "shared", container=[{"name": "shared", "request": "b"}])) == both[1:]
        assert ids(here, pod("p", "shared")) == ()  # a container that names no claim
        await here.manager.unprepare("p")
        assert here.driver.spec("shared-uid").exists()
        await here.manager.unprepare("q")
        await here.manager.unprepare("q")
        assert here.driver.calls == [("prepare", "shared-uid"), ("unprepare", "shared-uid")]
        assert not here.driver.spec("shared-uid").exists()
        assert state.load(tmp_path / state.FILE) == []


async def test_another_kubelet_adopts_and_undoes_what_was_prepared(tmp_path: Path) -> None:
    api = Api({"c": claim("c", "p")})
    async with node(tmp_path, api=api) as here:
        await here.manager.prepare(pod("p", "c"))
    async with node(tmp_path, api=api) as here:
        assert ids(here, pod("p", "c", container=[{"name": "c"}]))
        await here.manager.sweep()
        assert here.driver.calls == [("unprepare", "c-uid")]


async def test_of_pods_that_may_run_nothing_is_swept(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        here.api.claims["c"] = claim("c", "p")
        await here.manager.prepare(pod("p", "c"))
        here.active.add("p")
        await here.manager.sweep()
        assert here.driver.calls == [("prepare", "c-uid")]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("unreserved", r"pod p \(p\) is not allowed to use ResourceClaim c \(c-uid\)"),
        ("missing", 'fetch ResourceClaim c: resourceclaims "c" not found'),
        ("unknown driver", "DRA driver other.example.com is not registered"),
        ("failing", "NodePrepareResources failed for ResourceClaim c: no power"),
        ("skipping", "NodePrepareResources skipped 1 ResourceClaims"),
    ],
)
async def test_why_a_pod_cannot_start(tmp_path: Path, change: str, problem: str) -> None:
    async with node(tmp_path) as here:
        here.api.claims["c"] = claim("c", "p", driver="other.example.com" if change == "unknown driver" else NAME)
        if change == "unreserved":
            here.api.claims["c"]["status"]["reservedFor"] = []
        elif change == "missing":
            del here.api.claims["c"]
        elif change == "failing":
            here.driver.failing["prepare"] = "no power"
        elif change == "skipping":
            here.driver.skipping.add("prepare")
        with pytest.raises(DraError, match=f"prepare dynamic resources: {problem}"):
            await here.manager.prepare(pod("p", "c"))
        # Only of what a driver was asked for there is anything to undo.
        asked = change in ("failing", "skipping")
        assert [info.name for info in state.load(tmp_path / state.FILE)] == (["c"] if asked else [])
        here.driver.failing.clear()
        here.driver.skipping.clear()
        if asked:
            await here.manager.prepare(pod("p", "c"))


async def test_a_claim_made_anew_under_the_same_name_waits_for_the_old_one(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        here.api.claims["c"] = claim("c", "p")
        await here.manager.prepare(pod("p", "c"))
        here.api.claims["c"] = claim("c", "q", uid="newer")
        with pytest.raises(DraError, match="old ResourceClaim with same name c and different UID c-uid still exists"):
            await here.manager.prepare(pod("q", "c"))
        await here.manager.unprepare("p")
        await here.manager.prepare(pod("q", "c"))
        assert here.driver.calls[-1] == ("prepare", "newer")


async def test_a_pod_does_not_end_before_its_devices_are_given_back(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        here.api.claims["c"] = claim("c", "p")
        await here.manager.prepare(pod("p", "c"))
        here.driver.failing["unprepare"] = "busy"
        with pytest.raises(DraError, match=r"unprepare dynamic resources: NodeUnprepareResources failed .* c: busy"):
            await here.manager.unprepare("p")
        here.driver.failing.clear()
        await here.manager.unprepare("p")


async def test_two_pods_at_once_ask_once(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        here.api.claims["c"] = claim("c", "p", "q")
        await asyncio.gather(*(here.manager.prepare(pod(name, "c")) for name in ("p", "q")))
        assert here.driver.calls == [("prepare", "c-uid")]


def test_a_broken_file_stops_the_kubelet(tmp_path: Path) -> None:
    (tmp_path / state.FILE).write_text('{"Data":"","Checksum":7}')
    made = DraManager(None, None, tmp_path, FakeClock(), None, set)  # type: ignore[arg-type]
    with pytest.raises(OperatorError, match="checkpoint is corrupted; drain this node and delete the file"):
        made.restore()


class TestDrivers:
    async def test_slices_go_when_no_plugin_has_been_there_for_half_a_minute(self, tmp_path: Path) -> None:
        async with node(tmp_path) as here:
            await here.clock.settle()
            assert here.api.wiped == ["spec.nodeName=node-1"]  # no driver is there when a kubelet starts
            await _until(lambda: here.registry.plugin(NAME).connected)
            await here.clock.advance(60)
            assert len(here.api.wiped) == 1
            await here.registry.deregister(NAME, str(here.driver.socket))
            await here.clock.advance(29)
            assert len(here.api.wiped) == 1
            await here.registry.register(NAME, str(here.driver.socket), [V1])  # back in time
            await _until(lambda: here.registry.plugin(NAME).connected)
            await here.clock.advance(60)
            assert len(here.api.wiped) == 1
            await here.registry.deregister(NAME, str(here.driver.socket))
            await here.clock.advance(31)
            assert here.api.wiped[1:] == [f"spec.nodeName=node-1,spec.driver={NAME}"]

    async def test_the_newest_plugin_that_can_be_reached_is_asked(self, tmp_path: Path) -> None:
        async with node(tmp_path) as here:
            await _until(lambda: here.registry.plugin(NAME).connected)
            await here.registry.register(NAME, str(tmp_path / "nobody.sock"), [V1])
            assert here.registry.plugin(NAME).endpoint == str(here.driver.socket)
            with pytest.raises(RegistrationError, match="already registered for DRA driver plugin"):
                await here.registry.register(NAME, str(here.driver.socket), [V1])

    async def test_an_older_driver_is_spoken_to_in_its_version(self, tmp_path: Path) -> None:
        async with node(tmp_path, registered=False) as here:
            await here.registry.register(NAME, str(here.driver.socket), [V1BETA1])
            here.api.claims["c"] = claim("c", "p")
            await here.manager.prepare(pod("p", "c"))
            assert here.driver.served == [V1BETA1]

    @pytest.mark.parametrize(
        ("versions", "problem"),
        [
            ([], r"empty list of supported gRPC services \(aka supported versions\)"),
            (["v1alpha4.DRAPlugin"], 'none of services supported by the plugin .* are supported by the kubelet .*"v1.DRAPlugin"'),
        ],
    )
    async def test_who_is_not_wanted(self, tmp_path: Path, versions: list[str], problem: str) -> None:
        async with node(tmp_path, registered=False) as here:
            with pytest.raises(RegistrationError, match=problem):
                await here.registry.register(NAME, str(here.driver.socket), versions)


async def _until(true: Any) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come true")
