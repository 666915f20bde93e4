# ruff: noqa: E501 - messages are searched for, so they stay on one line
"""Warnings of pods and workloads, as upstream's pkg/api/pod/warnings.go words them."""

from typing import Any

import pytest

from tests.support.kinds import context, created, strategy

Object = dict[str, Any]


def pod(container: Object | None = None, **spec: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "i:1", **(container or {})}], **spec}}


WARNED = [
    pytest.param(
        pod(nodeSelector={"beta.kubernetes.io/os": "linux"}),
        'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
        id="old label",
    ),
    pytest.param(
        pod({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        id="hidden variable",
    ),
    pytest.param(
        pod({"ports": [{"containerPort": 1}, {"containerPort": 1, "name": "a"}]}),
        "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        id="same port",
    ),
    pytest.param(
        pod({"resources": {"requests": {"memory": "100m"}}}),
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer',
        id="fraction of a byte",
    ),
    pytest.param(pod(imagePullSecrets=[{}]), 'spec.imagePullSecrets[0].name: invalid empty name ""', id="empty pull secret"),
    pytest.param(
        pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.topologySpreadConstraints[0]: a null labelSelector results in matching no pod",
        id="null selector",
    ),
    pytest.param(
        {**pod(), "metadata": {"name": "x", "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "a"}}},
        'metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field '
        "instead",
        id="old annotation",
    ),
]


@pytest.mark.parametrize(("obj", "text"), WARNED)
def test_pod_warnings(obj: Object, text: str) -> None:
    kind = strategy("pods")
    made = created(kind, obj)
    assert kind.warnings(context(), made, None) == [text]
    assert kind.warnings(context("update"), made, made) == []


def test_templates_are_looked_into_and_dotted_names_mentioned() -> None:
    kind = strategy("deployments")
    template = {"metadata": {"labels": {"a": "b"}}, **pod(nodeSelector={"beta.kubernetes.io/arch": "x"})}
    obj = {"metadata": {"name": "a.b"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    assert kind.warnings(context(), created(kind, obj), None) == [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
        "recommended: [must not contain dots]",
        'spec.template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead',
    ]


def test_headless_services_ignore_affinity() -> None:
    kind = strategy("services")
    obj = created(kind, {"spec": {"clusterIP": "None", "sessionAffinity": "ClientIP"}})
    assert kind.warnings(context(), obj, None) == ["spec.sessionAffinity is ignored for headless services"]
