"""podgroup_protection: a PodGroup that is being deleted stays until the last of its pods has ended (KEP-4671)."""

from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, add_finalizer, clone, has_finalizer, is_deleting, make_key, namespace_of, remove_finalizer
from apimachinery.objects import pods
from apimachinery.resources import PODS
from controlplane.controllers.controller import Environment, Loop

POD_GROUPS = GroupVersionResource("scheduling.k8s.io", "v1alpha2", "podgroups")
FINALIZER = "scheduling.k8s.io/podgroup-protection"
_BY_GROUP = "pod-group"


def group_of(pod: Object) -> list[str]:
    """The key of the group that the pod belongs to, if to any: an index."""
    name = (pods.spec_of(pod).get("schedulingGroup") or {}).get("podGroupName")
    return [make_key(namespace_of(pod), name)] if name else []


class PodGroupProtection:
    """One loop over groups; woken by them, and by pods that come and end."""

    name = "podgroup-protection-controller"

    def __init__(self, env: Environment) -> None:
        self._client = env.client
        self._groups, self._pods = env.watch(POD_GROUPS), env.watch(PODS)
        self._pods.add_index(_BY_GROUP, group_of)
        self._loop = Loop(self.name, self.reconcile, env, workers=2)
        self._groups.add_handler(on_add=self._look, on_update=lambda old, new: self._look(new))
        self._pods.add_handler(on_add=self._pod, on_update=self._pod_updated, on_delete=self._pod)

    async def run(self) -> None:
        await self._loop.run()

    def _look(self, group: Object) -> None:
        if is_deleting(group) == has_finalizer(group, FINALIZER):
            self._loop.add_object(group)

    def _pod(self, pod: Object) -> None:
        for key in group_of(pod):
            self._loop.add(key)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if pods.is_terminal(new) and not pods.is_terminal(old):
            self._pod(new)

    async def reconcile(self, key: str) -> float | None:
        cached = self._groups.lister.get_key(key)
        if cached is None:
            return None
        used = any(not pods.is_terminal(pod) for pod in self._pods.lister.by_index(_BY_GROUP, key))
        changed = clone(cached)
        edited = False
        if is_deleting(cached) and not used:
            edited = remove_finalizer(changed, FINALIZER)
        elif not is_deleting(cached) and used:
            edited = add_finalizer(changed, FINALIZER)
        if edited:
            await self._client.update(POD_GROUPS, changed)
        return None
