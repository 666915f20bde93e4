"""What is allowed in a pod spec but hardly meant: texts for ``Warning:`` headers, which kubectl prints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apimachinery import names, quantity

Object = Mapping[str, Any]

_OLD_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "seccomp.security.alpha.kubernetes.io/pod": 'non-functional in v1.27+; use the "seccompProfile" field instead',
}
_PARTS = ("initContainers", "containers")
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def pod_warnings(metadata: Object, spec: Object, path: str) -> list[str]:
    """``path`` is that of the object that holds ``metadata`` and ``spec``, empty for a Pod."""
    prefix = f"{path}." if path else ""
    return [
        *_annotations(metadata, prefix),
        *_scheduling(spec, f"{prefix}spec"),
        *_fields(spec, f"{prefix}spec"),
        *(text for part in _PARTS for text in _containers(spec.get(part) or (), f"{prefix}spec.{part}")),
    ]


def template_warnings(template: Object, path: str) -> list[str]:
    return pod_warnings(template.get("metadata") or {}, template.get("spec") or {}, path)


def name_warning(name: str) -> list[str]:
    """For workloads whose name becomes part of host names."""
    problems = names.is_dns1123_label(name)
    if not problems:
        return []
    text = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: {text}: [{' '.join(problems)}]"]


def _annotations(metadata: Object, prefix: str) -> Iterator[str]:
    held = metadata.get("annotations")
    if held:
        for key, text in _OLD_ANNOTATIONS.items():
            if key in held:
                yield f"{prefix}metadata.annotations[{key}]: {text}"


def _fields(spec: Object, path: str) -> Iterator[str]:
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        yield f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
    taken: set[str] = set()
    for position, secret in enumerate(spec.get("imagePullSecrets") or ()):
        name = secret.get("name") or ""
        where = f"{path}.imagePullSecrets[{position}].name"
        if not name:
            yield f'{where}: invalid empty name ""'
        elif name in taken:
            yield f'{where}: duplicate name "{name}"'
        taken.add(name)
    for position, volume in enumerate(spec.get("volumes") or ()):
        if "gitRepo" in volume:
            yield f"{path}.volumes[{position}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"


def _scheduling(spec: Object, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_OLD_LABELS[key]}"
    for position, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where = f"{path}.topologySpreadConstraints[{position}]"
        if constraint.get("topologyKey") in _OLD_LABELS:
            key = constraint["topologyKey"]
            yield f"{where}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}: {_NULL_SELECTOR}"
    affinity = spec.get("affinity")
    if affinity:
        yield from _affinity(affinity, f"{path}.affinity")


def _affinity(affinity: Object, path: str) -> Iterator[str]:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for position, term in enumerate(required.get("nodeSelectorTerms") or ()):
        where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{position}]"
        for at, expression in enumerate(term.get("matchExpressions") or ()):
            key = expression.get("key")
            if key in _OLD_LABELS:
                yield f"{where}.matchExpressions[{at}].key: {key} is {_OLD_LABELS[key]}"
    for name in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(name) or {}
        for position, term in enumerate(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            if term.get("labelSelector") is None:
                where = f"{path}.{name}.requiredDuringSchedulingIgnoredDuringExecution[{position}]"
                yield f"{where}.labelSelector: {_NULL_SELECTOR}"
        for position, entry in enumerate(part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            if (entry.get("podAffinityTerm") or {}).get("labelSelector") is None:
                where = f"{path}.{name}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
                yield f"{where}.podAffinityTerm.labelSelector: {_NULL_SELECTOR}"


def _containers(containers: Sequence[Object], path: str) -> Iterator[str]:
    for position, container in enumerate(containers):
        where = f"{path}[{position}]"
        variables = container.get("env")
        if variables and len(variables) > 1:
            yield from _hidden_variables(variables, f"{where}.env")
        ports = container.get("ports")
        if ports and len(ports) > 1:
            yield from _same_ports(ports, f"{where}.ports")
        resources = container.get("resources")
        if resources:
            yield from _fractions(resources, f"{where}.resources")


def _hidden_variables(variables: Sequence[Object], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for position, variable in enumerate(variables):
        name = variable.get("name") or ""
        if name in seen:
            yield f'{path}[{position}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _same_ports(ports: Sequence[Object], path: str) -> Iterator[str]:
    seen: dict[tuple[Any, ...], int] = {}
    for position, port in enumerate(ports):
        key = (port.get("containerPort"), port.get("protocol"), port.get("hostIP"), port.get("hostPort"))
        if key in seen:
            yield f"{path}[{position}]: duplicate port definition with {path}[{seen[key]}]"
        seen.setdefault(key, position)


def _fractions(resources: Object, path: str) -> Iterator[str]:
    for part in ("limits", "requests"):
        amounts = resources.get(part) or {}
        for name in ("memory", "ephemeral-storage"):
            amount = amounts.get(name)
            if amount is not None and str(amount).endswith("m") and not quantity.parse(amount).is_integer():
                yield f'{path}.{part}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'
