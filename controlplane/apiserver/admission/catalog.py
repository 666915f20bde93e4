"""THE ordered list of admission plugins, upstream's, and which of them run: the default set, changed by two flags."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from component.errors import OperatorError
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.apiserver.admission.condition_metrics import ConditionMetrics
from controlplane.apiserver.admission.interface import Listing, Lookup, MakeNamespace, Plugin, StatusWrite
from controlplane.apiserver.admission.limited_resources import limited_from
from controlplane.apiserver.admission.metrics import AdmissionMetrics
from controlplane.apiserver.admission.plugins.always import AlwaysAdmit, AlwaysDeny
from controlplane.apiserver.admission.plugins.always_pull_images import AlwaysPullImages
from controlplane.apiserver.admission.plugins.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from controlplane.apiserver.admission.plugins.default_class import DefaultIngressClass, DefaultStorageClass
from controlplane.apiserver.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from controlplane.apiserver.admission.plugins.deny_service_external_ips import DenyServiceExternalIPs
from controlplane.apiserver.admission.plugins.device_admin_access import DeviceAdminAccess
from controlplane.apiserver.admission.plugins.event_rate_limit import EventRateLimit
from controlplane.apiserver.admission.plugins.extended_resource_toleration import ExtendedResourceToleration
from controlplane.apiserver.admission.plugins.image_policy_webhook import Ask, ImagePolicyWebhook, policy_from
from controlplane.apiserver.admission.plugins.limit_pod_hard_anti_affinity_topology import LimitPodHardAntiAffinityTopology
from controlplane.apiserver.admission.plugins.limit_ranger import LimitRanger
from controlplane.apiserver.admission.plugins.namespace_auto_provision import NamespaceAutoProvision
from controlplane.apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from controlplane.apiserver.admission.plugins.namespaces import NamespaceExists
from controlplane.apiserver.admission.plugins.node_restriction import NodeRestriction
from controlplane.apiserver.admission.plugins.owner_references import OwnerReferencesPermissionEnforcement
from controlplane.apiserver.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from controlplane.apiserver.admission.plugins.pod_node_selector import PodNodeSelector
from controlplane.apiserver.admission.plugins.pod_toleration_restriction import PodTolerationRestriction
from controlplane.apiserver.admission.plugins.pod_topology_labels import PodTopologyLabels
from controlplane.apiserver.admission.plugins.policy_parameters import PolicyParameters
from controlplane.apiserver.admission.plugins.priority import Priority
from controlplane.apiserver.admission.plugins.resource_quota import ResourceQuota
from controlplane.apiserver.admission.plugins.role_escalation import RoleEscalation
from controlplane.apiserver.admission.plugins.runtime_class import RuntimeClass
from controlplane.apiserver.admission.plugins.service_account import ServiceAccount
from controlplane.apiserver.admission.plugins.storage_object_in_use import StorageObjectInUseProtection
from controlplane.apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from controlplane.apiserver.admission.pod_security.plugin import PodSecurity
from controlplane.apiserver.admission.pod_security.policy import settings_from
from controlplane.apiserver.admission.policy.metrics import PolicyMetrics
from controlplane.apiserver.admission.policy.mutating import MutatingAdmissionPolicy
from controlplane.apiserver.admission.policy.mutation_metrics import MutationMetrics
from controlplane.apiserver.admission.policy.params import ParamKinds
from controlplane.apiserver.admission.policy.source import Held
from controlplane.apiserver.admission.policy.validating import ValidatingAdmissionPolicy
from controlplane.apiserver.admission.webhook import wiring
from controlplane.apiserver.authorization.interface import Authorizer

Dial = Callable[[str], Ask]
"""From the path of a kubeconfig to how its server is asked. Raises OperatorError."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What admission policies are made from: caches by ``resource.group``, and the kinds of parameters."""

    held: Callable[[str], Held]
    kinds: ParamKinds
    metrics: PolicyMetrics
    mutation_metrics: MutationMetrics
    condition_metrics: ConditionMetrics


