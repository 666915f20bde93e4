"""Defaults of a pod spec, wherever it is embedded: what upstream's ``SetDefaults_*`` functions of core/v1 fill in.

Runs for every write of a pod or workload, so it looks at each field once and copies nothing.
"""

from typing import Any

from controlplane.apiserver.kinds.core.pod_template.images import image_tag
from controlplane.apiserver.kinds.core.pod_template.volume_defaults import default_volume
from controlplane.apiserver.kinds.shared.amounts import canonical_amount, canonical_amounts

Object = dict[str, Any]


def default_template(template: Object) -> None:
    """A ``PodTemplateSpec`` inside a workload."""
    default_pod_spec(template.setdefault("spec", {}))
    template.setdefault("metadata", {})


def default_pod_spec(spec: Object) -> None:
    """A ``PodSpec``; changes it in place."""
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    mirror_service_account(spec)
    for container in spec.get("initContainers") or ():
        default_container(container)
    for container in spec.get("containers") or ():
        default_container(container)
    for container in spec.get("ephemeralContainers") or ():
        default_container(container)
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    if spec.get("overhead"):
        canonical_amounts(spec["overhead"])
    if spec.get("resources"):
        default_resources(spec["resources"])


def mirror_service_account(spec: Object) -> None:
    """``serviceAccount`` is the old name of ``serviceAccountName``; upstream always shows both."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def default_container(container: Object) -> None:
    """A container of any sort."""
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if image_tag(container.get("image") or "") == "latest" else "IfNotPresent"
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = container.get("resources")
    if resources:
        default_resources(resources)
    elif resources is None:
        container["resources"] = {}
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source:
            default_field_source(source)
            if source.get("fileKeyRef"):
                source["fileKeyRef"].setdefault("optional", False)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            default_probe(probe)
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for hook in ("postStart", "preStop"):
            if lifecycle.get(hook):
                default_handler(lifecycle[hook])


def default_probe(probe: Object) -> None:
    if not probe.get("timeoutSeconds"):
        probe["timeoutSeconds"] = 1
    if not probe.get("periodSeconds"):
        probe["periodSeconds"] = 10
    if not probe.get("successThreshold"):
        probe["successThreshold"] = 1
    if not probe.get("failureThreshold"):
        probe["failureThreshold"] = 3
    default_handler(probe)
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def default_handler(handler: Object) -> None:
    """The HTTP action of a probe or hook."""
    http = handler.get("httpGet")
    if http is not None:
        if not http.get("path"):
            http["path"] = "/"
        if not http.get("scheme"):
            http["scheme"] = "HTTP"


def default_field_source(source: Object) -> None:
    """``fieldRef`` and ``resourceFieldRef`` of an environment variable or a downward API file."""
    field = source.get("fieldRef")
    if field is not None and not field.get("apiVersion"):
        field["apiVersion"] = "v1"
    resource = source.get("resourceFieldRef")
    if resource is not None:
        resource["divisor"] = canonical_amount(resource.get("divisor") or "0")


def default_resources(resources: Object) -> None:
    """Canonical amounts; requests are filled from limits for Pods alone, in ``pod.defaults``."""
    for part in ("limits", "requests"):
        amounts = resources.get(part)
        if amounts:
            canonical_amounts(amounts)
