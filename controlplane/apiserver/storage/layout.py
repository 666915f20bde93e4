"""Where the objects of a resource are kept: upstream's places, so that either API server finds what the other has stored.

Used by ``registry.naming``, by ``encryption.backend`` for the way back, and by ``backends.sqlite_file`` for files of before.
Upstream: ``SpecialDefaultResourcePrefixes`` of ``pkg/kubeapiserver/default_storage_factory_builder.go``; custom resources and
those two groups that upstream keeps in servers of their own have their group in the key.
"""

ROOT = "/registry/"
BUILT_IN = {
    "": "",
    "admissionregistration.k8s.io": (
        "mutatingadmissionpolicies mutatingadmissionpolicybindings mutatingwebhookconfigurations validatingadmissionpolicies "
        "validatingadmissionpolicybindings validatingwebhookconfigurations"
    ),
    "apps": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "certificates.k8s.io": "certificatesigningrequests clustertrustbundles podcertificaterequests",
    "coordination.k8s.io": "leasecandidates leases",
    "discovery.k8s.io": "endpointslices",
    "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
    "internal.apiserver.k8s.io": "storageversions",
    "networking.k8s.io": "ingressclasses ingresses ipaddresses networkpolicies servicecidrs",
    "node.k8s.io": "runtimeclasses",
    "policy": "poddisruptionbudgets",
    "rbac.authorization.k8s.io": "clusterrolebindings clusterroles rolebindings roles",
    "resource.k8s.io": (
        "deviceclasses devicetaintrules resourceclaims resourceclaimtemplates resourcepoolstatusrequests resourceslices"
    ),
    "scheduling.k8s.io": "podgroups priorityclasses workloads",
    "storage.k8s.io": ("csidrivers csinodes csistoragecapacities storageclasses volumeattachments volumeattributesclasses"),
    "storagemigration.k8s.io": "storageversionmigrations",
}
"""Groups whose name is not in the key, and their resources; those of the core group need not be listed."""
_SPECIAL = {
    ("", "replicationcontrollers"): "controllers",
    ("", "endpoints"): "services/endpoints",
    ("", "services"): "services/specs",
    ("", "nodes"): "minions",
    ("networking.k8s.io", "ingresses"): "ingress",
}
_GROUP_OF = {plural: group for group, plurals in BUILT_IN.items() for plural in plurals.split()}
_NAMED = {place: f"{plural}.{group}".rstrip(".") for (group, plural), place in _SPECIAL.items()}


def resource_prefix(group: str, plural: str) -> str:
    """``/registry/pods/``, ``/registry/minions/``, ``/registry/deployments/``, ``/registry/example.com/widgets/``."""
    if special := _SPECIAL.get((group, plural)):
        return f"{ROOT}{special}/"
    return f"{ROOT}{plural}/" if group in BUILT_IN else f"{ROOT}{group}/{plural}/"


def resource_of(key: str) -> str:
    """The resource whose object has the key: ``pods``, ``deployments.apps``, ``widgets.example.com``; "" for other keys."""
    if not key.startswith(ROOT):
        return ""
    first, _, rest = key[len(ROOT) :].partition("/")
    second = rest.partition("/")[0]
    if named := _NAMED.get(first) or _NAMED.get(f"{first}/{second}"):
        return named
    if "." in first:
        return f"{second}.{first}"
    group = _GROUP_OF.get(first)
    return f"{first}.{group}" if group else first