@dataclass(frozen=True, slots=True)
class Tools:
    """What plugins are made from. ``settings`` are the plugins' own configurations, by their names."""

    lookup: Lookup
    listing: Listing
    authorizer: Authorizer
    write_status: StatusWrite
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    features: Gates = DEFAULTS
    dial: Dial | None = None
    make_namespace: MakeNamespace | None = None
    metrics: AdmissionMetrics = field(default_factory=AdmissionMetrics)
    policies: Policies | None = None
    webhooks: wiring.Webhooks | None = None

    def of(self, name: str) -> Mapping[str, Any]:
        return self.settings.get(name, {})


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    make: Callable[[Tools], Plugin]
    by_default: bool = True


def _image_policy(tools: Tools) -> Plugin:
    policy = policy_from(tools.of("ImagePolicyWebhook"))
    if tools.dial is None:
        raise OperatorError("ImagePolicyWebhook: there is no way to ask another server here")
    return ImagePolicyWebhook(policy, tools.dial(policy.kubeconfig))


def _auto_provision(tools: Tools) -> Plugin:
    if tools.make_namespace is None:
        raise OperatorError("NamespaceAutoProvision: there is no way to make a namespace here")
    return NamespaceAutoProvision(tools.lookup, tools.make_namespace)


def _validating_policies(tools: Tools) -> Plugin:
    policies = tools.policies
    if policies is None:
        raise OperatorError("ValidatingAdmissionPolicy: there are no policies to follow here")
    held = policies.held("validatingadmissionpolicies.admissionregistration.k8s.io")
    bound = policies.held("validatingadmissionpolicybindings.admissionregistration.k8s.io")
    metrics = policies.metrics, policies.condition_metrics
    return ValidatingAdmissionPolicy(held, bound, tools.lookup, tools.authorizer, policies.kinds, *metrics)


def _mutating_policies(tools: Tools) -> Plugin:
    policies = tools.policies
    if policies is None:
        raise OperatorError("MutatingAdmissionPolicy: there are no policies to follow here")
    held = policies.held("mutatingadmissionpolicies.admissionregistration.k8s.io")
    bound = policies.held("mutatingadmissionpolicybindings.admissionregistration.k8s.io")
    metrics = policies.mutation_metrics, policies.condition_metrics
    return MutatingAdmissionPolicy(held, bound, tools.lookup, tools.authorizer, policies.kinds, *metrics)


def _mutating_webhooks(tools: Tools) -> Plugin:
    if tools.webhooks is None:
        raise OperatorError("MutatingAdmissionWebhook: there are no webhooks to follow here")
    return wiring.mutating(tools.webhooks, tools.of("MutatingAdmissionWebhook"), tools.lookup, tools.authorizer)


def _validating_webhooks(tools: Tools) -> Plugin:
    if tools.webhooks is None:
        raise OperatorError("ValidatingAdmissionWebhook: there are no webhooks to follow here")
    return wiring.validating(tools.webhooks, tools.of("ValidatingAdmissionWebhook"), tools.lookup, tools.authorizer)


def _node_restriction(tools: Tools) -> Plugin:
    audiences = tools.features.enabled("ServiceAccountNodeAudienceRestriction")
    return NodeRestriction(tools.lookup, tools.authorizer, audiences=audiences)


def _pod_security(tools: Tools) -> Plugin:
    return PodSecurity(tools.lookup, tools.listing, settings_from(tools.of("PodSecurity")), tools.metrics)


