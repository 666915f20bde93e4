"""What may only be used where a quota covers it: the configuration of the ResourceQuota plugin. Pure.

A ResourceQuotaConfiguration lists resources whose use is limited by default: names that contain a word, or objects within a
scope, such as pods of a priority class.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.objects import quota
from component.errors import OperatorError

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limited:
    resource: str  # with its group, as quotas name it
    contains: tuple[str, ...] = ()
    scopes: tuple[Mapping[str, Any], ...] = ()


def limited_from(config: Mapping[str, Any]) -> tuple[Limited, ...]:
    """A ResourceQuotaConfiguration. Raises OperatorError for what it cannot mean."""
    if config and config.get("kind") not in (None, "ResourceQuotaConfiguration", "Configuration"):
        raise OperatorError(f"ResourceQuota: kind must be ResourceQuotaConfiguration, not {config['kind']}")
    found = []
    for number, each in enumerate(config.get("limitedResources") or ()):
        where = f"ResourceQuotaConfiguration: limitedResources[{number}]"
        if not each.get("resource"):
            raise OperatorError(f"{where}.resource: Required value")
        scopes = tuple(each.get("matchScopes") or ())
        for scope in scopes:
            if not scope.get("scopeName") or scope.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist"):
                raise OperatorError(f"{where}.matchScopes: every scope needs a scopeName and an operator")
        group = each.get("apiGroup") or ""
        resource = f"{each['resource']}.{group}" if group else str(each["resource"])
        found.append(Limited(resource, tuple(map(str, each.get("matchContains") or ())), scopes))
    return tuple(found)


def uncovered(limited: Sequence[Limited], resource: str, obj: Object, cost: Collection[str], quotas: Sequence[Object]) -> str:
    """Why an object must not be, in upstream's words; empty when the ``quotas`` that concern it cover all that is limited."""
    mine = [each for each in limited if each.resource == resource]
    if not mine:
        return ""
    names = {name for name in cost for each in mine for part in each.contains if part in name}
    hard = {name for held in quotas for name in (held.get("status") or {}).get("hard") or {}}
    if missing := sorted(names - quota.concerning(resource, hard)):
        return f"insufficient quota to consume: {','.join(missing)}"
    wanted = [scope for each in mine for scope in each.scopes if quota.within(scope, resource, obj)]
    covered = [_shape(scope) for held in quotas for scope in quota.selectors(held)]
    if open_scopes := [scope for scope in wanted if _shape(scope) not in covered]:
        return f"insufficient quota to match these scopes: [{' '.join(map(_shown, open_scopes))}]"
    return ""


def _shape(scope: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    return str(scope.get("scopeName")), str(scope.get("operator")), tuple(scope.get("values") or ())


def _shown(scope: Mapping[str, Any]) -> str:
    """As Go prints the struct."""
    name, operator, values = _shape(scope)
    return f"{{{name} {operator} [{' '.join(values)}]}}"
