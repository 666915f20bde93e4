"""What all mutating policies make of one write: each changes what those before it have made, and one that cannot refuses it.

Called by the plugin (``mutating``), which imports this with the first policy: expressions cost a server 20 MB. Upstream:
``plugin/policy/mutating/dispatcher.go`` and ``generic/policy_dispatcher.go``, whose order and texts these are.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from apimachinery import errors
from controlplane.apiserver.admission.interface import Attributes, Form, Object, refuse
from controlplane.apiserver.admission.managed_fields import keep_managers
from controlplane.apiserver.admission.policy.changes import ChangeError
from controlplane.apiserver.admission.policy.mutation_metrics import MutationMetrics
from controlplane.apiserver.admission.policy.mutator import Mutator
from controlplane.apiserver.admission.policy.selection import ConfigurationError, Invocation, Review, each_of
from controlplane.apiserver.admission.policy.source import Candidate, Hook
from controlplane.apiserver.admission.reinvocation import Memory

NAME = "MutatingAdmissionPolicy"
_INVALID = "Invalid"


@dataclass(frozen=True, slots=True)
class _Problem:
    message: str
    reason: str = ""


@dataclass(slots=True)
class _Revision:
    review: Review
    metrics: MutationMetrics
    problems: list[_Problem] = field(default_factory=list)

    def failed(self, hook: Hook[Mutator], binding: str, text: str, reason: str = "") -> None:
        if hook.fails:
            who = f"policy '{hook.name}' with binding '{binding}'" if binding else f'policy "{hook.name}"'
            self.problems.append(_Problem(f"{who} denied request: {text}", reason))

    async def revise(self, found: Invocation[Mutator], memory: Memory) -> None:
        """One policy with one binding and parameter. Raises StatusError for what no failure policy is asked about."""
        attributes, hook = self.review.attributes, found.hook
        if hook.evaluator.conditions:
            match = await hook.evaluator.match(await self.review.values(found), self.review.answers)
            if match.error:
                self.failed(hook, found.binding.name, match.error, _INVALID)
            if not match.matches:
                return
        key = _key(found)
        if attributes.reinvocation.under_way and key not in memory.due:
            return
        changed = False
        for index in range(len(hook.evaluator)):
            changed |= await self._mutate(index, found)
        if changed:
            memory.changed()
            attributes.reinvocation.wanted = True
        if hook.spec.get("reinvocationPolicy") == "IfNeeded":
            memory.asked.add(key)

    async def _mutate(self, index: int, found: Invocation[Mutator]) -> bool:
        """Whether one mutation has changed anything."""
        shown, _ = await self.review.objects(found.matched)
        if shown is None:
            return False
        form = found.matched.form or _own(self.review.attributes)
        schema = form.schema() if form is not None else None
        if form is None or schema is None:
            raise _unknown(found)
        begun = time.perf_counter()
        try:
            values = await self.review.values(found)
            made = await found.hook.evaluator.change(index, shown, values, self.review.answers, schema)
        except ChangeError as problem:
            self.metrics.observe(found.hook.name, found.binding.name, str(problem), time.perf_counter() - begun)
            self.failed(found.hook, found.binding.name, str(problem), _INVALID)
            return False
        self.metrics.observe(found.hook.name, found.binding.name, "", time.perf_counter() - begun)
        return made != shown and await self._take(made, shown, form, found)

    async def _take(self, made: Object, shown: Object, form: Form, found: Invocation[Mutator]) -> bool:
        attributes = self.review.attributes
        made = {**made, "apiVersion": found.matched.kind.api_version, "kind": found.matched.kind.kind}
        try:
            form.settle(made)
        except ValueError as problem:
            raise errors.internal(str(problem)) from None
        keep_managers(made, shown, attributes.warnings)
        if made == shown:
            return False
        own = made if found.matched.form is None else await found.matched.form.revert(made)
        assert attributes.obj is not None
        attributes.obj.clear()
        attributes.obj.update(own)
        self.review.changed()
        return True


async def revise(review: Review, candidates: Sequence[Candidate[Mutator]], metrics: MutationMetrics) -> None:
    """Raises the StatusError of the first policy that cannot do its work, after all have been tried."""
    revision = _Revision(review, metrics)
    met: list[Invocation[Mutator]] = []
    for candidate in candidates:
        async for found in each_of(review, candidate):
            if isinstance(found, ConfigurationError):
                revision.failed(candidate.hook, found.binding, str(found))
            else:
                met.append(found)
    if met:
        memory = Memory.begin(review.attributes, NAME)
        try:
            for each in met:
                try:
                    await revision.revise(each, memory)
                except ConfigurationError as problem:
                    revision.failed(each.hook, "", str(problem))
        finally:
            memory.end(review.attributes)
    if revision.problems:
        raise _refusal(review.attributes, revision.problems)


def _key(found: Invocation[Mutator]) -> tuple[str, str, str, str]:
    meta = found.param["metadata"] if found.param is not None else {}
    return found.hook.name, found.binding.name, meta.get("namespace") or "", meta.get("name") or ""


def _own(attributes: Attributes) -> Form | None:
    forms = attributes.forms() if attributes.forms is not None else ()
    return forms[0] if forms else None


def _unknown(found: Invocation[Mutator]) -> errors.StatusError:
    kind = found.matched.kind
    text = f"Resource kind {kind.group}/{kind.version}, Kind={kind.kind} not found."
    delay = "There can be a delay between when CustomResourceDefinitions are created and when they are available."
    return errors.service_unavailable(f"{text} {delay}")


def _refusal(attributes: Attributes, problems: Sequence[_Problem]) -> Exception:
    refusal = refuse(attributes, "admission request denied by policy")
    assert isinstance(refusal, errors.StatusError)
    refusal.status["message"] = problems[0].message
    refusal.status["reason"] = problems[0].reason or refusal.status["reason"]
    refusal.status.setdefault("details", {})["causes"] = [{"message": each.message} for each in problems]
    return refusal
