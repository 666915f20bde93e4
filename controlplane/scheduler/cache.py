"""All nodes and the pods on them, as the API server tells and as this scheduler has just decided (assumed pods).

Written by ``handlers`` (what informers show) and by the cycle (``assume``, ``forget``); read by plugins as the ``Cluster``.
There is no snapshot: a cycle does not await, so nothing changes under it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from apimachinery.labels import Selector
from apimachinery.meta import Object, is_deleting, labels_of, name_of, uid_of
from apimachinery.objects import pods
from controlplane.scheduler.framework.types import AffinityTerm, NodeInfo, PodInfo, exact_pair

_NO_LABELS: Mapping[str, str] = {}
_NO_TERMS: Mapping[tuple[str, AffinityTerm], None] = {}
_NO_UIDS: Mapping[str, None] = {}


class Cache:
    """Every change gives its node the next ``generation``, so that readers can ask what changed since they last looked."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._present: dict[str, NodeInfo] = {}  # those with a Node object; pods may be seen before their node
        self._recent: dict[str, NodeInfo] = {}  # in order of change, latest last
        self._pods: dict[str, tuple[PodInfo, str]] = {}
        self._assumed: set[str] = set()
        self._affine: dict[str, NodeInfo] = {}
        self._anti_terms: dict[tuple[str, str] | None, dict[tuple[str, AffinityTerm], None]] = {}  # by exact label
        self._labelled: dict[tuple[str, str, str], dict[str, None]] = {}  # namespace, key, value; empty key for all
        self._claim_users: dict[str, dict[str, None]] = {}
        self._images: dict[str, int] = {}
        self._preferred_taints = 0
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._nominated: dict[str, tuple[PodInfo, str]] = {}
        self.generation = 0
        self.shape = 0
        """Moves when nodes come or go, or when their images change: what is kept per node must then be made anew."""

    # Cluster

    def nodes(self) -> Iterable[NodeInfo]:
        return self._present.values()

    def node(self, name: str) -> NodeInfo | None:
        return self._present.get(name)

    def node_count(self) -> int:
        return len(self._present)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        return self._namespaces.get(name, _NO_LABELS)

    def nodes_with_affinity(self) -> Collection[NodeInfo]:
        return self._affine.values()

    def anti_terms(self, labels: Mapping[str, str]) -> Iterator[tuple[AffinityTerm, NodeInfo]]:
        for pair in (None, *labels.items()):
            for uid, term in self._anti_terms.get(pair, _NO_TERMS):
                node = self._present.get(self._pods[uid][1])
                if node is not None:
                    yield term, node

    def pods_selected(self, selector: Selector, namespace: str) -> Iterator[tuple[PodInfo, NodeInfo]]:
        pair = exact_pair(selector)
        for uid in self._labelled.get((namespace, *(pair or ("", ""))), _NO_UIDS):
            pod, name = self._pods[uid]
            node = self._present.get(name)
            if node is not None and selector.matches(pod.labels):
                yield pod, node

    def users_of(self, claim: str) -> Iterator[PodInfo]:
        return (self._pods[uid][0] for uid in self._claim_users.get(claim, _NO_UIDS))

    def nodes_with_image(self, image: str) -> int:
        return self._images.get(image, 0)

    @property
    def has_preferred_taints(self) -> bool:
        return self._preferred_taints > 0

    def changed_since(self, generation: int) -> Iterator[NodeInfo]:
        """Nodes that changed after ``generation``, latest first."""
        for info in reversed(self._recent.values()):
            if info.generation <= generation:
                return
            yield info

    # Nodes and namespaces

    def set_node(self, node: Object) -> None:
        name = name_of(node)
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo(name)
        fresh = name not in self._present
        before, tainted = info.images, bool(info.preferred_taints)
        info.set_node(node)
        self._preferred_taints += bool(info.preferred_taints) - tainted
        if fresh:
            self._present[name] = info
        if before != info.images:
            self._count_images(before, -1)
            self._count_images(info.images, 1)
        if fresh or before != info.images:
            self.shape += 1
        self._touch(info)

    def _count_images(self, images: Mapping[str, int], sign: int) -> None:
        for image in images:
            count = self._images.get(image, 0) + sign
            if count:
                self._images[image] = count
            else:
                self._images.pop(image, None)

    def remove_node(self, name: str) -> None:
        """Its pods stay counted until they are gone, too."""
        info = self._present.pop(name, None)
        if info is None:
            return
        self._count_images(info.images, -1)
        self._preferred_taints -= bool(info.preferred_taints)
        self._recent.pop(name, None)
        self._affine.pop(name, None)
        info.node = None
        info.images = {}
        info.preferred_taints = []
        if not info.pods:
            del self._nodes[name]
        self.shape += 1

    def reshape(self) -> None:
        """Something else than a node has changed that makes what was kept about nodes void."""
        self.shape += 1

    def set_namespace(self, namespace: Object) -> None:
        self._namespaces[name_of(namespace)] = labels_of(namespace)

    def remove_namespace(self, name: str) -> None:
        self._namespaces.pop(name, None)

    # Nominations: pods for which others were asked to go

    def nominate(self, pod: PodInfo, node: str) -> None:
        self._nominated[pod.uid] = (pod, node)

    def unnominate(self, uid: str) -> None:
        self._nominated.pop(uid, None)

    @property
    def has_nominations(self) -> bool:
        return bool(self._nominated)

    def nominated_node(self, uid: str) -> str:
        held = self._nominated.get(uid)
        return held[1] if held is not None else ""

    def nominated_on(self, node: str, *, least_priority: int, but: str) -> list[PodInfo]:
        """Pods that shall have room there before any of lower priority."""
        return [
            pod
            for uid, (pod, where) in self._nominated.items()
            if where == node and uid != but and pod.priority >= least_priority
        ]

    # Pods

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def holds(self, uid: str) -> bool:
        return uid in self._pods

    def assume(self, pod: PodInfo, node: str) -> None:
        """Count the pod as running there before the API server knows."""
        self._nominated.pop(pod.uid, None)
        self._place(pod, node)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Binding failed."""
        if uid in self._assumed:
            self._assumed.discard(uid)
            self._displace(uid)

    def set_pod(self, pod: Object) -> None:
        """A pod that has a node, new or changed; confirms an assumption."""
        uid, node = uid_of(pod), pods.node_name(pod)
        self._assumed.discard(uid)
        held = self._pods.get(uid)
        if held is not None and held[1] == node and _counts_alike(held[0].pod, pod):
            held[0].pod = pod
            return
        self._displace(uid)
        self._place(PodInfo(pod), node)

    def remove_pod(self, uid: str) -> None:
        self._assumed.discard(uid)
        self._displace(uid)

    def _place(self, pod: PodInfo, node: str) -> None:
        info = self._nodes.get(node)
        if info is None:
            info = self._nodes[node] = NodeInfo(node)
        info.add(pod)
        self._pods[pod.uid] = (pod, node)
        for each in self._index_keys(pod):
            self._labelled.setdefault(each, {})[pod.uid] = None
        for claim in pod.claims:
            self._claim_users.setdefault(claim, {})[pod.uid] = None
        for term in pod.anti_affinity:
            self._anti_terms.setdefault(exact_pair(term.selector), {})[pod.uid, term] = None
        self._touch(info)

    @staticmethod
    def _index_keys(pod: PodInfo) -> list[tuple[str, str, str]]:
        return [(pod.namespace, "", ""), *((pod.namespace, key, text) for key, text in pod.labels.items())]

    def _unindex(self, pod: PodInfo) -> None:
        for each in self._index_keys(pod):
            held = self._labelled[each]
            del held[pod.uid]
            if not held:
                del self._labelled[each]
        for claim in pod.claims:
            users = self._claim_users.get(claim, {})
            users.pop(pod.uid, None)
            if not users:
                self._claim_users.pop(claim, None)
        for term in pod.anti_affinity:
            pair = exact_pair(term.selector)
            terms = self._anti_terms[pair]
            del terms[pod.uid, term]
            if not terms:
                del self._anti_terms[pair]

    def _displace(self, uid: str) -> None:
        held = self._pods.pop(uid, None)
        if held is None:
            return
        self._unindex(held[0])
        info = self._nodes[held[1]]
        info.remove(uid)
        if info.node is None and not info.pods:
            del self._nodes[held[1]]
            return
        self._touch(info)

    def _touch(self, info: NodeInfo) -> None:
        self.generation += 1
        info.generation = self.generation
        if info.node is None:
            return
        self._recent.pop(info.name, None)
        self._recent[info.name] = info
        if info.with_affinity:
            self._affine[info.name] = info
        else:
            self._affine.pop(info.name, None)


def _counts_alike(old: Object, new: Object) -> bool:
    """Whether nothing changed that scheduling others depends on."""
    if labels_of(old) != labels_of(new) or is_deleting(old) != is_deleting(new):
        return False
    before, after = old["spec"], new["spec"]
    fields = ("containers", "initContainers", "resources", "overhead", "priority", "affinity")
    return all(before.get(field) == after.get(field) for field in fields)
