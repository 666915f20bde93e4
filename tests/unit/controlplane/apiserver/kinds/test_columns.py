"""The columns of ``kubectl get`` for every kind, as upstream declares them.

Source: kubernetes/kubernetes pkg/printers/internalversion/printers.go (AddHandlers); a kind without a handler there has the
two columns of apiserver's pkg/registry/rest/table.go. What the cells hold is tested with each kind, and beside upstream in
``tests/integration/apiserver/test_tables_beside_upstream.py``.
"""

import pytest

from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.registry.strategy import Column, Strategy

WORKLOAD = "Containers*, Images*, Selector*"
BINDING = "Name/name, Role, Age, Users*, Groups*, ServiceAccounts*"
DEFAULT = "Name/name, Created At:date"
EVENTS = "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*/name"

# A star means only with -o wide; ":type" unless string; "/format" where there is one.
EXPECTED = {
    "configmaps": "Name/name, Data, Age",
    "endpoints": "Name/name, Endpoints, Age",
    "events": EVENTS,
    "limitranges": DEFAULT,
    "namespaces": "Name/name, Status, Age",
    "nodes": "Name/name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, Container-Runtime*",
    "persistentvolumes": "Name/name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, "
    "Reason, Age, VolumeMode*",
    "persistentvolumeclaims": "Name/name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, "
    "VolumeMode*",
    "pods": "Name/name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*",
    "podtemplates": "Name/name, Containers, Images, Pod Labels",
    "replicationcontrollers": f"Name/name, Desired:integer, Current:integer, Ready:integer, Age, {WORKLOAD}",
    "resourcequotas": "Name/name, Request, Limit, Age",
    "secrets": "Name/name, Type, Data, Age",
    "serviceaccounts": "Name/name, Secrets, Age",
    "services": "Name/name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*",
    "controllerrevisions.apps": "Name/name, Controller, Revision, Age",
    "daemonsets.apps": "Name/name, Desired:integer, Current:integer, Ready:integer, Up-to-date:integer, Available:integer, "
    f"Node Selector, Age, {WORKLOAD}",
    "deployments.apps": f"Name/name, Ready, Up-to-date, Available, Age, {WORKLOAD}",
    "replicasets.apps": f"Name/name, Desired:integer, Current:integer, Ready:integer, Age, {WORKLOAD}",
    "statefulsets.apps": "Name/name, Ready, Age, Containers*, Images*",
    "horizontalpodautoscalers.autoscaling": "Name/name, Reference, Targets, MinPods, MaxPods, Replicas, Age",
    "cronjobs.batch": f"Name/name, Schedule, Timezone, Suspend:boolean, Active:integer, Last Schedule, Age, {WORKLOAD}",
    "jobs.batch": f"Name/name, Status, Completions, Duration, Age, {WORKLOAD}",
    "endpointslices.discovery.k8s.io": "Name/name, AddressType, Ports, Endpoints, Age",
    "ingressclasses.networking.k8s.io": "Name/name, Controller, Parameters, Age",
    "ingresses.networking.k8s.io": "Name/name, Class, Hosts, Address, Ports, Age",
    "ipaddresses.networking.k8s.io": "Name/name, ParentRef",
    "networkpolicies.networking.k8s.io": "Name/name, Pod-Selector, Age",
    "servicecidrs.networking.k8s.io": "Name/name, CIDRs, Age",
    "poddisruptionbudgets.policy": "Name/name, Min Available, Max Unavailable, Allowed Disruptions:integer, Age",
    "clusterrolebindings.rbac.authorization.k8s.io": BINDING,
    "clusterroles.rbac.authorization.k8s.io": DEFAULT,
    "rolebindings.rbac.authorization.k8s.io": BINDING,
    "roles.rbac.authorization.k8s.io": DEFAULT,
    "priorityclasses.scheduling.k8s.io": "Name/name, Value:integer, Global-Default:boolean, Age, PreemptionPolicy",
    "certificatesigningrequests.certificates.k8s.io": "Name/name, Age, SignerName, Requestor, RequestedDuration, Condition",
    "clustertrustbundles.certificates.k8s.io": "Name/name, SignerName",
    "podcertificaterequests.certificates.k8s.io": "Name/name, PodName, ServiceAccountName, NodeName, SignerName, State, Age",
    "customresourcedefinitions.apiextensions.k8s.io": DEFAULT,
    "leases.coordination.k8s.io": "Name/name, Holder, Age",
    "leasecandidates.coordination.k8s.io": "Name/name, LeaseName, BinaryVersion, EmulationVersion, Age",
    "events.events.k8s.io": EVENTS,
    "runtimeclasses.node.k8s.io": "Name/name, Handler, Age",
    "csidrivers.storage.k8s.io": "Name/name, AttachRequired:boolean, PodInfoOnMount:boolean, StorageCapacity:boolean, "
    "TokenRequests, RequiresRepublish:boolean, Modes, Age",
    "csinodes.storage.k8s.io": "Name/name, Drivers:integer, Age",
    "csistoragecapacities.storage.k8s.io": "Name/name, StorageClassName, Capacity",
    "storageclasses.storage.k8s.io": "Name/name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
    "volumeattachments.storage.k8s.io": "Name/name, Attacher/name, PV, Node, Attached:boolean, Age",
    "volumeattributesclasses.storage.k8s.io": "Name/name, DriverName, Age",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": "Name/name, PolicyName, ParamRef, Age",
    "mutatingadmissionpolicies.admissionregistration.k8s.io": "Name/name, Mutations:integer, ParamKind, Age",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": "Name/name, Webhooks:integer, Age",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "Name/name, PolicyName, ParamRef, Age",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "Name/name, Validations:integer, ParamKind, Age",
    "validatingwebhookconfigurations.admissionregistration.k8s.io": "Name/name, Webhooks:integer, Age",
    "apiservices.apiregistration.k8s.io": "Name/name, Service, Available, Age",
    "flowschemas.flowcontrol.apiserver.k8s.io": "Name/name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, "
    "MissingPL",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "Name/name, Type, NominalConcurrencyShares, Queues, HandSize, "
    "QueueLengthLimit, Age",
    "deviceclasses.resource.k8s.io": "Name/name, Age",
    "devicetaintrules.resource.k8s.io": "Name/name, Age",
    "resourceclaims.resource.k8s.io": "Name/name, State, Age",
    "resourceclaimtemplates.resource.k8s.io": "Name/name, Age",
    "resourceslices.resource.k8s.io": "Name/name, Node, Driver, Pool, Age",
    "storageversions.internal.apiserver.k8s.io": "Name/name, CommonEncodingVersion, StorageVersions, Age",
    "podgroups.scheduling.k8s.io": DEFAULT,
    "workloads.scheduling.k8s.io": DEFAULT,
    "resourcepoolstatusrequests.resource.k8s.io": DEFAULT,
    "storageversionmigrations.storagemigration.k8s.io": "Name/name, Resource",
}
CATALOG = strategies(KindsConfig())


def declared(column: Column) -> str:
    wide = "*" if column.priority else ""
    kind = "" if column.type == "string" else f":{column.type}"
    return f"{column.name}{wide}{kind}" + (f"/{column.format}" if column.format else "")


@pytest.mark.parametrize("kind", CATALOG, ids=[str(one.info.gvr) for one in CATALOG])
def test_columns_are_upstreams(kind: Strategy) -> None:
    assert ", ".join(declared(column) for column in kind.columns) == EXPECTED[kind.info.gvr.group_resource]


def test_the_table_names_no_kind_that_is_gone() -> None:
    assert set(EXPECTED) == {one.info.gvr.group_resource for one in CATALOG}
