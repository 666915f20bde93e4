"""What a cluster must hold for ``pybernetes dns``: the Service with its fixed address, and what the servers may do.

Applied by ``cli up``; each node's server then keeps an EndpointSlice of its own (``netproxy.dns.publish``).
"""

from typing import Any

Object = dict[str, Any]

USER = "system:cluster-dns"
"""Name in the servers' client certificates; also of their roles."""
NAMESPACE, SERVICE = "kube-system", "kube-dns"
_RBAC = "rbac.authorization.k8s.io"


def objects(address: str) -> list[tuple[str, Object]]:
    """Path and object of each, in the order in which they are applied; ``address`` is the Service's cluster IP."""
    cluster, inside = f"/apis/{_RBAC}/v1", f"/apis/{_RBAC}/v1/namespaces/{NAMESPACE}"
    reads = [
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]
    slices = ["get", "create", "update", "patch", "delete"]
    own = [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": slices},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [SERVICE], "verbs": ["list", "watch"]},
    ]
    return [
        (f"{cluster}/clusterroles/{USER}", _role("ClusterRole", {}, reads)),
        (f"{cluster}/clusterrolebindings/{USER}", _binding("ClusterRole", {})),
        (f"{inside}/roles/{USER}", _role("Role", {"namespace": NAMESPACE}, own)),
        (f"{inside}/rolebindings/{USER}", _binding("Role", {"namespace": NAMESPACE})),
        (f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}", service(address)),
    ]


def service(address: str) -> Object:
    """As kubeadm's, but without a selector: no pod stands behind it, and each node's pods prefer the server beside them."""
    labels = {"k8s-app": SERVICE, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "trafficDistribution": "PreferSameNode",
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            ],
        },
    }


def _role(kind: str, where: Object, rules: list[Object]) -> Object:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": {"name": USER, **where}, "rules": rules}


def _binding(kind: str, where: Object) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": USER, **where},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": USER},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": USER}],
    }
