"""ControllerRevisions: the template history of DaemonSets and StatefulSets, as ``kubectl rollout history`` reads it.

The rules are pure functions; :class:`History` performs them for owners of one kind.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import orjson

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.labels import from_label_selector
from apimachinery.meta import Object, clone, is_controlled_by, name_of, namespace_of, owner_reference, uid_of
from apimachinery.resources import CONTROLLER_REVISIONS
from client.lister import Lister
from client.rest import Client
from controlplane.controllers.controller import BY_CONTROLLER, orphans_of
from controlplane.controllers.lib.claims import Claimer
from controlplane.controllers.lib.hashing import template_hash

REVISION_LABEL = "controller-revision-hash"
"""On pods: which revision they were made from."""


def snapshot(template: Mapping[str, Any]) -> Object:
    """A patch that brings the owner's template back to this one.

    Keys are in order, as Go writes maps: there are clients that compare the bytes.
    """
    patch: Object = {"spec": {"template": {**template, "$patch": "replace"}}}
    return cast("Object", orjson.loads(orjson.dumps(patch, option=orjson.OPT_SORT_KEYS)))


def template_of(revision: Mapping[str, Any]) -> Object:
    """The pod template a revision holds."""
    template = clone(revision["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


def number_of(revision: Mapping[str, Any]) -> int:
    return int(revision.get("revision") or 0)


def in_order(revisions: Iterable[Object]) -> list[Object]:
    """Oldest first."""
    return sorted(revisions, key=lambda each: (number_of(each), each["metadata"].get("creationTimestamp") or "", name_of(each)))


def surplus(revisions: Sequence[Object], live: Iterable[str], limit: int) -> list[Object]:
    """Revisions that nothing uses, beyond the limit, oldest first. ``live`` are names in use."""
    used = set(live)
    unused = [each for each in in_order(revisions) if name_of(each) not in used]
    return unused[: max(0, len(unused) - limit)]


class History:
    """Finds, makes, numbers and drops revisions."""

    def __init__(self, client: Client, cache: Lister, owners: GroupVersionResource, kind: str) -> None:
        self._client, self._cache, self._owners, self._kind = client, cache, owners, kind
        self._claimer = Claimer(client, owners, kind, CONTROLLER_REVISIONS)

    async def revisions(self, owner: Object) -> list[Object]:
        """The owner's, orphans adopted, oldest first."""
        mine = self._cache.by_index(BY_CONTROLLER, uid_of(owner))
        orphans = self._cache.by_index(BY_CONTROLLER, orphans_of(namespace_of(owner)))
        selector = from_label_selector(owner["spec"]["selector"])
        return in_order(await self._claimer.claim(owner, selector, [*mine, *orphans]))

    async def current(self, owner: Object, held: Sequence[Object]) -> tuple[Object, list[Object]]:
        """(the revision of the owner's present template, all revisions). A template that comes back gets the highest number.

        Raises StatusError when the name is taken by something else; the caller counts a collision.
        """
        data = snapshot(owner["spec"]["template"])
        equal = [each for each in held if each.get("data") == data]
        highest = max((number_of(each) for each in held), default=0)
        if not equal:
            made = await self._create(owner, data, highest + 1)
            return made, [*held, made]
        found = equal[-1]
        if number_of(found) < highest:
            changed = clone(found)
            changed["revision"] = highest + 1
            written = await self._client.update(CONTROLLER_REVISIONS, changed)
            return written, [written if uid_of(each) == uid_of(written) else each for each in held]
        return found, list(held)

    async def _create(self, owner: Object, data: Object, number: int) -> Object:
        template = owner["spec"]["template"]
        digest = template_hash(template, (owner.get("status") or {}).get("collisionCount"))
        labels = {**((template.get("metadata") or {}).get("labels") or {}), REVISION_LABEL: digest}
        made = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{name_of(owner)}-{digest}",
                "namespace": namespace_of(owner),
                "labels": labels,
                "ownerReferences": [owner_reference(owner, self._owners.api_version, self._kind)],
            },
            "data": data,
            "revision": number,
        }
        try:
            return await self._client.create(CONTROLLER_REVISIONS, made)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            existing = await self._client.get(CONTROLLER_REVISIONS, name_of(made), namespace_of(owner))
            if is_controlled_by(existing, owner) and existing.get("data") == data:
                return existing  # the cache lagged
            raise

    async def drop(self, revisions: Iterable[Object]) -> None:
        for each in revisions:
            try:
                await self._client.delete(CONTROLLER_REVISIONS, name_of(each), namespace_of(each))
            except StatusError as error:
                if error.code != 404:
                    raise
