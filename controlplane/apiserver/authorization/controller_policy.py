"""What each controller may do by its own service account: the ClusterRoles ``system:controller:*``. Pure data.

Upstream's of v1.36 (``bootstrappolicy/controller_policy.go``), with one rule of our own: who may ``update`` something may
``patch`` it, and the other way round. Upstream's controllers write status by update, ours mostly by patch, and what can be done
by the one can be done by the other.
"""

from dataclasses import replace

from controlplane.apiserver.authorization.rules import Rule, rule

_READ = "get list watch"
_EVENTS = rule("create patch update", "core events.k8s.io", "events")
_APPS = "apps extensions"
_CSR = "certificates.k8s.io"
_DRA = "resource.k8s.io"
_SIGNERS = tuple(
    f"kubernetes.io/{name}"
    for name in ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "legacy-unknown")
)


def role_of(account: str) -> str:
    return f"system:controller:{account}"


def _either(given: Rule) -> Rule:
    verbs = given.verbs
    if ("update" in verbs) == ("patch" in verbs):
        return given
    return replace(given, verbs=(*verbs, "patch" if "update" in verbs else "update"))


UPSTREAM: dict[str, tuple[Rule, ...]] = {
    "attachdetach-controller": (
        rule("list watch", "core", "persistentvolumeclaims persistentvolumes"),
        rule(_READ, "core", "nodes"),
        rule("patch update", "core", "nodes/status"),
        rule("list watch", "core", "pods"),
        _EVENTS,
        rule(f"create delete {_READ}", "storage.k8s.io", "volumeattachments"),
        rule(_READ, "storage.k8s.io", "csidrivers"),
        rule(_READ, "storage.k8s.io", "csinodes"),
    ),
    "certificate-controller": (
        rule(f"delete {_READ}", _CSR, "certificatesigningrequests"),
        rule("update", _CSR, "certificatesigningrequests/approval certificatesigningrequests/status"),
        rule("approve", _CSR, "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
        rule("sign", _CSR, "signers", *_SIGNERS),
        rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        _EVENTS,
    ),
    "clusterrole-aggregation-controller": (rule(f"escalate patch update {_READ}", "rbac.authorization.k8s.io", "clusterroles"),),
    "cronjob-controller": (
        rule(f"update {_READ}", "batch", "cronjobs"),
        rule(f"create delete patch update {_READ}", "batch", "jobs"),
        rule("update", "batch", "cronjobs/status"),
        rule("update", "batch", "cronjobs/finalizers"),
        rule("delete list watch", "core", "pods"),
        _EVENTS,
    ),
    "daemon-set-controller": (
        rule(_READ, _APPS, "daemonsets"),
        rule("update", _APPS, "daemonsets/status"),
        rule("update", _APPS, "daemonsets/finalizers"),
        rule("list watch", "core", "nodes"),
        rule("create delete list patch watch", "core", "pods"),
        rule("create", "core", "pods/binding"),
        rule(f"create delete patch update {_READ}", "apps", "controllerrevisions"),
        _EVENTS,
    ),
    "deployment-controller": (
        rule(f"update {_READ}", _APPS, "deployments"),
        rule("update", _APPS, "deployments/status"),
        rule("update", _APPS, "deployments/finalizers"),
        rule(f"create delete patch update {_READ}", _APPS, "replicasets"),
        rule(f"update {_READ}", "core", "pods"),
        _EVENTS,
    ),
    "device-taint-eviction-controller": (
        rule(f"delete {_READ}", "core", "pods"),
        rule("patch update", "core", "pods/status"),
        rule(_READ, _DRA, "resourceclaims"),
        rule(_READ, _DRA, "resourceslices"),
        rule(_READ, _DRA, "deviceclasses"),
        _EVENTS,
        rule("patch update", _DRA, "devicetaintrules/status"),
        rule(_READ, _DRA, "devicetaintrules"),
    ),
    "disruption-controller": (
        rule(_READ, _APPS, "deployments"),
        rule(_READ, _APPS, "replicasets"),
        rule(_READ, "core", "replicationcontrollers"),
        rule(_READ, "policy", "poddisruptionbudgets"),
        rule(_READ, "apps", "statefulsets"),
        rule("update", "policy", "poddisruptionbudgets/status"),
        rule("patch update", "core", "pods/status"),
        rule("get", "*", "*/scale"),
        _EVENTS,
    ),
    "endpoint-controller": (
        rule(_READ, "core", "pods services"),
        rule(f"create delete update {_READ}", "core", "endpoints"),
        rule("create", "core", "endpoints/restricted"),
        _EVENTS,
    ),
    "endpointslice-controller": (
        rule(_READ, "core", "nodes pods services"),
        rule("update", "core", "services/finalizers"),
        rule(f"create delete update {_READ}", "discovery.k8s.io", "endpointslices"),
        _EVENTS,
    ),
    "endpointslicemirroring-controller": (
        rule(_READ, "core", "endpoints services"),
        rule("update", "core", "services/finalizers"),
        rule("update", "core", "endpoints/finalizers"),
        rule(f"create delete update {_READ}", "discovery.k8s.io", "endpointslices"),
        _EVENTS,
    ),
    "ephemeral-volume-controller": (
        rule(_READ, "core", "pods"),
        rule("update", "core", "pods/finalizers"),
        rule(f"create {_READ}", "core", "persistentvolumeclaims"),
        _EVENTS,
    ),
    "expand-controller": (
        rule(f"patch update {_READ}", "core", "persistentvolumes"),
        rule("patch update", "core", "persistentvolumeclaims/status"),
        rule(_READ, "core", "persistentvolumeclaims"),
        _EVENTS,
    ),
    "generic-garbage-collector": (rule(f"delete patch update {_READ}", "*", "*"), _EVENTS),
    "horizontal-pod-autoscaler": (
        rule(_READ, "autoscaling", "horizontalpodautoscalers"),
        rule("update", "autoscaling", "horizontalpodautoscalers/status"),
        rule("get update", "*", "*/scale"),
        rule("list watch", "core", "pods"),
        rule("list watch", "metrics.k8s.io", "pods"),
        rule(_READ, "custom.metrics.k8s.io", "*"),
        rule(_READ, "external.metrics.k8s.io", "*"),
        _EVENTS,
    ),
    "job-controller": (
        rule(f"patch update {_READ}", "batch", "jobs"),
        rule("update", "batch", "jobs/status"),
        rule("update", "batch", "jobs/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        _EVENTS,
    ),
    "legacy-service-account-token-cleaner": (
        rule("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
        rule("delete patch", "core", "secrets"),
    ),
    "namespace-controller": (
        rule(f"delete {_READ}", "core", "namespaces"),
        rule("update", "core", "namespaces/finalize namespaces/status"),
        rule(f"delete deletecollection {_READ}", "*", "*"),
    ),
    "node-controller": (
        rule(f"delete patch update {_READ}", "core", "nodes"),
        rule("patch update", "core", "nodes/status"),
        rule("patch update", "core", "pods/status"),
        rule(f"delete {_READ}", "core", "pods"),
        _EVENTS,
    ),
    "persistent-volume-binder": (
        rule(f"create delete update {_READ}", "core", "persistentvolumes"),
        rule("update", "core", "persistentvolumes/status"),
        rule(f"update {_READ}", "core", "persistentvolumeclaims"),
        rule("update", "core", "persistentvolumeclaims/status"),
        rule(f"create delete {_READ}", "core", "pods"),
        rule(_READ, "storage.k8s.io", "storageclasses"),
        rule("list watch", "core", "nodes"),
        _EVENTS,
        rule("watch", "core", "events"),
    ),
    "pod-garbage-collector": (
        rule("delete list watch", "core", "pods"),
        rule(_READ, "core", "nodes"),
        rule("patch", "core", "pods/status"),
    ),
    "pv-protection-controller": (rule(f"update {_READ}", "core", "persistentvolumes"), _EVENTS),
    "pvc-protection-controller": (
        rule(f"update {_READ}", "core", "persistentvolumeclaims"),
        rule("update", "core", "persistentvolumeclaims/status"),
        rule(_READ, "core", "pods"),
        _EVENTS,
    ),
    "replicaset-controller": (
        rule(f"update {_READ}", _APPS, "replicasets"),
        rule("update", _APPS, "replicasets/status"),
        rule("update", _APPS, "replicasets/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        _EVENTS,
    ),
    "replication-controller": (
        rule(f"update {_READ}", "core", "replicationcontrollers"),
        rule("update", "core", "replicationcontrollers/status"),
        rule("update", "core", "replicationcontrollers/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        _EVENTS,
    ),
    "resource-claim-controller": (
        rule(_READ, "core", "pods"),
        rule("update", "core", "pods/finalizers"),
        rule(f"create delete {_READ}", _DRA, "resourceclaims"),
        rule("patch update", _DRA, "resourceclaims resourceclaims/status"),
        rule("patch update", "core", "pods/status"),
        _EVENTS,
        rule("patch update", _DRA, "resourceclaims/binding"),
    ),
    "resourcequota-controller": (rule("list watch", "*", "*"), rule("update", "core", "resourcequotas/status"), _EVENTS),
    "root-ca-cert-publisher": (rule("create update", "core", "configmaps"), _EVENTS),
    "route-controller": (rule("list watch", "core", "nodes"), rule("patch", "core", "nodes/status"), _EVENTS),
    "selinux-warning-controller": (
        _EVENTS,
        rule(_READ, "core", "persistentvolumes"),
        rule(_READ, "core", "persistentvolumeclaims"),
        rule(_READ, "core", "pods"),
        rule(_READ, "storage.k8s.io", "csidrivers"),
    ),
    "service-account-controller": (rule("create", "core", "serviceaccounts"), _EVENTS),
    "service-cidrs-controller": (
        rule(f"patch update {_READ}", "networking.k8s.io", "servicecidrs"),
        rule("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
        rule("patch update", "networking.k8s.io", "servicecidrs/status"),
        rule(_READ, "networking.k8s.io", "ipaddresses"),
        _EVENTS,
    ),
    "service-controller": (
        rule(_READ, "core", "services"),
        rule("patch update", "core", "services/status"),
        rule("list watch", "core", "nodes"),
        _EVENTS,
    ),
    "statefulset-controller": (
        rule("list watch", "core", "pods"),
        rule(_READ, "apps", "statefulsets"),
        rule("update", "apps", "statefulsets/status"),
        rule("update", "apps", "statefulsets/finalizers"),
        rule("create delete get patch update", "core", "pods"),
        rule(f"create delete patch update {_READ}", "apps", "controllerrevisions"),
        rule(f"create {_READ}", "core", "persistentvolumeclaims"),
        rule("delete update", "core", "persistentvolumeclaims"),
        rule("update", "core", "pods/finalizers"),
        _EVENTS,
    ),
    "ttl-after-finished-controller": (rule(f"delete {_READ}", "batch", "jobs"), _EVENTS),
    "ttl-controller": (rule("list patch update watch", "core", "nodes"), _EVENTS),
    "validatingadmissionpolicy-status-controller": (
        rule(_READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
        rule("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
        _EVENTS,
    ),
    "volumeattributesclass-protection-controller": (
        rule(_READ, "core", "persistentvolumeclaims"),
        rule(_READ, "core", "persistentvolumes"),
        rule(f"update {_READ}", "storage.k8s.io", "volumeattributesclasses"),
        _EVENTS,
    ),
}
_OURS = {
    # upstream leaves provisioners to those who install them; this one comes with the cluster
    "local-path-provisioner": (
        rule(f"create {_READ}", "storage.k8s.io", "storageclasses"),
        rule(f"create delete update patch {_READ}", "core", "persistentvolumes"),
        rule(f"update patch {_READ}", "core", "persistentvolumeclaims"),
        rule(_READ, "core", "nodes pods"),
        rule("patch", "core", "nodes"),  # an annotation asks the kubelet to delete directories
        _EVENTS,
    ),
}
# Those that upstream has while a feature gate is on that is off by default.
GATED: dict[str, tuple[Rule, ...]] = {
    "podcertificaterequest-cleaner-controller": (rule("get list watch delete", _CSR, "podcertificaterequests"), _EVENTS),
    "storage-version-migrator-controller": (
        rule("create list patch", "*", "*"),  # to apply what is gone is to create it: refused, for it names a uid
        rule("get", "apiextensions.k8s.io", "customresourcedefinitions"),
        rule("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
    ),
    "podgroup-protection-controller": (
        rule(f"update {_READ}", "scheduling.k8s.io", "podgroups"),
        rule(_READ, "core", "pods"),
        _EVENTS,
    ),
    "resourcepoolstatusrequest-controller": (
        rule(f"delete {_READ}", _DRA, "resourcepoolstatusrequests"),
        rule("update", _DRA, "resourcepoolstatusrequests/status"),
        rule(_READ, _DRA, "resourceclaims resourceslices"),
        _EVENTS,
    ),
    "storage-version-garbage-collector": (
        rule(_READ, "coordination.k8s.io", "leases"),
        rule(f"delete patch update {_READ}", "internal.apiserver.k8s.io", "storageversions"),
        rule("get patch update", "internal.apiserver.k8s.io", "storageversions/status"),
    ),
    "kube-apiserver-serving-clustertrustbundle-publisher": (
        rule("attest", _CSR, "signers", "kubernetes.io/kube-apiserver-serving"),
        rule("create update delete get list watch", _CSR, "clustertrustbundles"),
        _EVENTS,
    ),
}
RULES: dict[str, tuple[Rule, ...]] = {
    name: (*(_either(each) for each in {**UPSTREAM, **GATED}.get(name, ())), *_OURS.get(name, ()))
    for name in {**UPSTREAM, **GATED, **_OURS}
}
"""By the name of the service account, in kube-system."""
