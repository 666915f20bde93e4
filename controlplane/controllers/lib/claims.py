"""Who owns what: the pure rule by which an owner adopts and releases the objects its selector matches.

Called by controllers over what their caches show; :class:`Claimer` performs the outcome. A claim never steals from
another controller, and an owner that is being deleted neither adopts nor releases.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from apimachinery.errors import StatusError, is_another
from apimachinery.gvk import GroupVersionResource
from apimachinery.labels import Selector
from apimachinery.meta import Object, controller_of, is_deleting, labels_of, name_of, namespace_of, owner_reference, uid_of
from client.rest import STRATEGIC, Client


class Claim(Enum):
    KEEP = "keep"
    ADOPT = "adopt"
    RELEASE = "release"
    IGNORE = "ignore"


def decide(owner: Mapping[str, Any], selector: Selector, obj: Mapping[str, Any]) -> Claim:
    """What ``owner`` does about ``obj`` of its own namespace."""
    reference = controller_of(obj)
    matches = selector.matches(labels_of(obj))
    if reference is not None:
        if reference.get("uid") != uid_of(owner):
            return Claim.IGNORE
        if matches:
            return Claim.KEEP
        return Claim.IGNORE if is_deleting(owner) else Claim.RELEASE
    if not matches or is_deleting(owner) or is_deleting(obj):
        return Claim.IGNORE
    return Claim.ADOPT


class Claimer:
    """Carries out claims for owners of one kind over objects of one resource.

    A ``finalizer`` comes with adoption and goes with release.
    """

    def __init__(
        self,
        client: Client,
        owners: GroupVersionResource,
        owner_kind: str,
        claimed: GroupVersionResource,
        finalizer: str | None = None,
    ) -> None:
        self._client = client
        self._owners = owners
        self._kind = owner_kind
        self._claimed = claimed
        self._adopted = {} if finalizer is None else {"finalizers": [finalizer]}
        self._released = {} if finalizer is None else {"$deleteFromPrimitiveList/finalizers": [finalizer]}

    async def claim(
        self,
        owner: Object,
        selector: Selector,
        candidates: Iterable[Object],
        adoptable: Callable[[Object], bool] = lambda obj: True,
    ) -> list[Object]:
        """The objects that are the owner's now, after adopting and releasing."""
        mine: list[Object] = []
        fresh: bool | None = None
        for obj in candidates:
            outcome = decide(owner, selector, obj)
            if outcome is Claim.KEEP:
                mine.append(obj)
            elif outcome is Claim.RELEASE:
                await self._release(owner, obj)
            elif outcome is Claim.ADOPT and adoptable(obj):
                if fresh is None:
                    fresh = await self._still_lives(owner)
                if fresh and await self._adopt(owner, obj):
                    mine.append(obj)
        return mine

    async def _still_lives(self, owner: Object) -> bool:
        """Asked of the server once before the first adoption: a cache may lag behind the owner's deletion."""
        try:
            live = await self._client.get(self._owners, name_of(owner), namespace_of(owner))
        except StatusError as error:
            if error.code == 404:
                return False
            raise
        return uid_of(live) == uid_of(owner) and not is_deleting(live)

    async def _adopt(self, owner: Object, obj: Object) -> bool:
        reference = owner_reference(owner, self._owners.api_version, self._kind)
        return await self._patch(obj, {"metadata": {"ownerReferences": [reference], "uid": uid_of(obj), **self._adopted}})

    async def _release(self, owner: Object, obj: Object) -> None:
        removal = {"$patch": "delete", "uid": uid_of(owner)}
        await self._patch(obj, {"metadata": {"ownerReferences": [removal], "uid": uid_of(obj), **self._released}})

    async def _patch(self, obj: Object, body: dict[str, Any]) -> bool:
        """The uid in the body makes the server refuse when the name now means another object."""
        try:
            await self._client.patch(self._claimed, name_of(obj), body, kind=STRATEGIC, namespace=namespace_of(obj))
        except StatusError as error:
            if error.code in (404, 422) or is_another(error):
                return False
            raise
        return True
