"""The collections that several daemons name, so that nobody spells a group twice."""

from apimachinery.gvk import GroupVersionResource

PODS = GroupVersionResource("", "v1", "pods")
SERVICES = GroupVersionResource("", "v1", "services")
ENDPOINTS = GroupVersionResource("", "v1", "endpoints")
NODES = GroupVersionResource("", "v1", "nodes")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
SECRETS = GroupVersionResource("", "v1", "secrets")
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
CORE_EVENTS = GroupVersionResource("", "v1", "events")
EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
REPLICA_SETS = GroupVersionResource("apps", "v1", "replicasets")
ENDPOINT_SLICES = GroupVersionResource("discovery.k8s.io", "v1", "endpointslices")
LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
TOKEN_REVIEWS = GroupVersionResource("authentication.k8s.io", "v1", "tokenreviews")
SUBJECT_ACCESS_REVIEWS = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")
