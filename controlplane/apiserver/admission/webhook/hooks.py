"""Webhooks as their configurations describe them, compiled once. The plugins ask a :class:`Source` for those of a write.

Configurations count in the order of their names, the webhooks of one in its own order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from apimachinery.meta import name_of
from component import logs
from controlplane.apiserver.admission.interface import Attributes
from controlplane.apiserver.admission.matching import Match, Matched
from controlplane.apiserver.admission.policy.source import Held
from controlplane.apiserver.service_client import ClientConfig, HookError

if TYPE_CHECKING:
    from controlplane.apiserver.admission.policy.conditions import MatchConditions

Object = Mapping[str, Any]
_log = logs.get(__name__)
_SILENT = ("None", "NoneOnDryRun")
_REMEMBERED = 4096  # kinds of writes whose webhooks are known; a server with all its kinds has some hundreds


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One webhook. ``uid`` tells it from its namesakes in the same configuration; ``timeout`` is in seconds."""

    configuration: str
    name: str
    uid: str
    match: Match
    conditions: "MatchConditions | None"
    client: ClientConfig | HookError
    versions: tuple[str, ...]  # of AdmissionReview, the preferred one first
    timeout: float
    fails_open: bool
    dry_runs: bool  # whether it may be asked about a write that will not be made
    reinvoked: bool

    @classmethod
    def compile(cls, configuration: str, hook: Object, number: int) -> Self:
        """``number`` is how many of the same name came before in the configuration."""
        name, open_ = hook["name"], hook.get("failurePolicy") == "Ignore"
        return cls(
            configuration,
            name,
            f"{configuration}/{name}/{number}",
            _match(name, hook),
            _conditions(hook.get("matchConditions") or (), fail=not open_),
            _client(hook.get("clientConfig") or {}),
            tuple(hook.get("admissionReviewVersions") or ()),
            float(hook.get("timeoutSeconds") or 10),
            open_,
            hook.get("sideEffects") in _SILENT,
            hook.get("reinvocationPolicy") == "IfNeeded",
        )


def _match(name: str, hook: Object) -> Match:
    rules, policy = hook.get("rules"), hook.get("matchPolicy")
    try:
        return Match.compile(rules, None, hook.get("namespaceSelector"), hook.get("objectSelector"), policy)
    except ValueError as problem:  # stored by a server that did not check: better asked too often than never
        _log.error("A webhook has a selector that cannot be read and is asked about every object", webhook=name, err=problem)
        return Match.compile(rules, None, None, None, policy)


def _conditions(conditions: Sequence[Object], *, fail: bool) -> "MatchConditions | None":
    if not conditions:
        return None
    from controlplane.apiserver.admission.policy.conditions import MatchConditions  # the language is loaded when it is spoken
    from controlplane.apiserver.admission.policy.expressions import Compiler

    return MatchConditions(conditions, Compiler(), fail=fail)


def _client(config: Object) -> ClientConfig | HookError:
    try:
        return ClientConfig.parse(config)
    except HookError as problem:
        return problem


@dataclass(frozen=True, slots=True)
class Candidate:
    """A webhook whose rules are about a write; ``index`` is its place among all."""

    index: int
    hook: Hook
    matched: Matched


class Source:
    """All webhooks of one kind of configuration, as the watch cache has them at the moment of a write.

    Whether there are any is two numbers compared. What is compiled is kept until a configuration's webhooks change.
    """

    def __init__(self, configurations: Held) -> None:
        self._configurations, self._at = configurations, -1
        self._hooks: tuple[Hook, ...] = ()
        self._compiled: dict[str, tuple[Any, tuple[Hook, ...]]] = {}
        self._candidates: dict[Any, tuple[Candidate, ...]] = {}

    @property
    def any(self) -> bool:
        if (at := self._configurations.changed) != self._at:
            self._read()
            self._at = at
        return bool(self._hooks)

    def _read(self) -> None:
        compiled: dict[str, tuple[Any, tuple[Hook, ...]]] = {}
        for one in sorted((entry.decode() for entry in self._configurations.all_held()), key=name_of):
            name, hooks = name_of(one), one.get("webhooks") or ()
            known = self._compiled.get(name)
            compiled[name] = known if known is not None and known[0] == hooks else (hooks, _compile(name, hooks))
        self._compiled = compiled
        self._hooks = tuple(hook for _, hooks in compiled.values() for hook in hooks)
        self._candidates = {}

    def candidates(self, attributes: Attributes) -> Sequence[Candidate]:
        """By rules alone, whose answer is the same for all writes of one kind."""
        forms = tuple(attributes.forms()) if attributes.forms is not None else ()
        key = (attributes.operation, attributes.gvr, attributes.subresource, bool(attributes.namespace), attributes.kind, forms)
        known = self._candidates.get(key)
        if known is None:
            if len(self._candidates) >= _REMEMBERED:
                self._candidates.clear()
            matches = ((at, hook, hook.match.by_rules(attributes, forms)) for at, hook in enumerate(self._hooks))
            known = tuple(Candidate(at, hook, matched) for at, hook, matched in matches if matched is not None)
            self._candidates[key] = known
        return known


def _compile(configuration: str, hooks: Sequence[Object]) -> tuple[Hook, ...]:
    seen: dict[str, int] = {}
    made = []
    for hook in hooks:
        number = seen.get(hook["name"], 0)
        seen[hook["name"]] = number + 1
        made.append(Hook.compile(configuration, hook, number))
    return tuple(made)
