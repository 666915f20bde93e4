"""root_ca_publisher: every namespace has a ConfigMap ``kube-root-ca.crt``, by which pods know the API server."""

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, is_deleting, namespace_of
from apimachinery.resources import CONFIG_MAPS, NAMESPACES
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.pod_control import is_namespace_terminating

NAME = "kube-root-ca.crt"


class RootCAPublisher:
    """One loop over namespaces; repairs the ConfigMap when somebody changes or deletes it."""

    name = "root-ca-certificate-publisher-controller"

    def __init__(self, env: Environment, bundle: str, workers: int = 1) -> None:
        self._client = env.client
        self._data = {"ca.crt": bundle}
        self._namespaces = env.watch(NAMESPACES)
        self._maps = env.informers.informer(CONFIG_MAPS, field_selector=f"metadata.name={NAME}")
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._namespaces.add_handler(on_add=self._loop.add_object, on_update=lambda old, new: self._loop.add_object(new))
        self._maps.add_handler(on_update=lambda old, new: self._changed(new), on_delete=self._changed)

    def _changed(self, held: Object) -> None:
        self._loop.add(namespace_of(held))

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        namespace = self._namespaces.lister.get(key)
        if namespace is None or is_deleting(namespace):
            return None
        held = self._maps.lister.get(NAME, key)
        try:
            if held is None:
                await self._client.create(CONFIG_MAPS, self._wanted(key))
            elif held.get("data") != self._data:
                changed = clone(held)
                changed["data"] = self._data
                await self._client.update(CONFIG_MAPS, changed)
        except StatusError as error:
            if error.reason != "AlreadyExists" and error.code != 404 and not is_namespace_terminating(error):
                raise
        return None

    def _wanted(self, namespace: str) -> Object:
        about = "The CA bundle that verifies the API server at its addresses inside the cluster, and nothing else."
        metadata = {"name": NAME, "namespace": namespace, "annotations": {"kubernetes.io/description": about}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self._data}
