"""Versions in which older API servers have stored kinds, brought to the versions that are stored today.

``assembly.server`` hands :func:`conversion` to ``storage.forms``. Upstream's own rule is that a release reads what three
releases before it could write; here it is every version that upstream has ever made the stored one since v1.16, so that the
data of a v1.20 server can be taken over at once. Kinds that are still served in an older version convert by that view.
Upstream: ``pkg/apis/*/v1beta1/conversion.go`` of the releases that had them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from controlplane.apiserver.registry.strategy import Strategy

Object = dict[str, Any]
Step = Callable[[Object], Object]

# group: (versions, kinds) that differ from the stored version in nothing but their name
_RENAMED = {
    "admissionregistration.k8s.io": ("v1beta1", "MutatingWebhookConfiguration ValidatingWebhookConfiguration"),
    "certificates.k8s.io": ("v1beta1", "CertificateSigningRequest"),
    "coordination.k8s.io": ("v1beta1", "Lease"),
    "flowcontrol.apiserver.k8s.io": ("v1beta1 v1beta2 v1beta3", "FlowSchema PriorityLevelConfiguration"),
    "networking.k8s.io": ("v1beta1", "IngressClass"),
    "node.k8s.io": ("v1beta1", "RuntimeClass"),
    "rbac.authorization.k8s.io": ("v1beta1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    "scheduling.k8s.io": ("v1beta1", "PriorityClass"),
    "storage.k8s.io": ("v1beta1", "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment"),
}


def conversion(known: Sequence[Strategy]) -> Callable[[Object], Object | None]:
    """``known`` are the strategies of every kind and version; what is given back makes an object one of its stored version."""
    stored: dict[tuple[str, str], Strategy] = {}
    steps: dict[tuple[str, str], tuple[Step, Strategy]] = {}
    for strategy in known:
        if strategy.stored_as is None:
            stored[strategy.info.gvk.group, strategy.info.gvk.kind] = strategy
            steps[strategy.info.gvk.api_version, strategy.info.gvk.kind] = (lambda obj: obj, strategy)
    for strategy in known:
        if strategy.stored_as is not None:
            target = strategy.stored_as.gvk
            steps[strategy.info.gvk.api_version, strategy.info.gvk.kind] = (strategy.to_stored, stored[target.group, target.kind])
    for group, (versions, kinds) in _RENAMED.items():
        for kind in kinds.split():
            for version in versions.split():
                steps.setdefault((f"{group}/{version}", kind), (_CHANGED.get(kind, _same), stored[group, kind]))
    for api_version in ("networking.k8s.io/v1beta1", "extensions/v1beta1"):
        steps[api_version, "Ingress"] = (_ingress, stored["networking.k8s.io", "Ingress"])

    def convert(obj: Object) -> Object | None:
        found = steps.get((obj["apiVersion"], obj["kind"]))
        if found is None:
            return None
        step, strategy = found
        made = {**step(obj), "apiVersion": strategy.info.gvk.api_version, "kind": strategy.info.gvk.kind}
        strategy.default(made)
        return made

    return convert


def _same(obj: Object) -> Object:
    return obj


def _priority_level(obj: Object) -> Object:
    """What v1beta1 and v1beta2 call assured shares are nominal ones since."""
    spec = dict(obj.get("spec") or {})
    if limited := dict(spec.get("limited") or {}):
        if (shares := limited.pop("assuredConcurrencyShares", None)) is not None:
            limited.setdefault("nominalConcurrencyShares", shares)
        spec["limited"] = limited
    return {**obj, "spec": spec}


_CHANGED: dict[str, Step] = {"PriorityLevelConfiguration": _priority_level}


def _ingress(obj: Object) -> Object:
    """A backend was a Service's name and port side by side; the default one was called backend; path types could be missing."""
    spec = dict(obj.get("spec") or {})
    if (default := spec.pop("backend", None)) is not None:
        spec["defaultBackend"] = _ingress_backend(default)
    rules = []
    for rule in spec.get("rules") or ():
        if http := rule.get("http"):
            paths = [_ingress_path(path) for path in http.get("paths") or ()]
            rule = {**rule, "http": {**http, "paths": paths}}
        rules.append(rule)
    if rules:
        spec["rules"] = rules
    return {**obj, "spec": spec}


def _ingress_path(path: Object) -> Object:
    kind = path.get("pathType") or "ImplementationSpecific"
    return {**path, "pathType": kind, "backend": _ingress_backend(path.get("backend") or {})}


def _ingress_backend(backend: Object) -> Object:
    made = {key: value for key, value in backend.items() if key not in ("serviceName", "servicePort")}
    if name := backend.get("serviceName"):
        port = backend.get("servicePort")
        made["service"] = {"name": name, "port": {"name": port} if isinstance(port, str) else {"number": port}}
    return made
