"""PriorityLevelConfigurations: how many requests of one kind of work may be under way, and how many may wait.

``controlplane.apiserver.flowcontrol`` carries them out.
"""

from collections.abc import Mapping
from datetime import datetime
from math import ceil, log2
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.flowcontrol import bootstrap
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_TYPES = ("Exempt", "Limited")
_RESPONSES = ("Queue", "Reject")
_QUEUES_MAX = 10_000_000
_BITS_MAX = 60  # of entropy that shuffle sharding draws from a flow's hash


class PriorityLevelConfigurationStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind(bootstrap.GROUP, "v1", "PriorityLevelConfiguration"),
        "prioritylevelconfigurations",
        "prioritylevelconfiguration",
        False,
    )
    columns = (
        NAME,
        Column("Type", description="Whether the level is bounded."),
        Column("NominalConcurrencyShares", description="The level's share of the server."),
        Column("Queues", description="How many queues the level has."),
        Column("HandSize", description="How many queues a flow may be put into."),
        Column("QueueLengthLimit", description="How many requests may wait in one queue."),
        AGE,
    )
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        exempt, limited = spec.get("exempt"), spec.get("limited")
        if exempt is not None:
            _fill(exempt, {"nominalConcurrencyShares": 0, "lendablePercent": 0})
        if limited is not None:
            _fill(limited, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
            queuing = limited.setdefault("limitResponse", {}).get("queuing")
            if queuing is not None:
                for field, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                    queuing[field] = queuing.get(field) or value

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        kind = spec.get("type") or ""
        found: list[FieldError] = []
        if (name == "exempt") != (kind == "Exempt"):
            found.append(fieldpath.invalid("spec.type", kind, "type must be 'Exempt' if and only if name is 'exempt'"))
        found += _check_form(spec, kind)
        if name in bootstrap.MANDATORY_LEVELS and _rest(spec) != _rest(bootstrap.MANDATORY_LEVELS[name]):
            part = " except the 'spec.exempt' field" if name == "exempt" else ""
            found.append(fieldpath.invalid("spec", spec, f"spec of '{name}'{part} must equal the fixed value"))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        limited = spec.get("limited") or {}
        queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
        return [
            obj["metadata"]["name"],
            spec.get("type") or "",
            limited.get("nominalConcurrencyShares", NONE),
            *(queuing.get(field, NONE) for field in ("queues", "handSize", "queueLengthLimit")),
            age_of(obj, now),
        ]


def _fill(part: Object, values: Mapping[str, int]) -> None:
    for field, value in values.items():
        if part.get(field) is None:
            part[field] = value


def _rest(spec: Mapping[str, Any]) -> Object:
    return {field: value for field, value in spec.items() if field != "exempt"}


def _check_form(spec: Mapping[str, Any], kind: str) -> list[FieldError]:
    limited, exempt = spec.get("limited"), spec.get("exempt")
    if kind == "Exempt":
        found = [] if limited is None else [fieldpath.forbidden("spec.limited", "must be nil if the type is not Limited")]
        return found + (_check_shares(exempt, "spec.exempt") if exempt is not None else [])
    if kind == "Limited":
        found = [] if exempt is None else [fieldpath.forbidden("spec.exempt", "must be nil if the type is Limited")]
        if limited is None:
            return [*found, fieldpath.required("spec.limited", "must not be empty when type is Limited")]
        return found + _check_limited(limited, "spec.limited")
    return [fieldpath.not_supported("spec.type", kind, _TYPES)]


def _check_shares(part: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    shares, lendable = part.get("nominalConcurrencyShares"), part.get("lendablePercent")
    if shares is not None and shares < 0:
        found.append(fieldpath.invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))
    if lendable is not None and not 0 <= lendable <= 100:
        text = "must be between 0 and 100, inclusive"
        found.append(fieldpath.invalid(f"{path}.lendablePercent", lendable, text))
    return found


def _check_limited(limited: Mapping[str, Any], path: str) -> list[FieldError]:
    found = _check_shares(limited, path)
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        found.append(
            fieldpath.invalid(f"{path}.borrowingLimitPercent", borrowing, "if specified, must be a non-negative integer")
        )
    response = limited.get("limitResponse") or {}
    kind, queuing, where = response.get("type") or "", response.get("queuing"), f"{path}.limitResponse"
    if kind == "Reject":
        if queuing is not None:
            found.append(fieldpath.forbidden(f"{where}.queuing", "must be nil if limited.limitResponse.type is not Limited"))
    elif kind == "Queue":
        if queuing is None:
            text = "must not be empty if limited.limitResponse.type is Limited"
            return [*found, fieldpath.required(f"{where}.queuing", text)]
        found += _check_queuing(queuing, f"{where}.queuing")
    else:
        found += checks.one_of(kind, _RESPONSES, f"{where}.type")
    return found


def _check_queuing(queuing: Mapping[str, Any], path: str) -> list[FieldError]:
    queues, hand = queuing.get("queues") or 0, queuing.get("handSize") or 0
    found: list[FieldError] = []
    for field in ("queueLengthLimit", "queues", "handSize"):
        value = queuing.get(field) or 0
        if value <= 0:
            found.append(fieldpath.invalid(f"{path}.{field}", value, "must be positive"))
    if queues > _QUEUES_MAX:
        text = f"must not be greater than {_QUEUES_MAX}"
        found.append(fieldpath.invalid(f"{path}.queues", queues, text))
    elif 0 < queues < hand:
        text = f"should not be greater than queues ({queues})"
        found.append(fieldpath.invalid(f"{path}.handSize", hand, text))
    elif queues > 0 and hand > 0 and entropy_bits(queues, hand) > _BITS_MAX:
        text = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_BITS_MAX}"
        found.append(fieldpath.invalid(f"{path}.handSize", hand, text))
    return found


def entropy_bits(deck: int, hand: int) -> int:
    """How many random bits choosing ``hand`` of ``deck`` queues, in order, takes; big hands take too many anyway."""
    bits = sum(log2(deck - card) for card in range(min(hand, 64, deck)))
    return ceil(bits)
