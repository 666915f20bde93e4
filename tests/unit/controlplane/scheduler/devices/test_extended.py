"""From extended resources of containers to requests of a claim."""

from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.scheduler.claims import mapping_of
from controlplane.scheduler.devices.extended import requests_of

GPU = "example.com/gpu"


def container(name: str, count: int = 0, **more: Any) -> Object:
    amounts = {"cpu": "1", **({GPU: str(count)} if count else {})}
    return {"name": name, "resources": {"requests": amounts}, **more}


def asked(init: list[Object], main: list[Object]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """(count by request, (container, request))."""
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"initContainers": init, "containers": main}}
    found = requests_of(pod, [GPU], lambda resource: "gpu")
    assert all(each["exactly"]["deviceClassName"] == "gpu" for each in found.listed)
    counts = {each["name"]: each["exactly"]["count"] for each in found.listed}
    return counts, [(each["containerName"], each["requestName"]) for each in found.mappings]


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("init", "main", "counts", "mapped"),
    [
        pytest.param(
            [],
            [container("a", 2), container("b"), container("c", 1)],
            {"container-0-request-1": 2, "container-2-request-1": 1},
            [("a", "container-0-request-1"), ("c", "container-2-request-1")],
            id="each container has its own",
        ),
        pytest.param(
            [container("i", 1)],
            [container("a", 2)],
            {"container-1-request-1": 2},
            [("a", "container-1-request-1"), ("i", "container-1-request-1")],
            id="an init container borrows what comes later",
        ),
        pytest.param(
            [container("i", 3), container("j", 2)],
            [container("a", 1)],
            {"container-0-request-1": 2, "container-2-request-1": 1},
            [
                ("a", "container-2-request-1"),
                ("i", "container-2-request-1"),
                ("i", "container-0-request-1"),
                ("j", "container-2-request-1"),
                ("j", "container-0-request-1"),
            ],
            id="what is missing is asked for once, for the greediest",
        ),
        pytest.param(
            [container("s", 1, **SIDECAR), container("i", 1)],
            [container("a")],
            {"container-0-request-1": 1, "container-1-request-1": 1},
            [("s", "container-0-request-1"), ("i", "container-1-request-1")],
            id="a sidecar before it lends nothing",
        ),
    ],
)
def test_requests(init: list[Object], main: list[Object], counts: dict[str, int], mapped: list[tuple[str, str]]) -> None:
    assert asked(init, main) == (counts, mapped)


def test_of_several_classes_the_last_made_counts() -> None:
    def made(name: str, when: str) -> Object:
        return {"metadata": {"name": name, "creationTimestamp": when}, "spec": {"extendedResourceName": GPU}}

    older, newer = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    assert mapping_of([made("a", newer), made("b", older)]) == {GPU: "a"}
    assert mapping_of([made("a", older), made("b", newer)]) == {GPU: "b"}
    assert mapping_of([made("b", older), made("a", older)]) == {GPU: "a"}
