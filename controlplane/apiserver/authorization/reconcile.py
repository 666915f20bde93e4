"""Brings the default roles and bindings back to what they must at least be. Pure; ``poststart`` asks at every start.

As upstream's: what is missing is added, what somebody added stays, and ``autoupdate: "false"`` keeps an object as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Object = dict[str, Any]
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def is_protected(stored: Object) -> bool:
    return (stored["metadata"].get("annotations") or {}).get(AUTOUPDATE) == "false"


def reconciled_role(stored: Object, wanted: Object) -> Object | None:
    """The stored role with what it lacks; None when it lacks nothing or wants to be left alone."""
    if is_protected(stored):
        return None
    changed = _with_metadata(stored, wanted)
    if wanted.get("aggregationRule"):
        held = (stored.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        missing = [one for one in wanted["aggregationRule"]["clusterRoleSelectors"] if one not in held]
        if missing:
            changed["aggregationRule"] = {"clusterRoleSelectors": held + missing}
    else:
        rules = stored.get("rules") or []
        lacking = [rule for rule in wanted.get("rules") or [] if not all(_covered(atom, rules) for atom in _atoms(rule))]
        if lacking:
            changed["rules"] = rules + lacking
    return changed if changed != stored else None


def reconciled_binding(stored: Object, wanted: Object) -> Object | None:
    """The stored binding with the subjects it lacks. Another ``roleRef`` is somebody's wish and stays."""
    if is_protected(stored) or stored.get("roleRef") != wanted.get("roleRef"):
        return None
    changed = _with_metadata(stored, wanted)
    held = stored.get("subjects") or []
    missing = [one for one in wanted.get("subjects") or [] if one not in held]
    if missing:
        changed["subjects"] = held + missing
    return changed if changed != stored else None


def _with_metadata(stored: Object, wanted: Object) -> Object:
    """Labels and annotations that are missing; values that differ are left."""
    metadata = dict(stored["metadata"])
    for part in ("labels", "annotations"):
        merged = {**(wanted["metadata"].get(part) or {}), **(metadata.get(part) or {})}
        if merged != (metadata.get(part) or {}):
            metadata[part] = merged
    return {**stored, "metadata": metadata}


_PARTS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
Atom = tuple[str, str, str, str, str]


def _atoms(rule: Mapping[str, Any]) -> Iterator[Atom]:
    """One permission each, with empty text for what a rule does not speak of."""
    for verb in rule.get("verbs") or ():
        for url in rule.get("nonResourceURLs") or ():
            yield verb, "", "", "", url
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for name in rule.get("resourceNames") or ("",):
                    yield verb, group, resource, name, ""


def _covered(atom: Atom, rules: list[Object]) -> bool:
    return any(_covers(rule, atom) for rule in rules)


def _covers(rule: Mapping[str, Any], atom: Atom) -> bool:
    verb, group, resource, name, url = atom
    verbs, groups, resources, names, urls = (rule.get(part) or [] for part in _PARTS)
    if verb not in verbs and "*" not in verbs:
        return False
    if url:
        return url in urls or any(each.endswith("*") and url.startswith(each[:-1]) for each in urls)
    if group not in groups and "*" not in groups:
        return False
    _, slash, subresource = resource.partition("/")
    if not {resource, "*", *([f"*/{subresource}"] if slash else [])}.intersection(resources):
        return False
    return not names or name in names
