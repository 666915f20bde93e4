"""deployment: what wakes it. Each key becomes one ``reconcile.Reconciliation``."""

from apimachinery.labels import from_label_selector
from apimachinery.meta import Object, clone, controller_of, labels_of, make_key, namespace_of, split_key
from apimachinery.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.deployment.facts import strategy
from controlplane.controllers.deployment.reconcile import Reconciliation, Tools
from controlplane.controllers.lib.claims import Claimer
from controlplane.controllers.lib.freshness import PAUSE_SECONDS, Written


class DeploymentController:
    """One loop over Deployments; woken by them, by their ReplicaSets, and by the last pod of a Recreate."""

    name = "deployment-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._deployments = env.watch(DEPLOYMENTS)
        self._sets = env.watch_owned(REPLICA_SETS)
        all_pods = env.watch_owned(PODS)
        self._tools = Tools(
            env.client,
            env.clock,
            env.recorders(self.name),
            Claimer(env.client, DEPLOYMENTS, "Deployment", REPLICA_SETS),
            self._deployments.lister,
            self._sets.lister,
            all_pods.lister,
            Written(self._deployments.lister, env.clock),
            Written(self._sets.lister, env.clock),
        )
        self._loop = Loop(self.name, self.reconcile, env, workers)
        add = self._loop.add_object
        self._deployments.add_handler(on_add=add, on_update=lambda old, new: add(new), on_delete=add)
        self._sets.add_handler(on_add=self._set_changed, on_update=self._set_updated, on_delete=self._set_deleted)
        all_pods.add_handler(on_delete=self._pod_deleted)

    async def run(self) -> None:
        await self._loop.run()

    def _set_updated(self, old: Object, new: Object) -> None:
        before, after = controller_of(old), controller_of(new)
        if before is not None and before != after:
            self._set_changed(old)
        if after is not None or before is not None or labels_of(old) != labels_of(new):
            self._set_changed(new)

    def _set_deleted(self, each: Object) -> None:
        reference = controller_of(each)
        if reference is not None:
            self._tools.written_sets.forget(make_key(namespace_of(each), reference["name"]), each)
        self._set_changed(each)

    def _set_changed(self, each: Object) -> None:
        reference = controller_of(each)
        if reference is not None:
            if reference.get("kind") == "Deployment":
                self._loop.add(make_key(namespace_of(each), reference["name"]))
            return
        for deployment in self._deployments.lister.list(namespace_of(each)):
            if from_label_selector(deployment["spec"]["selector"]).matches(labels_of(each)):
                self._loop.add_object(deployment)

    def _pod_deleted(self, pod: Object) -> None:
        """Recreate waits until old pods are really gone."""
        reference = controller_of(pod)
        owner = self._sets.lister.get(reference["name"], namespace_of(pod)) if reference else None
        above = controller_of(owner) if owner is not None else None
        deployment = self._deployments.lister.get(above["name"], namespace_of(pod)) if above else None
        if deployment is not None and strategy(deployment) == "Recreate":
            self._loop.add_object(deployment)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        deployment = self._deployments.lister.get(name, namespace)
        if deployment is None:
            return None
        if not (self._tools.written.seen(key) and self._tools.written_sets.seen(key)):
            return PAUSE_SECONDS  # what was just done would look undone, and be done again
        return await Reconciliation(self._tools, clone(deployment)).run()
