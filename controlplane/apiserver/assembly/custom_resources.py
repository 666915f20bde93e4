"""Custom resources, wired: what serves them, and the tasks that look after their definitions."""

from datetime import UTC, datetime

from apimachinery.gvk import GroupVersion
from component.tasks import Supervisor
from controlplane.apiserver.aggregation.registration import Registration as APIServiceRegistration
from controlplane.apiserver.aggregation.registration import Version
from controlplane.apiserver.assembly.storage import Caches
from controlplane.apiserver.crd.cleanup import Cleanup
from controlplane.apiserver.crd.lifecycle import Lifecycle
from controlplane.apiserver.crd.registration import Registration
from controlplane.apiserver.crd.resource import Surroundings
from controlplane.apiserver.crd.store import CustomStore
from controlplane.apiserver.kinds.apiregistration.priorities import GROUPS, priority_of
from controlplane.apiserver.registry.store import Store


def registration_for(definitions: Store, caches: Caches, around: Surroundings, tasks: Supervisor, *, alone: bool) -> Registration:
    """Served from now on, and looked after as long as ``tasks`` runs. ``alone``: no other server has the same storage."""
    registration = Registration(caches.of(definitions.strategy), around)

    def instances(name: str) -> CustomStore | None:
        resource = registration.resource(name)
        return None if resource is None else resource.store(resource.definition.storage_version)

    cleanup = Cleanup(definitions, instances, _now)
    tasks.keep("custom-resources", registration.follow)
    tasks.keep("definitions", Lifecycle(definitions, cleanup, _now, alone=alone).follow)
    return registration


def register(custom: Registration, services: APIServiceRegistration) -> None:
    """Have an APIService for each version of a group that custom resources make."""

    def wanted() -> dict[str, Version]:
        served = {GroupVersion(*info.gvk[:2]) for info in (each.info for each in custom.listed())}
        versions = [Version(version, *priority_of(version)) for version in served if version.group not in GROUPS]
        return {version.name: version for version in versions}

    services.add(wanted)
    custom.on_change(services.note)


def _now() -> datetime:
    return datetime.now(UTC)
