"""All built-in kinds, in the order discovery lists them. ``__main__`` asks for them once and hands them to the registry."""

from controlplane.apiserver.kinds import gated_fields
from controlplane.apiserver.kinds.admissionregistration.bindings import (
    MutatingAdmissionPolicyBindingStrategy,
    ValidatingAdmissionPolicyBindingStrategy,
)
from controlplane.apiserver.kinds.admissionregistration.policies import (
    MutatingAdmissionPolicyStrategy,
    ValidatingAdmissionPolicyStrategy,
)
from controlplane.apiserver.kinds.admissionregistration.webhooks import (
    MutatingWebhookConfigurationStrategy,
    ValidatingWebhookConfigurationStrategy,
)
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import CustomResourceDefinitionStrategy
from controlplane.apiserver.kinds.apiregistration.apiservice import APIServiceStrategy
from controlplane.apiserver.kinds.apps.controllerrevision import ControllerRevisionStrategy
from controlplane.apiserver.kinds.apps.daemonset import DaemonSetStrategy
from controlplane.apiserver.kinds.apps.deployment import DeploymentStrategy
from controlplane.apiserver.kinds.apps.replicaset import ReplicaSetStrategy
from controlplane.apiserver.kinds.apps.statefulset import StatefulSetStrategy
from controlplane.apiserver.kinds.autoscaling.horizontalpodautoscaler import HorizontalPodAutoscalerStrategy
from controlplane.apiserver.kinds.autoscaling.horizontalpodautoscaler_v1 import HorizontalPodAutoscalerV1Strategy
from controlplane.apiserver.kinds.batch.cronjob import CronJobStrategy
from controlplane.apiserver.kinds.batch.job import JobStrategy
from controlplane.apiserver.kinds.certificates.certificatesigningrequest import CertificateSigningRequestStrategy
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.coordination.lease import LeaseStrategy
from controlplane.apiserver.kinds.core.configmap import ConfigMapStrategy
from controlplane.apiserver.kinds.core.endpoints import EndpointsStrategy
from controlplane.apiserver.kinds.core.event import CORE_EVENTS, EventStrategy
from controlplane.apiserver.kinds.core.limitrange import LimitRangeStrategy
from controlplane.apiserver.kinds.core.namespace import NamespaceStrategy
from controlplane.apiserver.kinds.core.node import NodeStrategy
from controlplane.apiserver.kinds.core.persistentvolume import PersistentVolumeStrategy
from controlplane.apiserver.kinds.core.persistentvolumeclaim import PersistentVolumeClaimStrategy
from controlplane.apiserver.kinds.core.pod import PodStrategy
from controlplane.apiserver.kinds.core.podtemplate import PodTemplateStrategy
from controlplane.apiserver.kinds.core.replicationcontroller import ReplicationControllerStrategy
from controlplane.apiserver.kinds.core.resourcequota import ResourceQuotaStrategy
from controlplane.apiserver.kinds.core.secret import SecretStrategy
from controlplane.apiserver.kinds.core.service import ServiceStrategy
from controlplane.apiserver.kinds.core.service.allocation import ServiceClaims
from controlplane.apiserver.kinds.core.serviceaccount import ServiceAccountStrategy
from controlplane.apiserver.kinds.discovery.endpointslice import EndpointSliceStrategy
from controlplane.apiserver.kinds.events.event import NewEventStrategy
from controlplane.apiserver.kinds.flowcontrol.flowschema import FlowSchemaStrategy
from controlplane.apiserver.kinds.flowcontrol.prioritylevelconfiguration import PriorityLevelConfigurationStrategy
from controlplane.apiserver.kinds.networking.ingress import IngressStrategy
from controlplane.apiserver.kinds.networking.ingressclass import IngressClassStrategy
from controlplane.apiserver.kinds.networking.ipaddress import IPAddressStrategy
from controlplane.apiserver.kinds.networking.networkpolicy import NetworkPolicyStrategy
from controlplane.apiserver.kinds.networking.servicecidr import ServiceCIDRStrategy
from controlplane.apiserver.kinds.node.runtimeclass import RuntimeClassStrategy
from controlplane.apiserver.kinds.optional import optional
from controlplane.apiserver.kinds.policy.poddisruptionbudget import PodDisruptionBudgetStrategy
from controlplane.apiserver.kinds.rbac.clusterrole import ClusterRoleStrategy
from controlplane.apiserver.kinds.rbac.clusterrolebinding import ClusterRoleBindingStrategy
from controlplane.apiserver.kinds.rbac.role import RoleStrategy
from controlplane.apiserver.kinds.rbac.rolebinding import RoleBindingStrategy
from controlplane.apiserver.kinds.resource.deviceclass import DeviceClassStrategy
from controlplane.apiserver.kinds.resource.resourceclaim import ResourceClaimStrategy
from controlplane.apiserver.kinds.resource.resourceclaimtemplate import ResourceClaimTemplateStrategy
from controlplane.apiserver.kinds.resource.resourceslice import ResourceSliceStrategy
from controlplane.apiserver.kinds.scheduling.priorityclass import PriorityClassStrategy
from controlplane.apiserver.kinds.storage.csidriver import CSIDriverStrategy
from controlplane.apiserver.kinds.storage.csinode import CSINodeStrategy
from controlplane.apiserver.kinds.storage.csistoragecapacity import CSIStorageCapacityStrategy
from controlplane.apiserver.kinds.storage.storageclass import StorageClassStrategy
from controlplane.apiserver.kinds.storage.volumeattachment import VolumeAttachmentStrategy
from controlplane.apiserver.kinds.storage.volumeattributesclass import VolumeAttributesClassStrategy
from controlplane.apiserver.registry.strategy import Strategy


