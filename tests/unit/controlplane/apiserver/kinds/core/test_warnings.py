# ruff: noqa: E501 - messages are searched for, so they stay on one line
"""Warnings of pods and workloads, as upstream's pkg/api/pod/warnings.go words them."""

from typing import Any

import pytest

from controlplane.apiserver.kinds.shared import addresses
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
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        id="null selector",
    ),
    pytest.param(
        {**pod(), "metadata": {"name": "x", "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "a"}}},
        'metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field '
        "instead",
        id="old annotation",
    ),
    pytest.param(
        pod(volumes=[{"name": "v", "rbd": {"monitors": ["m"], "image": "i"}}]),
        "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
        id="volume of old",
    ),
    pytest.param(
        pod(volumes=[{"name": "v", "storageos": {"volumeName": "x"}}]),
        "spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
        id="volume of another name",
    ),
    pytest.param(
        pod(hostAliases=[{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]),
        'spec.hostAliases[1].ip: duplicate ip "10.0.0.1"',
        id="alias twice",
    ),
    pytest.param(
        pod(overhead={"memory": "1500m"}),
        'spec.overhead[memory]: fractional byte value "1500m" is invalid, must be an integer',
        id="fraction of overhead",
    ),
    pytest.param(
        pod(
            {"ports": [{"containerPort": 1, "hostPort": 8}]},
            initContainers=[{"name": "i", "image": "i", "ports": [{"containerPort": 1}]}],
        ),
        "spec.containers[0].ports[0]: overlapping port definition with spec.initContainers[0].ports[0]",
        id="ports of two containers",
    ),
    pytest.param(
        pod(
            {
                "ports": [
                    {"containerPort": 1, "hostPort": 8, "hostIP": "10.0.0.1"},
                    {"containerPort": 1, "hostPort": 8, "name": "a"},
                ]
            }
        ),
        "spec.containers[0].ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]",
        id="ports of one host",
    ),
    pytest.param(
        pod({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "x$(A)"}]}), None, id="a variable that builds on itself"
    ),
    pytest.param(
        {**pod(), "metadata": {"name": "x", "annotations": {"container.seccomp.security.alpha.kubernetes.io/c": "unconfined"}}},
        'metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the "seccompProfile" field instead',
        id="old annotation of a container",
    ),
    pytest.param(
        pod(
            serviceAccountName="a",
            volumes=[
                {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                {"name": "w", "projected": {"sources": [{"secret": {"name": "s", "items": [{"key": "k", "path": "t"}]}}]}},
            ],
        ),
        'spec.volumes[1].projected.sources.secrets[0]: has duplicated path with ServiceAccountToken "t"',
        id="a file where a token lies",
    ),
]


@pytest.mark.parametrize(("obj", "text"), WARNED)
def test_pod_warnings(obj: Object, text: str | None) -> None:
    kind = strategy("pods")
    made = created(kind, obj)
    assert kind.warnings(context(), made, None) == ([text] if text else [])
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
    assert kind.warnings(context(), obj, None) == ["spec.SessionAffinity is ignored for headless services"]


OTHERS = [
    (
        "services",
        {"spec": {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}},
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    ),
    (
        "services",
        {"spec": {"ports": [{"port": 80}], "trafficDistribution": "PreferClose"}},
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ),
    (
        "services",
        {"spec": {"ports": [{"port": 80}], "externalName": "a.b"}},
        'spec.externalName is ignored when spec.type is not "ExternalName"',
    ),
    (
        "services",
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": ["10.0.0.1/8"]}},
        'spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)',
    ),
    (
        "networkpolicies",
        {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "2001:DB8::/32"}}]}]}},
        'spec.ingress[0].from[0].ipBlock.cidr: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")',
    ),
    (
        "persistentvolumes",
        {
            "spec": {
                "persistentVolumeReclaimPolicy": "Recycle",
                "capacity": {"storage": "1"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
            }
        },
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
    ),
    (
        "persistentvolumeclaims",
        {
            "metadata": {"name": "x", "annotations": {"volume.beta.kubernetes.io/storage-class": "a"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
        },
        'metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead',
    ),
]


@pytest.mark.parametrize(("plural", "obj", "text"), OTHERS)
def test_warnings_of_other_kinds(plural: str, obj: Object, text: str) -> None:
    kind = strategy(plural)
    assert kind.warnings(context(), created(kind, obj), None) == [text]


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("10.0.0.1", None),
        (
            "010.0.0.1",
            'p: non-standard IP address "010.0.0.1" will be considered invalid in a future Kubernetes release: use "10.0.0.1"',
        ),
        (
            "::ffff:1.2.3.4",
            'p: non-standard IP address "::ffff:1.2.3.4" will be considered invalid in a future Kubernetes release: use "1.2.3.4"',
        ),
        ("2001:0db8::1", 'p: IPv6 address "2001:0db8::1" should be in RFC 5952 canonical format ("2001:db8::1")'),
        ("2001:db8::1", None),
        ("here", None),
    ],
)
def test_addresses_in_odd_forms(text: str, warned: str | None) -> None:
    assert list(addresses.of_ip(text, "p")) == ([warned] if warned else [])
