"""clusterrole_aggregation: a ClusterRole with an ``aggregationRule`` holds the rules of all roles that its selectors choose.

Rules are kept in the order of role names, each once, as upstream's controller has them; what people write into ``rules`` is
replaced.
"""

from collections.abc import Iterable
from typing import Any

from apimachinery import labels
from apimachinery.meta import Object, key_of, name_of
from apimachinery.resources import CLUSTER_ROLES
from client.rest import APPLY
from controlplane.controllers.controller import Environment, Loop

_AGGREGATED = "aggregated"
Rules = list[dict[str, Any]]


def aggregated_rules(role: Object, roles: Iterable[Object]) -> Rules:
    """The rules of the chosen roles, in the order of names, the role's own not among them."""
    rules: Rules = []
    held = sorted(roles, key=name_of)
    for given in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        selector = labels.from_label_selector(given)
        for other in held:
            if name_of(other) == name_of(role) or not selector.matches(other["metadata"].get("labels") or {}):
                continue
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules


class ClusterRoleAggregationController:
    """One loop over roles that aggregate; a change of any role wakes all of those, which are few."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client = env.client
        self._roles = env.watch(CLUSTER_ROLES)
        self._roles.add_index(_AGGREGATED, lambda role: ["yes"] if role.get("aggregationRule") else [])
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._roles.add_handler(on_add=self._changed, on_update=lambda old, new: self._changed(new), on_delete=self._changed)

    def _changed(self, changed: Object) -> None:
        for role in self._roles.lister.by_index(_AGGREGATED, "yes"):
            self._loop.add(key_of(role))

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        role = self._roles.lister.get_key(key)
        if role is None or not role.get("aggregationRule"):
            return None
        rules = aggregated_rules(role, self._roles.lister.list())
        if rules == (role.get("rules") or []):
            return None
        body = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole", "metadata": {"name": key}, "rules": rules}
        await self._client.patch(CLUSTER_ROLES, key, body, APPLY, field_manager=self.name, force=True)
        return None
