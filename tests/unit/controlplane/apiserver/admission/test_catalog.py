"""Which plugins run, and what the optional ones do."""

from pathlib import Path
from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from component.errors import OperatorError
from controlplane.apiserver.admission.catalog import CATALOG, Policies, Tools, chosen, plugins
from controlplane.apiserver.admission.condition_metrics import ConditionMetrics
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Plugin
from controlplane.apiserver.admission.policy.metrics import PolicyMetrics
from controlplane.apiserver.admission.policy.mutation_metrics import MutationMetrics
from controlplane.apiserver.admission.webhook.wiring import Webhooks, users_from
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes as Question
from controlplane.apiserver.authorization.interface import Decision
from controlplane.apiserver.service_client import ClusterServices, HookClients
from tests.support.csr import request_for

Object = dict[str, Any]


class Signers:
    """Lets ``approver`` approve for one signer and ``domain`` for a whole domain."""

    async def authorize(self, asked: Question) -> tuple[Decision, str]:
        allowed = {("approver", "approve", "example.com/a"), ("domain", "approve", "example.com/*")}
        return (Decision.ALLOW if (asked.user.name, asked.verb, asked.name) in allowed else Decision.NO_OPINION), ""


class Nothing:
    """A cache without objects, and a server without kinds."""

    changed = 0

    def all_held(self) -> list[Any]:
        return []

    def find(self, kind: GroupVersionKind) -> None:
        return None


def tools(objects: dict[tuple[str, str, str], Object] | None = None, **settings: Object) -> Tools:
    held = objects or {}

    async def lookup(resource: str, namespace: str, name: str) -> Object | None:
        return held.get((resource, namespace, name))

    async def listing(resource: str, namespace: str) -> list[Object]:
        return [obj for key, obj in held.items() if key[:2] == (resource, namespace)]

    async def write_status(*_: Any) -> None:
        raise AssertionError

    policies = Policies(lambda resource: Nothing(), Nothing(), PolicyMetrics(), MutationMetrics(), ConditionMetrics())
    webhooks = Webhooks(lambda resource: Nothing(), lambda users: HookClients(ClusterServices(lookup), users))
    return Tools(lookup, listing, Signers(), write_status, settings, policies=policies, webhooks=webhooks)


def plugin(name: str, given: Tools | None = None) -> Plugin:
    entry = next(each for each in CATALOG if each.name == name)
    made = entry.make(given or tools())
    assert made.name == name
    return made


def write(
    obj: Object, resource: str = "pods", old: Object | None = None, group: str = "", sub: str = "", user: str = "u"
) -> Attributes:
    kind = GroupVersionKind(group, "v1", "")
    return Attributes(UPDATE if old else CREATE, kind, resource, sub, "n", "x", obj, old, UserInfo(user))


async def run(made: Plugin, attributes: Attributes) -> Attributes:
    assert made.handles(attributes)
    await made.mutate(attributes)
    await made.validate(attributes)
    return attributes


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_flags_change_the_default_set() -> None:
    default = chosen()
    assert {"ResourceQuota", "PodSecurity", "NodeRestriction"} <= default
    assert not {"AlwaysPullImages", "EventRateLimit", "AlwaysDeny"} & default
    assert chosen(["AlwaysPullImages"], ["PodSecurity"]) == default - {"PodSecurity"} | {"AlwaysPullImages"}
    assert chosen(["MutatingAdmissionWebhook"]) == default
    with pytest.raises(OperatorError, match="'Nonsense' is none of"):
        chosen(["Nonsense"])
    with pytest.raises(OperatorError, match="both in"):
        chosen(["Priority"], ["Priority"])
    names = [each.name for each in plugins(tools())]
    assert names[0] == "RoleEscalation"
    assert names[-3:] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota"]


