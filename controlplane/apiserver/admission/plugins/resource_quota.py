"""ResourceQuota: a write that would take a namespace over one of its quotas is refused; what it costs is claimed before.

The claim is a guaranteed update of the quota's status: it starts over on the newest one whenever somebody else was faster, so
two writers can never both take what is left for one. A claim whose object is then not stored is given back by the
controller's next recount, as upstream's is.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from apimachinery import errors
from apimachinery.objects import quota, quota_pods
from apimachinery.objects.quota import Amounts
from apimachinery.quantity import ZERO
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Listing, Object, StatusWrite, refuse
from controlplane.apiserver.admission.limited_resources import Limited, uncovered

_ALSO_ON_UPDATE = frozenset({"services", "persistentvolumeclaims"})  # their cost can change


class ResourceQuota:
    name = "ResourceQuota"

    def __init__(self, listing: Listing, write_status: StatusWrite, limited: Sequence[Limited] = ()) -> None:
        self._listing, self._write_status, self._limited = listing, write_status, limited

    def handles(self, attributes: Attributes) -> bool:
        if not attributes.namespace or attributes.obj is None or attributes.resource == "namespaces":
            return False
        if attributes.subresource:
            return attributes.operation == UPDATE and (attributes.group_resource, attributes.subresource) == ("pods", "resize")
        if attributes.operation == UPDATE:
            return attributes.group_resource in _ALSO_ON_UPDATE
        return attributes.operation == CREATE

    async def mutate(self, attributes: Attributes) -> None:
        """Changes nothing."""

    async def validate(self, attributes: Attributes) -> None:
        quotas = await self._listing("resourcequotas", attributes.namespace)
        concerned = [each for each in quotas if _concerns(each, attributes)]
        if not concerned and not self._limited:
            return
        for each in concerned:
            _check_complete(each, attributes)
        cost = _cost(attributes)
        if self._limited and (why := uncovered(self._limited, attributes.group_resource, attributes.obj or {}, cost, concerned)):
            raise refuse(attributes, why)
        if not cost:
            return
        for each in concerned:
            charged(each, cost, attributes)
        if not attributes.dry_run:
            await self._claim(concerned, cost, attributes)

    async def _claim(self, concerned: list[Object], cost: Amounts, attributes: Attributes) -> None:
        taken: list[Object] = []
        for each in concerned:
            if not quota.concerning(attributes.group_resource, _hard(each)) & cost.keys():
                continue
            try:
                await self._write(each, cost, attributes)
            except errors.StatusError as problem:
                for other in taken:  # what one quota refuses must not stay on the account of another
                    await self._write(other, {name: -amount for name, amount in cost.items()}, attributes)
                if problem.code == 404:  # the quota has gone meanwhile: it bounds nothing any more
                    continue
                raise
            taken.append(each)

    async def _write(self, held: Object, cost: Amounts, attributes: Attributes) -> None:
        async def change(newest: Object) -> Object | None:
            if not _concerns(newest, attributes):
                return None
            used = charged(newest, cost, attributes)
            return {**newest, "status": {**newest["status"], "used": quota.written(used)}}

        await self._write_status("resourcequotas", attributes.namespace, held["metadata"]["name"], change)


def _hard(held: Object) -> dict[str, Any]:
    return (held.get("status") or {}).get("hard") or {}


def _concerns(held: Object, attributes: Attributes) -> bool:
    resource = attributes.group_resource
    assert attributes.obj is not None
    return bool(quota.concerning(resource, _hard(held))) and quota.matches(held, resource, attributes.obj)


def _check_complete(held: Object, attributes: Attributes) -> None:
    """Containers must name what is bounded, and the controller must have counted what there is."""
    assert attributes.obj is not None
    names = quota.concerning(attributes.group_resource, _hard(held))
    if attributes.group_resource == "pods" and (text := quota_pods.unsaid(names, attributes.obj)):
        raise refuse(attributes, f"failed quota: {held['metadata']['name']}: {text}")
    if not names <= ((held.get("status") or {}).get("used") or {}).keys():
        raise refuse(attributes, f"status unknown for quota: {held['metadata']['name']}, resources: {','.join(sorted(names))}")


def _cost(attributes: Attributes) -> Amounts:
    """What the write adds: the object's cost, or for a change the difference."""
    now = datetime.now(UTC)
    assert attributes.obj is not None
    cost = quota.usage(attributes.group_resource, attributes.obj, now)
    negative = sorted(name for name, amount in cost.items() if amount < ZERO)
    if negative:
        raise refuse(attributes, f"quota usage is negative for resource(s): {','.join(negative)}")
    if attributes.operation == UPDATE and attributes.old:
        cost = quota.subtract(cost, quota.usage(attributes.group_resource, attributes.old, now))
    return {name: amount for name, amount in cost.items() if amount}


def charged(held: Object, cost: Amounts, attributes: Attributes) -> Amounts:
    """The quota's usage with ``cost`` on top. Raises 403 when some of what is asked for more of would be over."""
    hard, used = quota.parsed(_hard(held)), quota.parsed(held["status"].get("used"))
    requested = {name: amount for name, amount in cost.items() if name in hard}
    total = quota.add(used, requested)
    over = [name for name, amount in requested.items() if amount > ZERO and total[name] > hard[name]]
    if over:
        parts = [{name: amounts.get(name, ZERO) for name in over} for amounts in (requested, used, hard)]
        asked, before, limit = (quota.shown(part) for part in parts)
        name = held["metadata"]["name"]
        raise refuse(attributes, f"exceeded quota: {name}, requested: {asked}, used: {before}, limited: {limit}")
    return total