CATALOG = (
    Entry("AlwaysAdmit", lambda tools: AlwaysAdmit(), False),
    Entry("NamespaceAutoProvision", _auto_provision, False),
    Entry("NamespaceLifecycle", lambda tools: NamespaceLifecycle(tools.lookup)),
    Entry("NamespaceExists", lambda tools: NamespaceExists(tools.lookup), False),
    Entry("LimitPodHardAntiAffinityTopology", lambda tools: LimitPodHardAntiAffinityTopology(), False),
    Entry("LimitRanger", lambda tools: LimitRanger(tools.listing)),
    Entry("ServiceAccount", lambda tools: ServiceAccount(tools.lookup)),
    Entry("NodeRestriction", _node_restriction),  # optional upstream; Node is an authorizer here
    Entry("TaintNodesByCondition", lambda tools: TaintNodesByCondition()),
    Entry("AlwaysPullImages", lambda tools: AlwaysPullImages(), False),
    Entry("ImagePolicyWebhook", _image_policy, False),
    Entry("PodSecurity", _pod_security),
    Entry("PodNodeSelector", lambda tools: PodNodeSelector(tools.lookup, tools.of("PodNodeSelector")), False),
    Entry("Priority", lambda tools: Priority(tools.lookup)),
    Entry("DefaultTolerationSeconds", lambda tools: DefaultTolerationSeconds()),
    Entry(
        "PodTolerationRestriction",
        lambda tools: PodTolerationRestriction(tools.lookup, tools.of("PodTolerationRestriction")),
        False,
    ),
    Entry("EventRateLimit", lambda tools: EventRateLimit(tools.of("EventRateLimit")), False),
    Entry("ExtendedResourceToleration", lambda tools: ExtendedResourceToleration(), False),
    Entry("DefaultStorageClass", lambda tools: DefaultStorageClass(tools.listing)),
    Entry("StorageObjectInUseProtection", lambda tools: StorageObjectInUseProtection()),
    Entry(
        "OwnerReferencesPermissionEnforcement",
        lambda tools: OwnerReferencesPermissionEnforcement(tools.authorizer),
        False,
    ),
    Entry("PersistentVolumeClaimResize", lambda tools: PersistentVolumeClaimResize(tools.lookup)),
    Entry("RuntimeClass", lambda tools: RuntimeClass(tools.lookup)),
    Entry("CertificateApproval", lambda tools: CertificateApproval(tools.authorizer)),
    Entry("CertificateSigning", lambda tools: CertificateSigning(tools.authorizer)),
    Entry("ClusterTrustBundleAttest", lambda tools: ClusterTrustBundleAttest(tools.authorizer)),
    Entry("CertificateSubjectRestriction", lambda tools: CertificateSubjectRestriction()),
    Entry("DefaultIngressClass", lambda tools: DefaultIngressClass(tools.listing)),
    Entry("DenyServiceExternalIPs", lambda tools: DenyServiceExternalIPs(), False),
    Entry("PodTopologyLabels", lambda tools: PodTopologyLabels(tools.lookup, tools.features)),
    Entry("MutatingAdmissionPolicy", _mutating_policies),
    Entry("MutatingAdmissionWebhook", _mutating_webhooks),
    Entry("ValidatingAdmissionPolicy", _validating_policies),
    Entry("ValidatingAdmissionWebhook", _validating_webhooks),
    # last: what it claims must not be refused by another
    Entry(
        "ResourceQuota",
        lambda tools: ResourceQuota(tools.listing, tools.write_status, limited_from(tools.of("ResourceQuota"))),
    ),
    Entry("AlwaysDeny", lambda tools: AlwaysDeny(), False),
)


def chosen(enabled: Iterable[str] = (), disabled: Iterable[str] = ()) -> frozenset[str]:
    """The names of the plugins that run. Raises OperatorError for a name that is none, or that is in both lists."""
    on, off = set(enabled), set(disabled)
    known = {entry.name for entry in CATALOG}
    for flag, names in (("--enable-admission-plugins", on), ("--disable-admission-plugins", off)):
        if unknown := sorted(names - known):
            raise OperatorError(f"{flag}: {unknown[0]!r} is none of {', '.join(sorted(known))}")
    if both := sorted(on & off):
        raise OperatorError(f"{both[0]!r} is both in --enable-admission-plugins and in --disable-admission-plugins")
    return frozenset(e.name for e in CATALOG if e.name in on or (e.by_default and e.name not in off))


def plugins(tools: Tools, names: frozenset[str] | None = None) -> list[Plugin]:
    """The plugins by these names (the default set if None), in the order in which they see a write.

    RoleEscalation, DeviceAdminAccess and PolicyParameters are no choice: upstream has them in the registries of their kinds.
    """
    wanted = chosen() if names is None else names
    made = [entry.make(tools) for entry in CATALOG if entry.name in wanted]
    made[:0] = [RoleEscalation(tools.lookup, tools.authorizer, tools.listing), DeviceAdminAccess(tools.lookup)]
    if tools.policies is not None:
        made.insert(2, PolicyParameters(tools.lookup, tools.authorizer, tools.policies.kinds))
    return made
