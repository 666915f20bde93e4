"""What is allowed in a pod spec but hardly meant: texts for ``Warning:`` headers, which kubectl prints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apimachinery import names, quantity
from controlplane.apiserver.kinds.shared import addresses

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
}
_SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_OLD_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_OLD_APP_ARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_OLD_VOLUMES = {  # upstream's names for them, one of which is not the field's
    "photonPersistentDisk": "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "scaleIO: deprecated in v1.16, non-functional in v1.22+",
    "flocker": "flocker: deprecated in v1.22, non-functional in v1.25+",
    "storageos": "storageOS: deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "quobyte: deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "glusterfs: deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "cephfs: deprecated in v1.28, non-functional in v1.31+",
    "rbd": "rbd: deprecated in v1.28, non-functional in v1.31+",
}
_PARTS = ("initContainers", "containers")
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def pod_warnings(metadata: Object, spec: Object, path: str) -> list[str]:
    """``path`` is that of the object that holds ``metadata`` and ``spec``, empty for a Pod.

    The order is upstream's: clients show warnings as they come.
    """
    prefix = f"{path}." if path else ""
    where = f"{prefix}spec"
    containers = [(f"{where}.{part}[{at}]", one) for part in _PARTS for at, one in enumerate(spec.get(part) or ())]
    return [
        *_scheduling(spec, where),
        *_annotations(metadata, prefix),
        *_volumes(spec.get("volumes") or (), f"{where}.volumes"),
        *_lists(spec, where),
        *fractions(spec.get("overhead"), f"{where}.overhead"),
        *_profiles(metadata, spec, containers, prefix, template=bool(path)),
        *(text for place, container in containers for text in _container(container, place)),
        *_ports(containers),
        *_grace(spec, where),
        *_null_selectors(spec.get("affinity") or {}, f"{where}.affinity"),
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


def _grace(spec: Object, path: str) -> Iterator[str]:
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        yield f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"


def _lists(spec: Object, path: str) -> Iterator[str]:
    """Names and addresses that come twice, or are none."""
    yield from _doubled(spec.get("hostAliases") or (), f"{path}.hostAliases", "ip")
    secrets = spec.get("imagePullSecrets") or ()
    yield from _doubled(secrets, f"{path}.imagePullSecrets", "name")
    for position, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{position}].name: invalid empty name ""'
    for position, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from addresses.of_ip(server, f"{path}.dnsConfig.nameservers[{position}]")
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        yield from addresses.of_ip(alias.get("ip") or "", f"{path}.hostAliases[{position}].ip")


def _doubled(entries: Sequence[Object], path: str, field: str) -> Iterator[str]:
    seen: set[str] = set()
    for position, entry in enumerate(entries):
        value = entry.get(field) or ""
        if value in seen:
            yield f'{path}[{position}].{field}: duplicate {field} "{value}"'
        seen.add(value)


def _volumes(volumes: Sequence[Object], path: str) -> Iterator[str]:
    for position, volume in enumerate(volumes):
        for source in volume.keys() & _OLD_VOLUMES.keys():
            yield f"{path}[{position}].{_OLD_VOLUMES[source]}"
        claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
        if claim:
            yield from claim_fractions(claim, f"{path}[{position}].ephemeral.volumeClaimTemplate.spec")
    tokens = {
        (source["serviceAccountToken"].get("path") or "")
        for volume in volumes
        for source in (volume.get("projected") or {}).get("sources") or ()
        if source.get("serviceAccountToken")
    }
    for position, volume in enumerate(volumes) if tokens else ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _over_tokens(source, tokens, f"{path}[{position}].projected.sources")


def _over_tokens(source: Object, tokens: set[str], path: str) -> Iterator[str]:
    """Files that would lie where a token lies. The words for their places are upstream's."""
    for field, shown in (("configMap", "configMap"), ("secret", "secrets"), ("downwardAPI", "downwardAPI")):
        for at, item in enumerate((source.get(field) or {}).get("items") or ()):
            if item.get("path") in tokens:
                yield f'{path}.{shown}[{at}]: has duplicated path with ServiceAccountToken "{item["path"]}"'
    bundle = source.get("clusterTrustBundle") or {}
    if bundle.get("path") in tokens:
        yield f'{path}.ClusterTrustBundle: has duplicated path with ServiceAccountToken "{bundle["path"]}"'


