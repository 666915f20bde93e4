"""Whole rounds in virtual time: a target that obeys at once, under a load that its pods share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, clone
from apimachinery.times import format_time
from client.fake import FAKE_CONFIG, Reply
from client.informer import Informer
from client.rest import Client
from client.transport import Request
from component.clock import FakeClock
from controlplane.controllers.controller import Environment
from controlplane.controllers.horizontalpodautoscaler.controller import HorizontalPodAutoscalerController, Settings

SCALE = "/apis/apps/v1/namespaces/ns/deployments/web/scale"
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
STATUS = "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers/web/status"


class World:
    """A transport, and the informers: the API server as the controller sees it. Each pod asks for 100 thousandths of a core."""

    def __init__(self, clock: FakeClock, load: int) -> None:
        self.clock, self.load, self.replicas = clock, load, 1
        self.sizes: list[tuple[int, int]] = []  # seconds, replicas
        self.asked = 0
        self.informers: dict[str, Informer] = {}
        self.events: list[str] = []

    def informer(self, gvr: GroupVersionResource) -> Informer:
        return self.informers.setdefault(gvr.resource, Informer(gvr.resource))

    def event(self, regarding: Object, kind: str, reason: str, note: str) -> None:
        self.events.append(f"{reason}: {note}")

    async def settle(self) -> None:
        """The pods that there should be are there, and ready for long."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        status = {"phase": "Running", "startTime": "2025-01-01T00:00:00Z", "conditions": [ready]}
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}
        names = [f"p{number}" for number in range(self.replicas)]
        metadata = [{"name": name, "namespace": "ns", "uid": name, "labels": {"app": "web"}} for name in names]
        await self.informer_of("pods").replace([{"metadata": each, "spec": spec, "status": status} for each in metadata])

    def informer_of(self, resource: str) -> Informer:
        return self.informers[resource]

    async def send(self, request: Request) -> Reply:
        self.asked += 1
        path = request.path.partition("?")[0]
        body: Any = orjson.loads(request.body) if request.body else None
        if path == "/apis/apps":
            return Reply(body={"versions": [{"version": "v1"}]})
        if path == "/apis/apps/v1":
            names = ("deployments", "deployments/scale")
            return Reply(body={"resources": [{"name": name, "kind": "Deployment"} for name in names]})
        if path == PODS:
            used = [{"name": "c", "usage": {"cpu": f"{self.load // max(self.replicas, 1)}m"}}]
            stamp = {"timestamp": format_time(self.clock.now()), "window": "15s", "containers": used}
            return Reply(body={"items": [{"metadata": {"name": f"p{number}"}, **stamp} for number in range(self.replicas)]})
        if path == SCALE and request.method == "PUT":
            self.replicas = body["spec"]["replicas"]
            self.sizes.append((round(self.clock.monotonic()), self.replicas))
            await self.settle()
        if path == SCALE:
            state = {"spec": {"replicas": self.replicas}, "status": {"replicas": self.replicas, "selector": "app=web"}}
            return Reply(body={"metadata": {"name": "web", "namespace": "ns"}, **state})
        assert path == STATUS, path
        await self.informer_of("horizontalpodautoscalers").apply([("MODIFIED", body)])
        return Reply(body=body)

    async def close(self) -> None:
        return


@asynccontextmanager
async def running(load: int, **spec: Any) -> AsyncIterator[tuple[World, FakeClock]]:
    clock = FakeClock()
    world = World(clock, load)
    env = Environment(Client(FAKE_CONFIG, clock=clock, transport=world), world, lambda name: world, clock)  # type: ignore[arg-type]
    controller = HorizontalPodAutoscalerController(env, Settings())
    target = {"type": "Utilization", "averageUtilization": 100}
    autoscaler = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            **spec,
        },
    }
    await world.settle()
    await world.informer_of("horizontalpodautoscalers").replace([clone(autoscaler)])
    task = asyncio.ensure_future(controller.run())
    try:
        yield world, clock
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_up_by_doubling_and_down_after_five_minutes() -> None:
    async with running(load=900) as (world, clock):
        await clock.advance(14)
        assert world.asked == 0, "the first look is a period away"
        await clock.advance(46)
        assert world.sizes == [(15, 4), (30, 8), (45, 9)]
        world.load = 100
        await clock.advance(298)  # the last wish for nine is of the 60th second
        assert world.replicas == 9
        await clock.advance(20)
        assert world.sizes[3:] == [(375, 1)]
        assert world.events[-1] == "SuccessfulRescale: New size: 1; reason: All metrics below target"


async def test_policies_and_windows_of_a_behavior() -> None:
    behavior = {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 120,
            "selectPolicy": "Min",
            "policies": [
                {"type": "Percent", "value": 50, "periodSeconds": 60},
                {"type": "Pods", "value": 2, "periodSeconds": 60},
            ],
        },
    }
    async with running(load=700, behavior=behavior) as (world, clock):
        await clock.advance(200)
        assert world.sizes == [(15, 3), (75, 5), (135, 7)]
        world.load = 100
        await clock.advance(400)
        assert world.sizes[3:] == [(315, 5), (375, 3), (435, 1)]


async def test_one_direction_may_be_closed() -> None:
    closed = {"selectPolicy": "Disabled", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}
    fast = {"selectPolicy": "Max", "stabilizationWindowSeconds": 0}
    fast["policies"] = [{"type": "Percent", "value": 900, "periodSeconds": 15}]
    async with running(load=500, behavior={"scaleUp": fast, "scaleDown": closed}) as (world, clock):
        await clock.advance(20)
        assert world.replicas == 5
        world.load = 100
        await clock.advance(1000)
        assert world.replicas == 5


async def test_an_autoscaler_that_is_gone_asks_for_nothing() -> None:
    async with running(load=100) as (world, clock):
        await clock.advance(20)
        await world.informer_of("horizontalpodautoscalers").replace([])
        await clock.settle()
        asked = world.asked
        await clock.advance(100)
        assert world.asked == asked


async def test_a_quiet_autoscaler_writes_its_status_once() -> None:
    async with running(load=100) as (world, clock):
        await clock.advance(16)
        (before,) = world.informer_of("horizontalpodautoscalers").lister.list()
        assert before["status"]["currentMetrics"][0]["resource"]["current"] == {"averageUtilization": 100, "averageValue": "100m"}
        await clock.advance(60)
        (after,) = world.informer_of("horizontalpodautoscalers").lister.list()
        assert after == before
        assert world.sizes == []
