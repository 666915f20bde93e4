"""endpointslice: mirrors what a Service's selector matches into EndpointSlices. Layout in ``lib/slices``."""

import asyncio

from apimachinery.errors import StatusError
from apimachinery.meta import Object, is_deleting, key_of, labels_of, name_of, namespace_of, split_key
from apimachinery.objects import nodes, services
from apimachinery.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib import slices
from controlplane.controllers.lib.endpoint_pods import matters
from controlplane.controllers.lib.freshness import PAUSE_SECONDS, Written
from controlplane.controllers.lib.pod_control import is_namespace_terminating
from controlplane.controllers.lib.service_pods import ServicePods
from controlplane.controllers.lib.slices import service_index

BY_SERVICE = "service"


class EndpointSliceController:
    """One loop over Services; woken by them, their pods, their slices, and zones of nodes."""

    name = "endpointslice-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client = env.client
        self._recorder = env.recorders(self.name)
        self._services = env.watch(SERVICES)
        self._nodes = env.watch(NODES)
        pods = env.watch(PODS)
        self._slices = env.watch(ENDPOINT_SLICES)
        self._slices.add_index(BY_SERVICE, service_index)
        self._written = Written(self._slices.lister, env.clock)
        self._selected = ServicePods(self._services.lister, pods.lister)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        add = self._loop.add_object
        self._services.add_handler(on_add=add, on_update=lambda old, new: add(new), on_delete=add)
        pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed)
        self._slices.add_handler(on_update=self._slice_updated, on_delete=self._slice_deleted)
        self._nodes.add_handler(on_add=self._node_changed, on_update=self._node_updated)

    async def run(self) -> None:
        await self._loop.run()

    def _pod_changed(self, pod: Object) -> None:
        for service in self._selected.services_of(pod):
            self._loop.add_object(service)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if labels_of(old) != labels_of(new):
            self._pod_changed(old)
            self._pod_changed(new)
        elif matters(old, new):
            self._pod_changed(new)

    def _slice_changed(self, each: Object) -> None:
        if labels_of(each).get(slices.MANAGED_BY_LABEL) == slices.MANAGER:
            for key in service_index(each):
                self._loop.add(key)

    def _slice_deleted(self, each: Object) -> None:
        for key in service_index(each):
            self._written.forget(key, each)
        self._slice_changed(each)

    def _slice_updated(self, old: Object, new: Object) -> None:
        if labels_of(old) != labels_of(new):
            self._slice_changed(old)
        self._slice_changed(new)

    def _node_changed(self, node: Object) -> None:
        if nodes.zone(node):
            for service in self._services.lister.list():
                self._loop.add_object(service)

    def _node_updated(self, old: Object, new: Object) -> None:
        if nodes.zone(old) != nodes.zone(new):
            self._node_changed(new)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        service = self._services.lister.get(name, namespace)
        # Slices of a deleted Service go by their owner reference.
        if service is None or is_deleting(service) or services.is_external_name(service) or not services.selector(service):
            return None
        if not self._written.seen(key):
            return PAUSE_SECONDS
        held = [
            each
            for each in self._slices.lister.by_index(BY_SERVICE, key)
            if labels_of(each).get(slices.MANAGED_BY_LABEL) == slices.MANAGER and not is_deleting(each)
        ]
        known_nodes = {name_of(node): node for node in self._nodes.lister.list()}
        changes = slices.plan(service, self._selected.pods_of(service), held, known_nodes)
        await self._perform(service, changes)
        return None

    async def _perform(self, service: Object, changes: slices.Changes) -> None:
        """Creates and updates first, so that no endpoint is missing in between."""
        try:
            for each in changes.create:
                self._written.note(key_of(service), await self._client.create(ENDPOINT_SLICES, each))
            for each in changes.update:
                self._written.note(key_of(service), await self._client.update(ENDPOINT_SLICES, each))
            await asyncio.gather(*(self._delete(each) for each in changes.delete))
        except StatusError as error:
            if is_namespace_terminating(error):
                return
            if error.code not in (404, 409):
                text = f"Error updating Endpoint Slices for Service {key_of(service)}: {error.message}"
                self._recorder.event(service, "Warning", "FailedToUpdateEndpointSlices", text, "Update")
            raise

    async def _delete(self, each: Object) -> None:
        try:
            await self._client.delete(ENDPOINT_SLICES, name_of(each), namespace_of(each))
        except StatusError as error:
            if error.code != 404:
                raise
