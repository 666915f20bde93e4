"""What was seen, and whether it is what was promised. Pure: ``run`` observes, this judges."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Object = dict[str, Any]

UNAVAILABLE_SECONDS = 2.0
FAILOVER_SECONDS = 15.0
CONVERGE_SECONDS = 30.0  # a change of the Deployment: a failover may lie in between


@dataclass
class Probe:
    """Answers of one kind of request, by the time they came: good ones count."""

    name: str
    good: list[float] = field(default_factory=list)
    bad: list[tuple[float, str]] = field(default_factory=list)

    def longest_gap(self, until: float) -> tuple[float, float]:
        """The longest time without a good answer, and when it began."""
        times = [*self.good, until]
        gaps = [(after - before, before) for before, after in pairwise(times)]
        return max(gaps, default=(0.0, 0.0))

    def quantile(self, share: float) -> float:
        gaps = sorted(after - before for before, after in pairwise(self.good))
        return gaps[int(len(gaps) * share)] if gaps else 0.0


@dataclass
class Pods:
    """The Deployment's pods as a watch tells of them."""

    alive: dict[str, Object] = field(default_factory=dict)  # by uid
    nodes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    names: dict[str, str] = field(default_factory=dict)  # living name > uid
    wrong: list[str] = field(default_factory=list)
    most: int = 0
    least_ready: int = 1 << 30
    story: deque[str] = field(default_factory=lambda: deque(maxlen=60))  # what changed lately, for whoever looks into a fault

    def seen(self, pod: Object) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        self.story.append(f"{metadata['name']} {_state(pod)} at {metadata.get('resourceVersion')}")
        if node := pod["spec"].get("nodeName"):
            self.nodes[uid].add(node)
            if len(self.nodes[uid]) > 1:
                self.wrong.append(f"pod {metadata['name']} was bound to {sorted(self.nodes[uid])}")
        self.alive[uid] = pod
        self.names[metadata["name"]] = uid

    def gone(self, pod: Object) -> None:
        self.alive.pop(pod["metadata"]["uid"], None)
        self.story.append(f"{pod['metadata']['name']} gone at {pod['metadata'].get('resourceVersion')}")

    @property
    def wanted(self) -> list[Object]:
        """Those that are not on their way out."""
        return [pod for pod in self.alive.values() if not pod["metadata"].get("deletionTimestamp")]

    @property
    def ready(self) -> int:
        return sum(is_ready(pod) for pod in self.wanted)


def _state(pod: Object) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "leaving"
    return "ready" if is_ready(pod) else f"{(pod.get('status') or {}).get('phase')} on {pod['spec'].get('nodeName')}"


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@dataclass
class Bounds:
    """How many pods there may and must be, by the Deployment's own strategy (25 % each), while ``replicas`` changes."""

    replicas: list[int]  # the present number, and those it may still be coming from
    deleted: int = 0  # pods that we took away

    @property
    def most(self) -> int:
        return max(number + -(-number // 4) for number in self.replicas)

    @property
    def least_ready(self) -> int:
        return min(number - number // 4 for number in self.replicas) - self.deleted


def final_faults(deployment: Object, replicasets: list[Object], pods: list[Object]) -> list[str]:
    """What is not as it should be once everything is quiet."""
    spec, status, meta = deployment["spec"], deployment.get("status") or {}, deployment["metadata"]
    replicas = spec["replicas"]
    wrong = [
        f"status.{member} is {status.get(member)}, not {replicas}"
        for member in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        if status.get(member) != replicas
    ]
    if status.get("observedGeneration") != meta["generation"]:
        wrong.append("the last change of the Deployment has not been observed")
    active = [each for each in replicasets if each["spec"]["replicas"]]
    if len(active) != 1:
        wrong.append(f"{len(active)} ReplicaSets want pods")
    templates = [each["metadata"]["labels"]["pod-template-hash"] for each in replicasets]
    if len(set(templates)) != len(templates):
        wrong.append("two ReplicaSets have the same template")
    owners = {owner["uid"] for pod in pods for owner in pod["metadata"].get("ownerReferences") or ()}
    if owners != {each["metadata"]["uid"] for each in active}:
        wrong.append("pods belong to others than the active ReplicaSet")
    wrong += [f"pod {pod['metadata']['name']} is still going" for pod in pods if pod["metadata"].get("deletionTimestamp")]
    if len(pods) != replicas:
        wrong.append(f"{len(pods)} pods, not {replicas}")
    wrong += [f"pod {pod['metadata']['name']} is not Ready on a node" for pod in pods if not is_ready(pod)]
    return wrong