def strategies(config: KindsConfig) -> list[Strategy]:
    """One strategy for each kind and version that can be served; of each kind the stored version comes first."""
    stable = [
        *_core(config),
        *_workloads(config),
        *_networking(),
        *_policies(),
        *_cluster(config),
        *_machinery(),
        *_devices(),
    ]
    kinds = [*stable, *optional(stable, config)]
    for kind in kinds:
        kind.disabled_fields = gated_fields.disabled(kind.info.gvr.group_resource, config.features)
    return kinds


def _core(config: KindsConfig) -> list[Strategy]:
    return [
        ConfigMapStrategy(),
        EndpointsStrategy(),
        EventStrategy(config.event_ttl),
        LimitRangeStrategy(),
        NamespaceStrategy(),
        NodeStrategy(),
        PersistentVolumeStrategy(),
        PersistentVolumeClaimStrategy(),
        PodStrategy(config.features),
        PodTemplateStrategy(),
        ReplicationControllerStrategy(),
        ResourceQuotaStrategy(),
        SecretStrategy(),
        ServiceAccountStrategy(),
        ServiceStrategy(ServiceClaims(config)),
    ]


def _workloads(config: KindsConfig) -> list[Strategy]:
    autoscalers = HorizontalPodAutoscalerStrategy(config.features)
    return [
        ControllerRevisionStrategy(),
        DaemonSetStrategy(),
        DeploymentStrategy(),
        ReplicaSetStrategy(),
        StatefulSetStrategy(),
        autoscalers,
        HorizontalPodAutoscalerV1Strategy(autoscalers),
        CronJobStrategy(),
        JobStrategy(config.features),
    ]


def _networking() -> list[Strategy]:
    return [
        EndpointSliceStrategy(),
        IngressClassStrategy(),
        IngressStrategy(),
        IPAddressStrategy(),
        NetworkPolicyStrategy(),
        ServiceCIDRStrategy(),
    ]


def _policies() -> list[Strategy]:
    return [
        PodDisruptionBudgetStrategy(),
        ClusterRoleBindingStrategy(),
        ClusterRoleStrategy(),
        RoleBindingStrategy(),
        RoleStrategy(),
        PriorityClassStrategy(),
    ]


def _cluster(config: KindsConfig) -> list[Strategy]:
    return [
        CertificateSigningRequestStrategy(),
        CustomResourceDefinitionStrategy(),
        LeaseStrategy(),
        NewEventStrategy(config.event_ttl, CORE_EVENTS),
        RuntimeClassStrategy(),
        CSIDriverStrategy(),
        CSINodeStrategy(),
        CSIStorageCapacityStrategy(),
        StorageClassStrategy(),
        VolumeAttachmentStrategy(),
        VolumeAttributesClassStrategy(),
    ]


def _machinery() -> list[Strategy]:
    """About requests themselves: who looks at them, who answers them, how many at once."""
    return [
        MutatingAdmissionPolicyBindingStrategy(),
        MutatingAdmissionPolicyStrategy(),
        MutatingWebhookConfigurationStrategy(),
        ValidatingAdmissionPolicyBindingStrategy(),
        ValidatingAdmissionPolicyStrategy(),
        ValidatingWebhookConfigurationStrategy(),
        APIServiceStrategy(),
        FlowSchemaStrategy(),
        PriorityLevelConfigurationStrategy(),
    ]


def _devices() -> list[Strategy]:
    return [
        DeviceClassStrategy(),
        ResourceClaimStrategy(),
        ResourceClaimTemplateStrategy(),
        ResourceSliceStrategy(),
    ]
