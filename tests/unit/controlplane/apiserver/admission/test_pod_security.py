"""The Pod Security Standards, in upstream's words, and what the plugin makes of a namespace's labels."""

from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes
from controlplane.apiserver.admission.pod_security.checks import findings
from controlplane.apiserver.admission.pod_security.plugin import PodSecurity
from controlplane.apiserver.admission.pod_security.policy import settings_from
from controlplane.apiserver.authentication.interface import UserInfo

Object = dict[str, Any]
GOOD = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
GOOD_POD = {"seccompProfile": {"type": "RuntimeDefault"}}


def pod(container: Object | None = None, context: Object | None = None, **spec: Any) -> Object:
    containers = [{"name": "a", "image": "i", **(container or {})}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "securityContext": context or {}, **spec}}


def broken(obj: Object, level: str, minor: int = 36) -> list[str]:
    return [str(each) for each in findings(obj, level, minor)]


def test_a_plain_pod_is_baseline_and_not_restricted() -> None:
    assert broken(pod(), "baseline") == []
    assert broken(pod(), "privileged") == []
    assert broken(pod(), "restricted") == [
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)',
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"])',
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    ]
    assert broken(pod({"securityContext": GOOD}, GOOD_POD), "restricted") == []


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (pod(hostNetwork=True, hostIPC=True), "host namespaces (hostNetwork=true, hostIPC=true)"),
        (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
        (pod({"ports": [{"hostPort": 80}, {"hostPort": 443}]}), 'hostPort (container "a" uses hostPorts 443, 80)'),
        (
            pod({"securityContext": {"privileged": True}}),
            'privileged (container "a" must not set securityContext.privileged=true)',
        ),
        (
            pod({"securityContext": {"capabilities": {"add": ["NET_ADMIN", "CHOWN", "BPF"]}}}),
            'non-default capabilities (container "a" must not include "BPF", "NET_ADMIN" in securityContext.capabilities.add)',
        ),
        (
            pod({"securityContext": {"procMount": "Unmasked"}}),
            'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            pod(context={"seccompProfile": {"type": "Unconfined"}}),
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            pod({"securityContext": {"seLinuxOptions": {"type": "x", "user": "u"}}}),
            'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "x"; user may not be set)',
        ),
        (pod(context={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), "forbidden sysctls (kernel.msgmax)"),
        (
            pod({"livenessProbe": {"httpGet": {"host": "169.254.169.254", "port": 80}}}),
            'probe or lifecycle host (container "a" uses probe or lifecycle host "169.254.169.254")',
        ),
        (
            pod(context={"windowsOptions": {"hostProcess": True}}),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            pod(ephemeralContainers=[{"name": "e", "securityContext": {"privileged": True}}]),
            'privileged (container "e" must not set securityContext.privileged=true)',
        ),
    ],
)
def test_baseline(obj: Object, text: str) -> None:
    assert broken(obj, "baseline") == [text]


def test_restricted_replaces_what_it_says_more_strictly_and_knows_versions() -> None:
    volumes = [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {}}, {"name": "x", "emptyDir": {}}]
    obj = pod({"securityContext": GOOD}, GOOD_POD, volumes=volumes)
    assert broken(obj, "restricted") == [
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")'
    ]
    host = pod({"livenessProbe": {"tcpSocket": {"host": "h", "port": 1}}})
    assert broken(host, "baseline", 33) == []
    assert "capabilities" not in " ".join(broken(pod(), "restricted", 21))
    root = pod({"securityContext": {**GOOD, "runAsUser": 0}}, GOOD_POD)
    assert broken(root, "restricted") == ['runAsUser=0 (container "a" must not set runAsUser=0)']
    assert broken(pod({"securityContext": {**GOOD, "runAsNonRoot": False}}, GOOD_POD), "restricted") == [
        'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)'
    ]


def plugin(labels: dict[str, str], pods: list[Object] | None = None, **config: Any) -> PodSecurity:
    async def lookup(resource: str, namespace: str, name: str) -> Object | None:
        assert (resource, name) == ("namespaces", "n")
        return {"metadata": {"name": "n", "labels": {f"pod-security.kubernetes.io/{key}": v for key, v in labels.items()}}}

    async def listing(resource: str, namespace: str) -> list[Object]:
        assert (resource, namespace) == ("pods", "n")
        return pods or []

    return PodSecurity(lookup, listing, settings_from(config))


def write(obj: Object, resource: str = "pods", old: Object | None = None, group: str = "") -> Attributes:
    operation = UPDATE if old else CREATE
    namespace = "" if resource == "namespaces" else "n"
    return Attributes(operation, GroupVersionKind(group, "v1", ""), resource, "", namespace, "p", obj, old, UserInfo("u"))


async def test_enforced_warned_and_audited() -> None:
    labels = {"enforce": "baseline", "warn": "restricted", "audit": "restricted", "audit-version": "v1.20"}
    attributes = write(pod(hostNetwork=True))
    with pytest.raises(StatusError) as refusal:
        await plugin(labels).validate(attributes)
    assert refusal.value.code == 403
    text = 'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    assert refusal.value.message == text
    assert attributes.warnings == []
    attributes = write(pod())
    await plugin(labels).validate(attributes)
    assert attributes.warnings[0].startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false')
    audited = attributes.annotations["pod-security.kubernetes.io/audit-violations"]
    assert audited.startswith('would violate PodSecurity "restricted:v1.20": allowPriv')
    assert attributes.annotations["pod-security.kubernetes.io/enforce-policy"] == "baseline:latest"


async def test_workloads_are_only_warned() -> None:
    deployment = {"metadata": {"name": "d"}, "spec": {"template": pod(hostPID=True)}}
    attributes = write(deployment, "deployments", group="apps")
    await plugin({"enforce": "baseline", "warn": "baseline"}).validate(attributes)
    assert attributes.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)']


async def test_exemptions_and_defaults() -> None:
    config: dict[str, Any] = {"defaults": {"enforce": "restricted"}, "exemptions": {"usernames": ["u"]}}
    attributes = write(pod())
    await plugin({}, **config).validate(attributes)
    assert attributes.annotations == {"pod-security.kubernetes.io/exempt": "user"}
    with pytest.raises(StatusError):
        await plugin({}, defaults={"enforce": "restricted"}).validate(write(pod()))
    await plugin({"enforce": "privileged"}, defaults={"enforce": "restricted"}).validate(write(pod()))
    with pytest.raises(StatusError, match="restricted:latest"):  # what is no level is taken for the strictest
        await plugin({"enforce": "tight"}).validate(write(pod()))


async def test_a_namespace_learns_of_bad_labels_and_of_pods_it_would_refuse() -> None:
    def namespace(**labels: str) -> Object:
        return {"metadata": {"name": "n", "labels": {f"pod-security.kubernetes.io/{key}": v for key, v in labels.items()}}}

    bad = write(namespace(enforce="tight"), "namespaces")
    assert plugin({}).handles(bad)
    with pytest.raises(StatusError) as refusal:
        await plugin({}).validate(bad)
    assert refusal.value.code == 422
    assert 'Invalid value: "tight": must be one of privileged, baseline, restricted' in refusal.value.message
    held = [pod(hostPID=True), pod(hostPID=True), pod()]
    held[1]["metadata"]["name"] = "q"
    attributes = write(namespace(enforce="baseline"), "namespaces", namespace())
    await plugin({}, held).validate(attributes)
    assert attributes.warnings == [
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "p (and 1 other pod): host namespaces",
    ]
