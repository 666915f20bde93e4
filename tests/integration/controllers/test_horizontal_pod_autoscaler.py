"""Autoscalers on the real API server: every kind of metric from an adapter, every kind of target, and what they say of it all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, get_condition, name_of
from apimachinery.resources import DEPLOYMENTS, EVENTS, HORIZONTAL_POD_AUTOSCALERS, PODS
from apimachinery.times import format_time
from client.rest import Client
from component.featuregates import Gates
from component.features import DEFAULTS, from_flag
from tests.integration.controllers.test_deployment import deployment
from tests.support.apiserver import running_apiserver, with_front_proxy
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually
from tests.support.custom import GROUP, definition, version
from tests.support.extension_server import ExtensionServer, extension_server

_APIS = ("metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1beta2", "external.metrics.k8s.io/v1beta1")
_FLAGS = ("--horizontal-pod-autoscaler-sync-period=100ms", "--horizontal-pod-autoscaler-downscale-stabilization=300ms")
_CONTROLLERS = "deployment,replicaset,serviceaccount,horizontalpodautoscaling,nodelifecycle"
WIDGETS = GroupVersionResource(GROUP, "v1", "widgets")


@dataclass
class Cluster:
    client: Client
    adapter: ExtensionServer

    async def say(self, values: dict[str, str], resource: str = "cpu") -> None:
        """What ``metrics.k8s.io`` tells of pods from now on, one container each."""
        self.adapter.answers["/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"] = {
            "items": [
                {
                    "metadata": {"name": name},
                    "timestamp": format_time(datetime.now(UTC)),
                    "window": "15s",
                    "containers": [{"name": "c", "usage": {resource: value}}],
                }
                for name, value in values.items()
            ]
        }

    async def names(self) -> list[str]:
        return [name_of(pod) for pod in (await self.client.list(PODS, "default"))["items"]]

    async def replicas(self, wanted: int, name: str = "web") -> None:
        """Wanted, and there and ready."""

        async def look() -> bool:
            held = await self.client.get(DEPLOYMENTS, name, "default")
            return bool(held["spec"]["replicas"] == wanted == (held.get("status") or {}).get("readyReplicas", 0))

        await eventually(look)

    async def condition(self, kind: str, reason: str, name: str = "web") -> str:
        """The message of the condition, once it has that reason."""

        async def look() -> Object | None:
            held = await self.client.get(HORIZONTAL_POD_AUTOSCALERS, name, "default")
            found = get_condition(held, kind)
            return found if found is not None and found["reason"] == reason else None

        return str((await eventually(look))["message"])

    async def event(self, reason: str) -> str:
        async def look() -> Object | None:
            items = (await self.client.list(EVENTS, "default"))["items"]
            return next((each for each in items if each["reason"] == reason), None)

        return str((await eventually(look))["note"])


@asynccontextmanager
async def cluster(where: Path, gates: Gates = DEFAULTS) -> AsyncIterator[Cluster]:
    authority, changes = with_front_proxy(where)
    async with (
        extension_server(authority) as adapter,
        running_apiserver(directory=where, features=gates, **changes) as server,
        control_plane(server, _FLAGS, controllers=_CONTROLLERS) as client,
    ):
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        try:
            adapter.aggregated = False
            await client.create(GroupVersionResource("", "v1", "services"), adapter.service(), "default")
            for each in _APIS:
                group, _, served = each.partition("/")
                kind = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": each, "resources": []}
                adapter.answers[f"/apis/{each}"] = kind
                made = adapter.api_service(served)
                made["metadata"]["name"], made["spec"]["group"] = f"{served}.{group}", group
                await client.create(GroupVersionResource("apiregistration.k8s.io", "v1", "apiservices"), made)
            yield Cluster(client, adapter)
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)


def autoscaler(*metrics: Object, name: str = "web", kind: str = "Deployment", api: str = "apps/v1", **spec: Any) -> Object:
    target = {"apiVersion": api, "kind": kind, "name": "web"}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 6, "metrics": list(metrics), **spec},
    }


def cpu(target: int) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}}


def external(name: str, value: str) -> Object:
    return {"type": "External", "external": {"metric": {"name": name}, "target": {"type": "Value", "value": value}}}


async def test_a_deployment_follows_its_cpu_up_and_down(tmp_path: Path) -> None:
    async with cluster(tmp_path) as held:
        await held.client.create(DEPLOYMENTS, deployment(replicas=1))
        await held.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(cpu(50)))
        await held.replicas(1)
        text = await held.condition("ScalingActive", "FailedGetResourceMetric")
        assert text.startswith("the HPA was unable to compute the replica count: failed to get cpu utilization: ")
        await held.say(dict.fromkeys(await held.names(), "15m"))
        await held.replicas(3)
        text = await held.event("SuccessfulRescale")
        assert text == "New size: 3; reason: cpu resource utilization (percentage of request) above target"
        await held.say(dict.fromkeys(await held.names(), "1m"))
        await held.replicas(1)

        async def settled() -> Object | None:
            seen = await held.client.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")
            status: Object = seen["status"]
            return status if status.get("currentReplicas") == status["desiredReplicas"] == 1 else None

        await held.say(dict.fromkeys(await held.names(), "5m"))
        status = await eventually(settled)
        assert status["lastScaleTime"]
        assert await held.condition("ScalingActive", "ValidMetricFound") == (
            "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)"
        )
        await held.condition("AbleToScale", "ReadyForNewScale")
        await held.condition("ScalingLimited", "DesiredWithinRange")

        # zero switches it off, as long as the autoscaler itself does not go that far
        await held.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, namespace="default", subresource="scale")
        await held.condition("ScalingActive", "ScalingDisabled")


async def test_metrics_of_adapters(tmp_path: Path) -> None:
    async with cluster(tmp_path) as held:
        await held.client.create(DEPLOYMENTS, deployment(replicas=2))
        await held.replicas(2)
        base = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default"
        said = held.adapter.answers
        said["/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue"] = {"items": [{"value": "5"}, {"value": "1500m"}]}
        said[f"{base}/pods/*/hits"] = {
            "items": [
                {"describedObject": {"name": name}, "timestamp": format_time(datetime.now(UTC)), "value": "500m"}
                for name in await held.names()
            ]
        }
        said[f"{base}/deployments.apps/web/load"] = {"items": [{"describedObject": {"name": "web"}, "value": "3"}]}
        selector = {"matchLabels": {"verb": "get"}}
        average = {"type": "AverageValue", "averageValue": "1"}
        metrics = [
            {"type": "Pods", "pods": {"metric": {"name": "hits", "selector": selector}, "target": average}},
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "load"},
                    "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                    "target": {"type": "Value", "value": "2"},
                },
            },
            {"type": "External", "external": {"metric": {"name": "queue"}, "target": average}},
        ]
        await held.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(*metrics, maxReplicas=4))
        await held.replicas(4)
        assert await held.event("SuccessfulRescale") == "New size: 4; reason: external metric queue(nil) above target"
        await held.condition("ScalingLimited", "TooManyReplicas")
        asked = next(each for each in held.adapter.asked if each.path.endswith("/hits"))
        assert asked.query == "labelSelector=app%3Dweb&metricLabelSelector=verb%3Dget"
        # one that says nothing: nothing shrinks on the word of the others, and what they say is still told
        said[f"{base}/deployments.apps/web/load"]["items"][0]["value"] = "1"
        del said["/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue"]
        text = await held.condition("ScalingActive", "FailedGetExternalMetric")
        assert text.endswith("default/queue/nil: no metrics returned from external metrics API")
        assert (await held.event("FailedComputeMetricsReplicas")).startswith("invalid metrics (1 invalid out of 3), first error")
        status = (await held.client.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default"))["status"]
        assert [each["type"] for each in status["currentMetrics"]] == ["Pods", "Object", ""]
        assert status["currentMetrics"][1]["object"]["current"] == {"value": "1"}
        assert status["currentReplicas"] == 4


async def test_targets(tmp_path: Path) -> None:
    """A custom resource with a scale; and everything that cannot be a target."""
    async with cluster(tmp_path) as held:
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        where = {"scale": {**scale, "labelSelectorPath": ".status.selector"}, "status": {}}
        definitions = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        await held.client.create(definitions, definition("widgets", "Widget", version(subresources=where)))
        held.adapter.answers["/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue"] = {"items": [{"value": "9"}]}
        metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "3"}}
        metrics = {"type": "External", "external": metric}
        kind = {"kind": "Widget", "api": f"{GROUP}/v1"}
        await held.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(metrics, **kind))
        found = await held.condition("AbleToScale", "FailedGetScale")
        assert found.startswith("the HPA controller was unable to get the target's current scale: ")

        async def made() -> bool:
            widget = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "web"}, "spec": {"replicas": 1}}
            try:
                await held.client.create(WIDGETS, widget, "default")
            except StatusError:  # not served yet
                return False
            return True

        await eventually(made)
        assert await held.condition("ScalingActive", "InvalidSelector") == "the HPA target's scale is missing a selector"
        assert await held.event("SelectorRequired") == "selector is required"
        status = {"status": {"selector": "app=widget", "replicas": 1}}
        await held.client.patch(WIDGETS, "web", status, namespace="default", subresource="status")

        async def grown() -> bool:
            return bool((await held.client.get(WIDGETS, "web", "default"))["spec"]["replicas"] == 3)

        await eventually(grown)
        for name, api, other, text in (
            ("wrong", "a/b/c", "Deployment", "unexpected GroupVersion string: a/b/c"),
            ("nokind", "apps/v1", "Nothing", 'no matches for kind "Nothing" in group "apps"'),
            ("noscale", "v1", "Pod", "could not find scale subresource for /v1, Resource=pods in discovery information"),
            ("missing", "apps/v1", "StatefulSet", 'statefulsets.apps "web" not found'),
        ):
            await held.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(metrics, name=name, kind=other, api=api))
            message = await held.condition("AbleToScale", "FailedGetScale", name)
            assert message == f"the HPA controller was unable to get the target's current scale: {text}"


async def test_two_autoscalers_do_not_pull_at_one_target(tmp_path: Path) -> None:
    async with cluster(tmp_path) as held:
        await held.client.create(DEPLOYMENTS, deployment(replicas=1))
        await held.replicas(1)
        for name in ("one", "two"):
            await held.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(external("queue", "1"), name=name))
        text = await held.condition("ScalingActive", "AmbiguousSelector", "one")
        assert text == "pods by selector app=web are controlled by multiple HPAs: [{one default} {two default}]"
        await held.client.delete(HORIZONTAL_POD_AUTOSCALERS, "two", "default")
        await held.condition("ScalingActive", "FailedGetExternalMetric", "one")


async def test_to_zero_and_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, from_flag({"HPAScaleToZero": "true"})) as held:
        queue = {"items": [{"value": "0"}]}
        held.adapter.answers["/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue"] = queue
        await held.client.create(DEPLOYMENTS, deployment(replicas=1))
        # for each replica: a target for the whole would count the pods that are ready, none of which is at first
        metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}
        await held.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler({"type": "External", "external": metric}, minReplicas=0))
        await held.replicas(0)
        queue["items"][0]["value"] = "2500m"
        await held.replicas(3)
        await held.condition("ScalingActive", "ValidMetricFound")
