"""service_account: every namespace has a ServiceAccount ``default``, for pods that name none."""

from apimachinery.errors import StatusError
from apimachinery.meta import Object, is_deleting, name_of, namespace_of
from apimachinery.resources import NAMESPACES, SERVICE_ACCOUNTS
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.pod_control import is_namespace_terminating

DEFAULT = "default"


class ServiceAccountController:
    """One loop over namespaces."""

    name = "serviceaccount-controller"

    def __init__(self, env: Environment, workers: int = 1) -> None:
        self._client = env.client
        self._namespaces = env.watch(NAMESPACES)
        self._accounts = env.informers.informer(SERVICE_ACCOUNTS, field_selector=f"metadata.name={DEFAULT}")
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._namespaces.add_handler(on_add=self._loop.add_object, on_update=lambda old, new: self._loop.add_object(new))
        self._accounts.add_handler(on_delete=lambda account: self._loop.add(namespace_of(account)))

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        namespace = self._namespaces.lister.get(key)
        if namespace is None or is_deleting(namespace) or self._accounts.lister.get(DEFAULT, key) is not None:
            return None
        account: Object = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT, "namespace": name_of(namespace)},
        }
        try:
            await self._client.create(SERVICE_ACCOUNTS, account)
        except StatusError as error:
            if error.reason != "AlreadyExists" and error.code != 404 and not is_namespace_terminating(error):
                raise
        return None
