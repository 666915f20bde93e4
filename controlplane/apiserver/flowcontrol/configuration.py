"""FlowSchemas and PriorityLevelConfigurations as ``control`` uses them: parsed, checked, in the order of matching. Pure.

Objects that are missing or broken cannot shut anybody out: the mandatory ones are supplied here whatever is stored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from controlplane.apiserver.flowcontrol.queueset import EXEMPT, REJECT, Shape
from controlplane.apiserver.kinds.flowcontrol import bootstrap

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LevelSpec:
    """One priority level. ``shares`` of the server's seats, of which ``lendable`` percent may be lent out; ``borrowable``
    percent more may be borrowed, None for no limit."""

    name: str
    uid: str
    exempt: bool
    shares: int
    lendable: int
    borrowable: int | None
    shape: Shape


@dataclass(frozen=True, slots=True)
class Rule:
    """Who (``subjects``) asking for what."""

    subjects: tuple[tuple[str, ...], ...]  # ("User", name), ("Group", name) or ("ServiceAccount", namespace, name)
    resources: tuple[Object, ...]
    others: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """One FlowSchema. ``distinguisher`` is ByUser, ByNamespace, or empty when all its requests are one flow."""

    name: str
    uid: str
    precedence: int
    level: str
    distinguisher: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seats of a level: what it is meant to have, what it keeps when others borrow, what it may have when it borrows."""

    nominal: int
    lower: int
    upper: int


def level_from(obj: Object) -> LevelSpec | None:
    """None for an object that validation would not let pass."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    name, exempt = meta["name"], spec.get("type") == "Exempt"
    part = spec.get("exempt" if exempt else "limited")
    if part is None or exempt != (name == "exempt"):
        return None
    shape = Shape(EXEMPT)
    if not exempt:
        response = part.get("limitResponse") or {}
        queuing = response.get("queuing")
        if (response.get("type") == "Queue") != (queuing is not None):
            return None
        shape = Shape(queuing["queues"], queuing["handSize"], queuing["queueLengthLimit"]) if queuing else Shape(REJECT)
    shares, lendable = part.get("nominalConcurrencyShares"), part.get("lendablePercent")
    borrowable = None if exempt else part.get("borrowingLimitPercent")
    default = 0 if exempt else 30
    return LevelSpec(name, meta.get("uid", ""), exempt, default if shares is None else shares, lendable or 0, borrowable, shape)


def schema_from(obj: Object) -> SchemaSpec:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    return SchemaSpec(
        meta["name"],
        meta.get("uid", ""),
        spec.get("matchingPrecedence") or 1000,
        (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
        (spec.get("distinguisherMethod") or {}).get("type") or "",
        tuple(_rule(rule) for rule in spec.get("rules") or ()),
    )


def _rule(rule: Object) -> Rule:
    subjects: list[tuple[str, ...]] = []
    for one in rule.get("subjects") or ():
        kind = one.get("kind")
        held = one.get({"User": "user", "Group": "group", "ServiceAccount": "serviceAccount"}.get(kind or "", "")) or {}
        names = (held.get("namespace"), held.get("name")) if kind == "ServiceAccount" else (held.get("name"),)
        if all(names):
            subjects.append((kind, *names))
    return Rule(tuple(subjects), tuple(rule.get("resourceRules") or ()), tuple(rule.get("nonResourceRules") or ()))


def levels_from(objects: Iterable[Object]) -> dict[str, LevelSpec]:
    """By name; ``exempt`` and ``catch-all`` are always there."""
    found = {level.name: level for level in map(level_from, objects) if level is not None}
    for name, spec in bootstrap.MANDATORY_LEVELS.items():
        made = level_from({"metadata": {"name": name}, "spec": spec})
        if name not in found and made is not None:
            found[name] = made
    return found


def schemas_from(objects: Iterable[Object], levels: Mapping[str, LevelSpec]) -> list[SchemaSpec]:
    """In the order in which they are asked; those whose level does not exist are left out."""
    found = sorted(
        (schema for schema in map(schema_from, objects) if schema.level in levels),
        key=lambda schema: (schema.precedence, schema.name),
    )
    names = {schema.name for schema in found}
    supplied = {
        name: schema_from({"metadata": {"name": name}, "spec": spec})
        for name, spec in bootstrap.MANDATORY_SCHEMAS.items()
        if name not in names
    }
    first = [supplied["exempt"]] if "exempt" in supplied else []
    last = [supplied["catch-all"]] if "catch-all" in supplied else []
    return [*first, *found, *last]


def limits_of(levels: Mapping[str, LevelSpec], seats: int) -> dict[str, Limits]:
    """The server's ``seats`` divided by shares, rounded up."""
    shares = sum(level.shares for level in levels.values())
    made: dict[str, Limits] = {}
    for name, level in levels.items():
        nominal = ceil(seats * level.shares / shares) if shares else 0
        lendable = _rounded(nominal * level.lendable / 100)
        borrowable = seats if level.borrowable is None else _rounded(nominal * level.borrowable / 100)
        made[name] = Limits(nominal, nominal - lendable, nominal + borrowable)
    return made


def _rounded(value: float) -> int:
    """Half away from zero, as Go rounds."""
    return int(value + 0.5)
