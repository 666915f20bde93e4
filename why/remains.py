"""What a namespace that is being deleted still holds, as its own condition names it. For ``reading`` and the explainer."""

import re

from apimachinery.meta import Object, get_condition

CONDITION = "NamespaceContentRemaining"
_NAMED = re.compile(r"([a-z0-9.-]+?)\.? has \d+ resource instances")


def resources(namespace: Object) -> list[str]:
    """``configmaps``, ``widgets.example.com``: the collections that are not empty, in upstream's wording of the condition."""
    condition = get_condition(namespace, CONDITION)
    if condition is None or condition.get("status") != "True":
        return []
    return list(dict.fromkeys(_NAMED.findall(str(condition.get("message") or ""))))
