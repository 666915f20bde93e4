"""What DynamicResources may know and do: claims, classes and devices as the scheduler sees them, its own promises included.

``controlplane.scheduler.claims`` fulfils it over informers and the API; tests and benches use :class:`NoDevices`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Protocol

from apimachinery.meta import Object
from controlplane.scheduler.devices.pools import Catalogue
from controlplane.scheduler.devices.taken import Taken

Action = Callable[[], Awaitable[object]]


class Devices(Protocol):
    """Reads are instant and from caches. What is promised counts as given away until it is written, seen or withdrawn."""

    def claim(self, namespace: str, name: str) -> Object | None: ...

    def extended_claim(self, pod_uid: str) -> Object | None:
        """The claim that was made for a pod's extended resources, in an earlier attempt to schedule it."""
        ...

    def classes(self) -> Mapping[str, Object]: ...

    def class_of(self, resource: str) -> str:
        """The DeviceClass that stands for an extended resource; empty if none does."""
        ...

    def catalogue(self) -> Catalogue: ...

    def taken(self) -> Taken: ...

    def is_promised(self, claim: Object) -> bool:
        """Whether an allocation of it is on its way to the server."""
        ...

    def promise(self, claim: Object) -> None:
        """``claim`` is about to be written, with an allocation. One without a resourceVersion is yet to be made."""
        ...

    def withdraw(self, claim: Object) -> bool:
        """The promise will not be kept. False if there was none."""
        ...

    def kept(self, promised: Object, written: Object) -> None:
        """The promise has been kept: this is what the server answered."""
        ...

    async def get(self, claim: Object) -> Object: ...

    async def create(self, claim: Object) -> Object: ...

    async def update(self, claim: Object) -> Object:
        """Raises StatusError, with a 409 when somebody changed it meanwhile."""
        ...

    async def update_status(self, claim: Object) -> Object: ...

    async def unreserve(self, claim: Object, pod: Object) -> None: ...

    async def delete(self, claim: Object) -> None:
        """With its finalizer, if it has one."""
        ...

    async def note_extended(self, pod: Object, claim: str, mappings: Collection[Mapping[str, str]]) -> None:
        """Tell the pod which claim its extended resources come from."""
        ...

    def later(self, action: Action) -> None:
        """Clean up behind the scheduling loop; what fails is tried again when the pod is scheduled again."""
        ...

    def event(self, pod: Object, reason: str, message: str) -> None: ...

    async def change(self, keys: Iterable[str], seconds: float) -> None:
        """Wait for the next change of one of these claims (``namespace/name``), at most so long."""
        ...


class NoDevices:
    """A cluster without any devices."""

    def claim(self, namespace: str, name: str) -> Object | None:
        return None

    def extended_claim(self, pod_uid: str) -> Object | None:
        return None

    def classes(self) -> Mapping[str, Object]:
        return {}

    def class_of(self, resource: str) -> str:
        return ""

    def catalogue(self) -> Catalogue:
        return Catalogue()

    def taken(self) -> Taken:
        return Taken()

    def is_promised(self, claim: Object) -> bool:
        return False

    def promise(self, claim: Object) -> None: ...

    def withdraw(self, claim: Object) -> bool:
        return False

    def kept(self, promised: Object, written: Object) -> None: ...

    async def get(self, claim: Object) -> Object:
        return claim

    async def create(self, claim: Object) -> Object:
        return claim

    async def update(self, claim: Object) -> Object:
        return claim

    async def update_status(self, claim: Object) -> Object:
        return claim

    async def unreserve(self, claim: Object, pod: Object) -> None: ...

    async def delete(self, claim: Object) -> None: ...

    async def note_extended(self, pod: Object, claim: str, mappings: Collection[Mapping[str, str]]) -> None: ...

    def later(self, action: Action) -> None: ...

    def event(self, pod: Object, reason: str, message: str) -> None: ...

    async def change(self, keys: Iterable[str], seconds: float) -> None: ...
