"""Services without endpoints: the selector, the pods, the ports, the traffic policy."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache

from apimachinery.meta import Object, is_deleting, labels_of, name_of, namespace_of
from apimachinery.objects import pods, services
from why.cause import Cause, Explanation, State
from why.explainers.deletion import remaining
from why.explainers.workload import pod_causes
from why.snapshot import Snapshot
from why.words import few, flag, latest, pairs, plural, subject

_SERVICE_LABEL = "kubernetes.io/service-name"
_SIMILAR = 0.6
"""Of two values of a label: above it one may be the other misspelt."""
_ALIKE = 0.4
"""Of a whole selector, on average over its pairs."""


def explain(snapshot: Snapshot, service: Object) -> Explanation:
    state, summary, causes = _judge(snapshot, service)
    return Explanation(subject(service), namespace_of(service), state, summary, tuple(causes))


def _judge(snapshot: Snapshot, service: Object) -> tuple[State, str, list[Cause]]:
    if is_deleting(service):
        return State.UNWELL, "Terminating", remaining(service)
    if services.is_external_name(service):
        return State.WELL, f"an alias of {services.spec_of(service).get('externalName')}", []
    ready, known = ready_endpoints(snapshot, service)
    pending = _load_balancer(snapshot, service)
    if ready:
        policy = _policy(snapshot, service)
        causes = [*pending, *_ports(snapshot, service, _selected(snapshot, service)), *policy]
        state = State.UNWELL if pending or len(causes) > len(pending) + len(policy) else State.WELL
        return state, f"{plural(ready, 'ready endpoint')}", causes
    if not known:
        return State.UNKNOWN, "its endpoints may not be read", pending
    if not services.selector(service):
        step = f"create an EndpointSlice with the label {_SERVICE_LABEL}={name_of(service)}, or give it a selector"
        return State.UNWELL, "no ready endpoints", [Cause("it has no selector, and nobody has made endpoints for it", step=step)]
    return State.UNWELL, "no ready endpoints", [*_without_endpoints(snapshot, service), *pending]


def ready_endpoints(snapshot: Snapshot, service: Object) -> tuple[int, bool]:
    """How many endpoints are ready, and whether that is known."""
    slices = [
        each
        for each in snapshot.all("EndpointSlice", namespace_of(service))
        if labels_of(each).get(_SERVICE_LABEL) == name_of(service)
    ]
    addresses = {
        address
        for each in slices
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False and each.get("ports")
        for address in endpoint.get("addresses") or ()
    }
    headless = {
        address
        for each in slices
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False and not services.ports(service)
        for address in endpoint.get("addresses") or ()
    }
    return len(addresses | headless), snapshot.covers("EndpointSlice", namespace_of(service))


def _selected(snapshot: Snapshot, service: Object) -> list[Object]:
    groups = snapshot.pods_by_labels(namespace_of(service))
    return [pod for group in groups if services.selects(service, labels_of(group[0])) for pod in group]


def _without_endpoints(snapshot: Snapshot, service: Object) -> list[Cause]:
    if not snapshot.covers("Pod", namespace_of(service)):
        return [Cause("its pods may not be read", step="run this as somebody who may list pods in its namespace")]
    chosen = _selected(snapshot, service)
    if not chosen:
        return [_matches_nothing(snapshot, service)]
    active = [pod for pod in chosen if pods.is_active(pod)]
    if not active:
        says = (
            f"its selector matches {plural(len(chosen), 'pod')}, all finished or being deleted: {few(name_of(p) for p in chosen)}"
        )
        return [Cause(says, step="start pods that stay")]
    below, _ = pod_causes(snapshot, active)
    if below:
        says = f"none of the {plural(len(active), 'pod')} that it selects is ready"
        return [Cause(says, (f"selector {pairs(services.selector(service))}",), causes=tuple(below))]
    ports = _ports(snapshot, service, active)
    if ports:
        return ports
    evidence = latest(snapshot, service, "FailedToUpdateEndpointSlices", "FailedToUpdateEndpoint")
    step = "if this lasts, check that the controller manager runs"
    return [Cause(f"{plural(len(active), 'pod')} are ready, and their endpoints have not been written yet", evidence, step)]


def _matches_nothing(snapshot: Snapshot, service: Object) -> Cause:
    """With the labels that come nearest: most pairs in common, then those whose values look alike."""
    wanted = services.selector(service)
    says = f"its selector {pairs(wanted)} matches no pod in {namespace_of(service)}"
    names: dict[tuple[str, ...], list[str]] = {}
    scores: dict[tuple[str, ...], float] = {}
    total, there = 0, set()
    for group in snapshot.pods_by_labels(namespace_of(service)):
        live = [name_of(pod) for pod in group if not pods.is_terminal(pod)]
        if not live:
            continue
        held = labels_of(group[0])
        total += len(live)
        there |= {f"{key}={held[key]}" for key in wanted if key in held}
        score = sum(_likeness(value, held.get(key), held.values()) for key, value in wanted.items()) / len(wanted)
        shown = tuple(f"{key}={held[key]}" for key in sorted(held) if key in wanted or held[key] in wanted.values())
        if shown and score >= _ALIKE:
            names.setdefault(shown, []).extend(live)
            scores[shown] = score
    if not scores:
        labels = f"labels there: {few(sorted(there))}" if there else "none with such labels"
        step = "start its pods, or correct spec.selector"
        return Cause(says, (f"the namespace has {plural(total, 'pod')}, {labels}",), step)
    best = sorted(scores, key=lambda shown: (scores[shown], len(names[shown])), reverse=True)[:3]
    evidence = tuple(f"near: {','.join(shown)} on {plural(len(names[shown]), 'pod')} ({few(names[shown])})" for shown in best)
    return Cause(says, evidence, f"kubectl set selector service {name_of(service)}{flag(service)} '{','.join(best[0])}'")


def _likeness(wanted: str, held: str | None, values: Iterable[str]) -> float:
    """How near a label is to one pair of the selector: 1 for equal, 0.5 for the right value under another key."""
    if held == wanted:
        return 1.0
    if wanted in values:
        return 0.5
    return _similarity(wanted, held) if held is not None else 0.0


@lru_cache(maxsize=4096)
def _similarity(wanted: str, held: str) -> float:
    """Few distinct values stand on many pods."""
    ratio = SequenceMatcher(None, wanted, held).ratio()
    return ratio if ratio >= _SIMILAR else 0.0


def _ports(snapshot: Snapshot, service: Object, chosen: list[Object]) -> list[Cause]:
    """Named target ports that no pod has."""
    found = []
    for port in services.ports(service):
        target = services.target_port(port)
        if not isinstance(target, str) or not chosen:
            continue
        protocol = str(port.get("protocol") or "TCP")
        if any(pods.find_port(pod, target, protocol) is not None for pod in chosen):
            continue
        there = sorted(
            {
                f"{each.get('name')} ({each.get('containerPort')}/{each.get('protocol') or 'TCP'})"
                for pod in chosen
                for container in pods.long_running_containers(pod)
                for each in container.get("ports") or ()
                if each.get("name")
            }
        )
        says = (
            f"port {port.get('name') or port.get('port')}: targetPort {target!r} ({protocol}) is no port of the pods it selects"
        )
        found.append(
            Cause(says, (f"their named ports: {few(there) or 'none'}",), "correct targetPort, or name the containers' port")
        )
    return found


def _policy(snapshot: Snapshot, service: Object) -> list[Cause]:
    """Local policies: nodes without a pod drop the traffic, by design."""
    told = []
    nodes = {pods.node_name(pod) for pod in _selected(snapshot, service) if pods.is_ready(pod)} - {""}
    total = len(snapshot.all("Node"))
    for local, field in (
        (services.is_external_local, "externalTrafficPolicy"),
        (services.is_internal_local, "internalTrafficPolicy"),
    ):
        if local(service) and nodes and (total == 0 or len(nodes) < total):
            told.append(Cause(f"{field} is Local: only {few(sorted(nodes))} answer, other nodes drop the traffic"))
    return told


def _load_balancer(snapshot: Snapshot, service: Object) -> list[Cause]:
    if services.kind(service) != "LoadBalancer" or services.load_balancer_ips(service):
        return []
    if ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
        return []
    evidence = latest(snapshot, service, "SyncLoadBalancerFailed", "EnsuringLoadBalancer")
    step = "a cloud controller or MetalLB must run in the cluster; NodePort works without one"
    return [Cause("type LoadBalancer: nobody has given it an address", evidence, step)]