def _profiles(
    metadata: Object, spec: Object, containers: Sequence[tuple[str, Object]], prefix: str, *, template: bool
) -> Iterator[str]:
    """Annotations that fields have taken the place of."""
    held = metadata.get("annotations")
    if not held:
        return
    where, context = f"{prefix}metadata.annotations", spec.get("securityContext") or {}
    if _SECCOMP_OF_POD in held and context.get("seccompProfile") is None:
        yield f"{where}[{_SECCOMP_OF_POD}]: {_OLD_SECCOMP}"
    for _, container in containers:
        own, name = container.get("securityContext") or {}, container.get("name") or ""
        if _SECCOMP_OF_CONTAINER + name in held and own.get("seccompProfile") is None:
            yield f"{where}[{_SECCOMP_OF_CONTAINER}{name}]: {_OLD_SECCOMP}"
        confined = own.get("appArmorProfile") is not None or context.get("appArmorProfile") is not None
        if template and _APP_ARMOR + name in held and not confined:
            yield f"{where}[{_APP_ARMOR}{name}]: {_OLD_APP_ARMOR}"


def _scheduling(spec: Object, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_OLD_LABELS[key]}"
    node = (spec.get("affinity") or {}).get("nodeAffinity")
    if node:
        yield from _node_affinity(node, f"{path}.affinity.nodeAffinity")
    for position, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where = f"{path}.topologySpreadConstraints[{position}]"
        if constraint.get("topologyKey") in _OLD_LABELS:
            key = constraint["topologyKey"]
            yield f"{where}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NULL_SELECTOR}"


def _node_affinity(node: Object, path: str) -> Iterator[str]:
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for position, term in enumerate(required.get("nodeSelectorTerms") or ()):
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{position}]"
        yield from old_labels_in_term(term, where)
    for position, entry in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{position}].preference"
        yield from old_labels_in_term(entry.get("preference") or {}, where)


def old_labels_in_term(term: Object, path: str) -> Iterator[str]:
    """Of a ``NodeSelectorTerm``."""
    for at, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key")
        if key in _OLD_LABELS:
            yield f"{path}.matchExpressions[{at}].key: {key} is {_OLD_LABELS[key]}"


def _null_selectors(affinity: Object, path: str) -> Iterator[str]:
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


def _container(container: Object, path: str) -> Iterator[str]:
    resources = container.get("resources")
    if resources:
        for part in ("limits", "requests"):
            yield from fractions(resources.get(part), f"{path}.resources.{part}")
    variables = container.get("env")
    if variables and len(variables) > 1:
        yield from _hidden_variables(variables, f"{path}.env")


def _hidden_variables(variables: Sequence[Object], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for position, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"  # a value that builds on the earlier one is meant
        bad = variable.get("valueFrom") is not None or value == reference or reference not in value
        if name in seen and bad:
            yield f'{path}[{position}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(containers: Sequence[tuple[str, Object]]) -> Iterator[str]:
    """Ports of all containers, as they share one network."""
    seen: dict[tuple[Any, Any], list[tuple[str, Object]]] = {}
    for path, container in containers:
        for position, port in enumerate(container.get("ports") or ()):
            where = f"{path}.ports[{position}]"
            if port.get("hostIP") and not port.get("hostPort"):
                shown = f"{port.get('name') or ''} HostPort:0 ContainerPort:{port.get('containerPort') or 0}"
                protocol = f"Protocol:{port.get('protocol') or ''} HostIP:{port['hostIP']}"
                yield f"{where}: hostIP set without hostPort: {{Name:{shown} {protocol}}}"
            others = seen.setdefault((port.get("containerPort"), port.get("protocol")), [])
            for other, earlier in others:
                yield from _both(port, earlier, where, other)
            others.append((where, port))


def _both(port: Object, earlier: Object, path: str, other: str) -> Iterator[str]:
    address, host = port.get("hostIP") or "", port.get("hostPort") or 0
    before, held = earlier.get("hostIP") or "", earlier.get("hostPort") or 0
    if (address, host) == (before, held):
        yield f"{path}: duplicate port definition with {other}"
    elif not host or not held:
        yield f"{path}: overlapping port definition with {other}"
    elif host == held and bool(address) != bool(before):
        yield f"{path}: dangerously ambiguous port definition with {other}"


def fractions(amounts: Object | None, path: str) -> Iterator[str]:
    """Bytes that are no whole number of bytes."""
    for name in ("memory", "ephemeral-storage"):
        yield from _fraction((amounts or {}).get(name), f"{path}[{name}]")


def claim_fractions(claim: Object, path: str) -> Iterator[str]:
    """The same of a claim's spec."""
    for part in ("requests", "limits"):
        amounts = (claim.get("resources") or {}).get(part) or {}
        yield from _fraction(amounts.get("storage"), f"{path}.resources.{part}[storage]")


def _fraction(amount: Any, path: str) -> Iterator[str]:
    if amount is not None and str(amount).endswith("m") and not quantity.parse(amount).is_integer():
        yield f'{path}: fractional byte value "{amount}" is invalid, must be an integer'
