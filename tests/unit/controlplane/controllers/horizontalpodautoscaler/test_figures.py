"""What is asked of which API, what is read from the answer, and what is said when there is none."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apimachinery import errors, labels
from client.fake import FAKE_CONFIG, FakeTransport, Reply, failure
from client.rest import Client
from component.clock import FakeClock
from controlplane.controllers.horizontalpodautoscaler.figures import Figures, FiguresError
from controlplane.controllers.horizontalpodautoscaler.mapping import Mapper
from controlplane.controllers.horizontalpodautoscaler.pods import Sample

GROUP = "/apis/custom.metrics.k8s.io"
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/q"
AT, WHEN = "2026-01-01T12:00:00Z", datetime(2026, 1, 1, 12, tzinfo=UTC)
APP = labels.parse("app=web")
METRIC = {"name": "q"}
ENDLESS = {"describedObject": {"name": "a"}, "timestamp": AT, "value": "1", "windowSeconds": 1 << 60}
GONE = failure(errors.StatusError(errors.make_status(404, "NotFound", "the server could not find the requested resource")))


def setup() -> tuple[Figures, FakeTransport, FakeClock]:
    transport, clock = FakeTransport(), FakeClock()
    client = Client(FAKE_CONFIG, clock=clock, transport=transport)
    return Figures(client, Mapper(client, clock), clock, keep=15), transport, clock


def pod_metrics(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "timestamp": AT, "window": "10.5s", "containers": list(containers)}


def used(name: str, **usage: str) -> dict[str, Any]:
    return {"name": name, "usage": usage}


@pytest.mark.parametrize(("container", "wanted"), [("", {"a": 300}), ("x", {"a": 100, "b": 1}), ("z", {})])
async def test_resources_of_pods_or_of_one_container(container: str, wanted: dict[str, int]) -> None:
    figures, transport, _ = setup()
    items = [
        pod_metrics("a", used("x", cpu="100m"), used("y", cpu="200m")),
        pod_metrics("b", used("x", cpu="1n"), used("y", memory="1Ki")),
        pod_metrics("c"),
    ]
    transport.on(f"GET {PODS}", Reply(body={"items": items}))
    found = await figures.resource("cpu", "ns", APP, container)
    assert {name: sample.value for name, sample in found.items()} == wanted
    assert all(sample == Sample(sample.value, WHEN, timedelta(seconds=10.5)) for sample in found.values())
    assert transport.requests[0].path.endswith("?labelSelector=app%3Dweb")


async def test_the_version_of_custom_metrics_is_remembered_for_a_while() -> None:
    figures, transport, clock = setup()
    versions = [{"version": each} for each in ("v1", "v1beta1", "v1beta2")]
    transport.always(f"GET {GROUP}", Reply(body={"versions": versions, "preferredVersion": {"version": "v1beta2"}}))
    value = {"describedObject": {"name": "a"}, "timestamp": AT, "value": "1500m", "windowSeconds": 30}
    path = f"{GROUP}/v1beta2/namespaces/ns/pods/*/q"
    transport.always(f"GET {path}", Reply(body={"items": [value]}))
    for _ in range(2):
        assert await figures.of_pods(METRIC, "ns", APP) == {"a": Sample(1500, WHEN, timedelta(seconds=30))}
    assert len(transport.asked(f"GET {GROUP}")) == 1
    await clock.advance(16)
    await figures.of_pods(METRIC, "ns", APP)
    assert len(transport.asked(f"GET {GROUP}")) == 2


async def test_a_namespace_is_asked_for_by_its_own_name() -> None:
    figures, transport, _ = setup()
    transport.on(f"GET {GROUP}", Reply(body={"versions": [{"version": "v1beta1"}]}))
    transport.on(f"GET {GROUP}/v1beta1/namespaces/ns/metrics/q", Reply(body={"items": [{"value": "2"}]}))
    described = {"apiVersion": "v1", "kind": "Namespace", "name": "another"}
    assert await figures.of_object(METRIC, "ns", described) == 2000


Ask = Callable[[Figures], Awaitable[Any]]


@pytest.mark.parametrize(
    ("ask", "answers", "text"),
    [
        (
            lambda f: f.resource("cpu", "ns", APP),
            {PODS: GONE},
            "unable to fetch metrics from resource metrics API: the server could not find the requested resource",
        ),
        (
            lambda f: f.resource("cpu", "ns", APP),
            {PODS: Reply(body={"items": []})},
            "no metrics returned from resource metrics API",
        ),
        (
            lambda f: f.resource("cpu", "ns", APP),
            {PODS: Reply(body={"items": [pod_metrics("a", used("x", cpu="much"))]})},
            "unable to fetch metrics from resource metrics API: its answer cannot be read",
        ),
        (
            lambda f: f.of_pods(METRIC, "ns", APP),
            {
                GROUP: Reply(body={"versions": [{"version": "v1beta1"}]}),
                f"{GROUP}/v1beta1/namespaces/ns/pods/*/q": Reply(body={"items": [ENDLESS]}),
            },
            "custom metrics API: its answer cannot be read",
        ),
        (
            lambda f: f.of_pods(METRIC, "ns", APP),
            {GROUP: GONE},
            r"unable to fetch metrics from custom metrics API: no custom metrics API \(custom.metrics.k8s.io\) registered",
        ),
        (
            lambda f: f.of_pods(METRIC, "ns", APP),
            {GROUP: Reply(body={"versions": [{"version": "v7"}]})},
            "no known available metric versions found",
        ),
        (
            lambda f: f.external(METRIC, "ns"),
            {EXTERNAL: Reply(body=b"nonsense")},
            "external metrics API: its answer cannot be read",
        ),
        (lambda f: f.external(METRIC, "ns"), {EXTERNAL: Reply(body={"items": [{}]})}, "its answer cannot be read"),
    ],
)
async def test_what_cannot_be_had(ask: Ask, answers: dict[str, Reply], text: str) -> None:
    figures, transport, _ = setup()
    for path, reply in answers.items():
        transport.on(f"GET {path}", reply)
    with pytest.raises(FiguresError, match=text):
        await ask(figures)