def test_who_we_are_to_webhooks_is_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "config").write_text('{"users": [{"name": "*", "user": {"token": "t"}}]}')
    config = {"kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(tmp_path / "config")}
    assert users_from("x", config).get("*").token == "t"
    with pytest.raises(OperatorError, match="must be an absolute file path; got 'config'"):
        plugin("MutatingAdmissionWebhook", tools(MutatingAdmissionWebhook={"kubeConfigFile": "config"}))
    with pytest.raises(OperatorError, match="cannot read kubeconfig"):
        plugin("ValidatingAdmissionWebhook", tools(ValidatingAdmissionWebhook={"kubeConfigFile": str(tmp_path / "no")}))
    with pytest.raises(OperatorError, match="kind must be"):
        plugin("ValidatingAdmissionWebhook", tools(ValidatingAdmissionWebhook={"kind": "Other"}))


async def test_images_are_always_pulled() -> None:
    attributes = await run(plugin("AlwaysPullImages"), write(pod(initContainers=[{"name": "i", "imagePullPolicy": "Never"}])))
    spec = (attributes.obj or {})["spec"]
    assert [each["imagePullPolicy"] for each in spec["containers"] + spec["initContainers"]] == ["Always", "Always"]
    assert not plugin("AlwaysPullImages").handles(write(pod(), old=pod()))


async def test_external_addresses_are_refused_and_kept() -> None:
    made = plugin("DenyServiceExternalIPs")
    service = {"spec": {"externalIPs": ["192.0.2.1"]}}
    with pytest.raises(StatusError, match="Use of external IPs is denied by admission control"):
        await run(made, write(service, "services"))
    await run(made, write(service, "services", old=service))


async def test_events_are_bounded() -> None:
    made = plugin("EventRateLimit", tools(EventRateLimit={"limits": [{"type": "User", "qps": 1, "burst": 2}]}))
    for _ in range(2):
        await run(made, write({}, "events"))
    with pytest.raises(StatusError, match="limit reached on type User for key u") as refusal:
        await run(made, write({}, "events"))
    assert refusal.value.code == 429
    await run(made, write({}, "events", user="other"))
    with pytest.raises(OperatorError, match="needs a configuration"):
        plugin("EventRateLimit")


async def test_devices_are_tolerated() -> None:
    resources = {"requests": {"example.com/gpu": "1", "cpu": "1"}}
    attributes = await run(plugin("ExtendedResourceToleration"), write(pod(containers=[{"name": "c", "resources": resources}])))
    assert (attributes.obj or {})["spec"]["tolerations"] == [{"key": "example.com/gpu", "operator": "Exists"}]


async def test_a_namespace_chooses_nodes() -> None:
    annotations = {"scheduler.alpha.kubernetes.io/node-selector": "zone=a, disk=ssd"}
    held = {("namespaces", "", "n"): {"metadata": {"name": "n", "annotations": annotations}}}
    made = plugin("PodNodeSelector", tools(held))
    attributes = await run(made, write(pod(nodeSelector={"cpu": "fast"})))
    assert (attributes.obj or {})["spec"]["nodeSelector"] == {"cpu": "fast", "zone": "a", "disk": "ssd"}
    with pytest.raises(StatusError, match="conflicts with its namespace node label selector"):
        await run(made, write(pod(nodeSelector={"zone": "b"})))


async def test_a_namespace_gives_and_bounds_tolerations() -> None:
    annotations = {
        "scheduler.alpha.kubernetes.io/defaultTolerations": '[{"key": "team", "operator": "Exists"}]',
        "scheduler.alpha.kubernetes.io/tolerationsWhitelist": '[{"key": "team", "operator": "Exists"}]',
    }
    held = {("namespaces", "", "n"): {"metadata": {"name": "n", "annotations": annotations}}}
    made = plugin("PodTolerationRestriction", tools(held))
    attributes = await run(made, write(pod()))
    assert (attributes.obj or {})["spec"]["tolerations"] == [{"key": "team", "operator": "Exists"}]
    with pytest.raises(StatusError, match="conflict with its namespace whitelist"):
        await run(made, write(pod(tolerations=[{"key": "other", "operator": "Exists"}])))


async def test_the_newest_default_class_is_given() -> None:
    held = {}
    for name, created, marked in (("old", "2026-01-01", "true"), ("new", "2026-02-01", "true"), ("plain", "2026-03-01", "false")):
        for kind, key in (
            ("storageclasses.storage.k8s.io", "storageclass"),
            ("ingressclasses.networking.k8s.io", "ingressclass"),
        ):
            annotations = {f"{key}.kubernetes.io/is-default-class": marked}
            held[(kind, "", name)] = {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}
    claim = await run(plugin("DefaultStorageClass", tools(held)), write({"metadata": {}, "spec": {}}, "persistentvolumeclaims"))
    assert (claim.obj or {})["spec"]["storageClassName"] == "new"
    made = plugin("DefaultIngressClass", tools(held))
    ingress = await run(made, write({"metadata": {}}, "ingresses", group="networking.k8s.io"))
    assert (ingress.obj or {})["spec"]["ingressClassName"] == "new"
    named = {"metadata": {}, "spec": {"storageClassName": ""}}
    assert not plugin("DefaultStorageClass").handles(write(named, "persistentvolumeclaims"))


async def test_claims_grow_only_where_the_class_lets_them() -> None:
    def claim(size: str, name: str) -> Object:
        spec = {"storageClassName": name, "resources": {"requests": {"storage": size}}}
        return {"metadata": {"name": "c"}, "spec": spec, "status": {"phase": "Bound"}}

    held = {("storageclasses.storage.k8s.io", "", "elastic"): {"metadata": {"name": "elastic"}, "allowVolumeExpansion": True}}
    made = plugin("PersistentVolumeClaimResize", tools(held))
    await run(made, write(claim("2Gi", "elastic"), "persistentvolumeclaims", old=claim("1Gi", "elastic")))
    with pytest.raises(StatusError, match="only dynamically provisioned pvc can be resized"):
        await run(made, write(claim("2Gi", "stiff"), "persistentvolumeclaims", old=claim("1Gi", "stiff")))


async def test_who_may_approve_for_a_signer() -> None:
    made = plugin("CertificateApproval")
    request = {"metadata": {"name": "r"}, "spec": {"signerName": "example.com/a"}}
    for user in ("approver", "domain"):
        await run(made, write(request, "certificatesigningrequests", request, "certificates.k8s.io", "approval", user))
    with pytest.raises(StatusError, match="user not permitted to approve requests"):
        await run(made, write(request, "certificatesigningrequests", request, "certificates.k8s.io", "approval", "mallory"))


async def test_nobody_asks_for_an_administrator_s_certificate() -> None:
    made = plugin("CertificateSubjectRestriction")
    await run(made, write(request_for("team"), "certificatesigningrequests", group="certificates.k8s.io"))
    with pytest.raises(StatusError, match="signer with system:masters group is not allowed"):
        await run(made, write(request_for("team", "system:masters"), "certificatesigningrequests", group="certificates.k8s.io"))
