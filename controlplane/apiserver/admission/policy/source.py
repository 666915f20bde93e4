"""Policies with their bindings, compiled, as the watch caches have them at the moment of a write.

The caches are looked at with every write: where two numbers are still the same, nothing has to be read again. So a policy is in
force as soon as the write that made it is acknowledged. What is compiled is kept until the policy's uid or generation changes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from apimachinery.gvk import GroupVersion, GroupVersionKind
from controlplane.apiserver.admission.interface import Attributes
from controlplane.apiserver.admission.matching import Match, Matched

Object = dict[str, Any]
E = TypeVar("E")
_REMEMBERED = 4096  # kinds of writes whose policies are known; a server with all its kinds has some hundreds


class Entry(Protocol):
    def decode(self) -> Object: ...


class Held(Protocol):
    """A watch cache. ``changed`` is another number whenever something has changed."""

    @property
    def changed(self) -> int: ...

    def all_held(self) -> Iterable[Entry]: ...


@dataclass(frozen=True, slots=True)
class Binding:
    name: str
    spec: Object
    match: Match


@dataclass(frozen=True, slots=True)
class Hook(Generic[E]):
    """``evaluator`` is what became of the policy's expressions."""

    name: str
    spec: Object
    match: Match
    param_kind: GroupVersionKind | None
    evaluator: E
    bindings: tuple[Binding, ...]

    @property
    def fails(self) -> bool:
        """Whether what cannot be judged is refused."""
        return self.spec.get("failurePolicy") != "Ignore"


@dataclass(frozen=True, slots=True)
class Candidate(Generic[E]):
    """A policy whose rules are about a write."""

    hook: Hook[E]
    matched: Matched


class Source(Generic[E]):
    def __init__(self, policies: Held, bindings: Held, compile_policy: Callable[[Object], E]) -> None:
        self._policies, self._bindings, self._compile = policies, bindings, compile_policy
        self._at = (-1, -1)
        self._hooks: tuple[Hook[E], ...] = ()
        self._compiled: dict[tuple[str, int], E] = {}
        self._known: dict[Any, tuple[tuple[Hook[E], Matched | None], ...]] = {}

    def candidates(self, attributes: Attributes) -> Sequence[Candidate[E]]:
        """By rules alone, of which the answer is the same for all writes of one kind, but for rules that name objects."""
        hooks = self.hooks()
        if not hooks:
            return ()
        forms = tuple(attributes.forms()) if attributes.forms is not None else ()
        key = (attributes.operation, attributes.gvr, attributes.subresource, bool(attributes.namespace), attributes.kind, forms)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            asked = ((hook, None if hook.match.by_name else hook.match.by_rules(attributes, forms)) for hook in hooks)
            known = tuple((hook, found) for hook, found in asked if found is not None or hook.match.by_name)
            self._known[key] = known
        pairs = ((hook, found or hook.match.by_rules(attributes, forms)) for hook, found in known)
        return [Candidate(hook, found) for hook, found in pairs if found is not None]

    def hooks(self) -> Sequence[Hook[E]]:
        """Policies that are bound."""
        at = (self._policies.changed, self._bindings.changed)
        if at != self._at:
            self._read()
            self._at, self._known = at, {}
        return self._hooks

    def _read(self) -> None:
        bound: dict[str, list[Object]] = {}
        for entry in self._bindings.all_held():
            binding = entry.decode()
            bound.setdefault(binding["spec"]["policyName"], []).append(binding)
        policies = [policy for entry in self._policies.all_held() if (policy := entry.decode())["metadata"]["name"] in bound]
        known, self._compiled = self._compiled, {}
        self._hooks = tuple(self._hook(policy, bound[policy["metadata"]["name"]], known) for policy in policies)

    def _hook(self, policy: Object, bindings: list[Object], known: dict[tuple[str, int], E]) -> Hook[E]:
        meta, spec = policy["metadata"], policy["spec"]
        version = (meta["uid"], meta.get("generation") or 0)
        evaluator = known[version] if version in known else self._compile(policy)
        self._compiled[version] = evaluator
        made = tuple(
            Binding(each["metadata"]["name"], each["spec"], Match.resources(each["spec"].get("matchResources")))
            for each in bindings
        )
        return Hook(meta["name"], spec, Match.resources(spec.get("matchConstraints")), _kind(spec), evaluator, made)


def _kind(spec: Object) -> GroupVersionKind | None:
    kind = spec.get("paramKind")
    if not kind:
        return None
    group, _, version = kind["apiVersion"].rpartition("/")
    return GroupVersionKind(*GroupVersion(group, version), kind["kind"])
