# ruff: noqa: E501 - messages are searched for, so they stay on one line
"""What ``/resize`` may change of a pod."""

from typing import Any

import pytest

from apimachinery.meta import clone
from tests.support.kinds import context, created, strategy

Object = dict[str, Any]
RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}, "limits": {"memory": "2Gi"}}


def pod() -> Object:
    containers = [{"name": "a", "image": "i", "resources": clone(RESOURCES)}, {"name": "b", "image": "i"}]
    init = [{"name": "i", "image": "i", "resources": clone(RESOURCES)}]
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": clone(RESOURCES)}
    return created(strategy("pods"), {"spec": {"containers": containers, "initContainers": [*init, sidecar]}})


def resize(change: Any, stored: Object | None = None) -> list[str]:
    """The errors of a resize by which ``change`` was made to the pod's spec."""
    part = next(one for one in strategy("pods").subresources if one.name == "resize")
    assert part.validate is not None
    old = stored or pod()
    body = clone(old)
    change(body["spec"])
    new = part.change(context("update"), clone(old), body)
    return [str(error) for error in part.validate(context("update"), new, old)]


def setting(where: str, position: int, **resources: Any) -> Any:
    def change(spec: Object) -> None:
        held = spec[where][position].setdefault("resources", {})
        for name, amounts in resources.items():
            held[name] = {**held.get(name, {}), **amounts}

    return change


def test_cpu_and_memory_may_change_of_containers_and_sidecars() -> None:
    assert resize(setting("containers", 0, requests={"cpu": "2"}, limits={"memory": "3Gi"})) == []
    assert resize(setting("containers", 1, requests={"cpu": "2"})) == []
    assert resize(setting("initContainers", 1, requests={"cpu": "2"})) == []
    assert resize(lambda spec: None) == []


def dropping(part: str, name: str) -> Any:
    return lambda spec: spec["containers"][0]["resources"][part].pop(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting("containers", 0, requests={"ephemeral-storage": "2Gi"}), "spec: Forbidden: only cpu and memory resources are mutable"),
        (setting("initContainers", 0, requests={"cpu": "2"}), "spec: Forbidden: only cpu and memory resources are mutable"),
        (lambda spec: spec["containers"][0].update(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]), "spec: Forbidden: only cpu and memory resources are mutable"),
        (dropping("requests", "cpu"), "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"),
        (dropping("limits", "memory"), "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"),
        (setting("containers", 0, requests={"memory": "4Gi"}), "spec.containers[0].resources.requests: Invalid value"),
    ],
)  # fmt: skip
def test_nothing_else_may(change: Any, message: str) -> None:
    found = resize(change)
    assert any(text.startswith(message) for text in found), found


def test_the_quality_of_service_stays() -> None:
    stored = created(strategy("pods"), {"spec": {"containers": [{"name": "a", "image": "i"}]}})
    found = resize(setting("containers", 0, requests={"cpu": "1"}), stored)
    assert any("Pod QOS Class may not change as a result of resizing" in text for text in found)


def test_static_pods_are_their_kubelets() -> None:
    stored = pod()
    stored["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert resize(lambda spec: None, stored) == [": Forbidden: static pods cannot be resized"]


def test_other_changes_are_dropped_unsaid() -> None:
    part = next(one for one in strategy("pods").subresources if one.name == "resize")
    old = pod()
    body = clone(old)
    body["spec"]["containers"][0]["image"] = "j"
    body["spec"]["nodeName"] = "n"
    del body["spec"]["containers"][1]
    assert part.change(context("update"), clone(old), body) == old
