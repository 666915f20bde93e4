"""Pods and nodes for tests of the scheduler, in as few words as possible."""

import itertools
import random
from typing import Any

from apimachinery.meta import Object, key_of
from component.clock import Clock
from controlplane.scheduler.cache import Cache
from controlplane.scheduler.config import ProfileConfig
from controlplane.scheduler.cycle import Cycle, Decision, Refusal
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.storage import NoStorage, Storage
from controlplane.scheduler.framework.types import PodInfo
from controlplane.scheduler.plugins import catalog

_numbers = itertools.count(1)


def make_pod(name: str = "", *, node: str = "", cpu: str = "", memory: str = "", **more: Any) -> Object:
    """``labels``, ``namespace`` and ``priority`` are known; everything else goes into the spec."""
    number = next(_numbers)
    requests = {key: text for key, text in (("cpu", cpu), ("memory", memory)) if text}
    ports = more.pop("ports", [])
    container: Object = {"name": "c", "image": more.pop("image", "web:1"), "resources": {"requests": requests}, "ports": ports}
    metadata = {
        "name": name or f"pod-{number}",
        "namespace": more.pop("namespace", "default"),
        "uid": f"uid-{number}",
        "labels": more.pop("labels", {}),
    }
    spec = {"containers": [container], **({"nodeName": node} if node else {}), **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def make_node(name: str, *, cpu: str = "4", memory: str = "16Gi", pods: str = "110", **more: Any) -> Object:
    """``labels``, ``taints`` and ``images`` (name to bytes) are known; everything else goes into the spec."""
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    images = [{"names": [image], "sizeBytes": size} for image, size in more.pop("images", {}).items()]
    status = {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}, "images": images}
    return {"metadata": {"name": name, "labels": labels}, "spec": more, "status": status}


class Bench:
    """A cluster and a cycle over it, without queue or API server."""

    def __init__(
        self,
        *nodes: Object,
        running: tuple[Object, ...] = (),
        profile: ProfileConfig | None = None,
        storage: Storage | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.cache = Cache()
        for node in nodes:
            self.cache.set_node(node)
        for pod in running:
            self.cache.set_pod(pod)

        async def post(namespace: str, name: str, binding: dict[str, Any]) -> object:
            raise AssertionError("decisions bind nothing")

        self.cycle = Cycle(catalog.build(profile or ProfileConfig(), post, storage, clock), self.cache, random.Random(7))

    def decide(self, pod: Object) -> Decision | Refusal:
        return self.cycle.decide(PodInfo(pod))

    def place(self, pod: Object) -> str:
        """Decide and assume; the node's name, or an empty string."""
        info = PodInfo(pod)
        outcome = self.cycle.decide(info)
        if isinstance(outcome, Refusal):
            return ""
        self.cache.assume(info, outcome.node)
        return outcome.node

    def fits(self, pod: Object) -> set[str]:
        """All nodes that would take the pod."""
        info = PodInfo(pod)
        return {node.name for node in self.cache.nodes() if self._filter(info, node.name)}

    def _filter(self, info: PodInfo, name: str) -> bool:
        state = CycleState()
        status, names, skipped = self.cycle.profile.pre_filter(state, info, self.cache)
        node = self.cache.node(name)
        if status is not None or node is None or (names is not None and name not in names):
            return False
        return self.cycle.profile.filter(state, info, node, skipped) is None

    def refusal(self, pod: Object) -> str:
        outcome = self.decide(pod)
        assert isinstance(outcome, Refusal), outcome
        return outcome.message()


class HeldStorage(NoStorage):
    """Volumes, claims, classes and the rest in dicts; what is written is held at once."""

    def __init__(self, *objects: Object) -> None:
        self.held: dict[str, dict[str, Object]] = {}
        self.writes: list[Object] = []
        for each in objects:
            self.put(each)

    def put(self, obj: Object) -> None:
        self.held.setdefault(obj["kind"], {})[key_of(obj)] = obj

    def _get(self, kind: str, key: str) -> Object | None:
        return self.held.get(kind, {}).get(key)

    def claim(self, namespace: str, name: str) -> Object | None:
        return self._get("PersistentVolumeClaim", f"{namespace}/{name}")

    def volume(self, name: str) -> Object | None:
        return self._get("PersistentVolume", name)

    def volumes(self) -> list[Object]:
        return list(self.held.get("PersistentVolume", {}).values())

    def storage_class(self, name: str) -> Object | None:
        return self._get("StorageClass", name)

    def csi_node(self, name: str) -> Object | None:
        return self._get("CSINode", name)

    def csi_driver(self, name: str) -> Object | None:
        return self._get("CSIDriver", name)

    def capacities(self, storage_class: str) -> list[Object]:
        listed = self.held.get("CSIStorageCapacity", {}).values()
        return [each for each in listed if each["storageClassName"] == storage_class]

    async def write_volume(self, changed: Object) -> Object:
        self.writes.append(changed)
        self.put(changed)
        return changed

    async def write_claim(self, changed: Object) -> Object:
        return await self.write_volume(changed)
