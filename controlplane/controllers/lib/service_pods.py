"""Services and pods, each found from the other by selector. Shared by endpointslice and endpoints."""

from apimachinery.meta import Object, labels_of, namespace_of
from apimachinery.objects import services
from client.lister import Lister


class ServicePods:
    """Reads two caches."""

    def __init__(self, all_services: Lister, all_pods: Lister) -> None:
        self._services = all_services
        self._pods = all_pods

    def services_of(self, pod: Object) -> list[Object]:
        labels = labels_of(pod)
        return [each for each in self._services.list(namespace_of(pod)) if services.selects(each, labels)]

    def pods_of(self, service: Object) -> list[Object]:
        return [pod for pod in self._pods.list(namespace_of(service)) if services.selects(service, labels_of(pod))]
