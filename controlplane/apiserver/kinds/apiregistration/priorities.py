"""Which group, and which of its versions, goes before others: what APIServices of this server's own versions say.

Read by ``discovery`` and by those who make APIServices. The figures are upstream's (``cmd/kube-apiserver/app/aggregator.go``
and ``pkg/controlplane/apiserver/aggregator.go`` of v1.36).
"""

from apimachinery.gvk import GroupVersion

# Clients take the first group that has a name. Higher goes first, equals by name.
GROUPS = {
    "": 18000,
    "apiregistration.k8s.io": 20000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000,
    "storagemigration.k8s.io": 15800,
    "metrics.k8s.io": 100,  # what metrics-server asks for itself
}
_VERSIONS = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("admissionregistration.k8s.io", "v1beta1"): 12,
    ("admissionregistration.k8s.io", "v1alpha1"): 9,
    ("coordination.k8s.io", "v1beta1"): 13,
    ("coordination.k8s.io", "v1alpha2"): 12,
    ("discovery.k8s.io", "v1beta1"): 12,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("internal.apiserver.k8s.io", "v1alpha1"): 9,
    ("metrics.k8s.io", "v1beta1"): 100,
    ("resource.k8s.io", "v1"): 20,
    ("resource.k8s.io", "v1beta2"): 15,
}
CUSTOM = (1000, 100)
"""Of group versions that custom resource definitions make."""


def priority_of(version: GroupVersion) -> tuple[int, int]:
    """Of the group at least, and of the version in it, for a version that this server has of itself."""
    if version.group not in GROUPS:
        return CUSTOM
    usual = 1 if "alpha" in version.version else 9 if "beta" in version.version else 15
    return GROUPS[version.group], _VERSIONS.get(version, usual)
