"""What all validating policies say of one write: the first denial is the answer, the rest warns, and notes for the audit log.

Called by the plugin (``validating``), which imports this with the first policy: expressions cost a server 20 MB. Upstream:
``plugin/policy/validating/dispatcher.go``, whose texts and order these are.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from apimachinery import errors
from controlplane.apiserver.admission.interface import Attributes, refuse
from controlplane.apiserver.admission.policy.metrics import PolicyMetrics, error_type
from controlplane.apiserver.admission.policy.selection import ConfigurationError, Invocation, Review, each_of
from controlplane.apiserver.admission.policy.source import Candidate
from controlplane.apiserver.admission.policy.validator import INVALID, Decision, Result, Validator

FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_MAX_NOTE = 10 * 1024  # bytes
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class _Denial:
    policy: str
    binding: str
    message: str
    reason: str = ""


@dataclass(slots=True)
class _Verdict:
    """What the policies have said so far; ``notes`` are of one policy."""

    attributes: Attributes
    metrics: PolicyMetrics
    denials: list[_Denial] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def take(self, result: Result, found: Invocation[Validator]) -> None:
        for position, decision in enumerate(result.decisions):
            if decision.denied:
                for action in found.binding.spec.get("validationActions") or ():
                    self._enforce(action, position, decision, found)
            elif decision.failed:
                self._count(found, decision.message, "allow", decision.seconds)
        for note in result.notes:
            if note.error:
                self.denials.append(_Denial(found.hook.name, found.binding.name, note.error))
                self._count(found, note.error, "deny", note.seconds)
            else:
                values = self.notes.setdefault(note.key, [])
                value = note.value.encode()[:_MAX_NOTE].decode(errors="ignore")
                if value not in values:
                    values.append(value)

    def _enforce(self, action: str, position: int, decision: Decision, found: Invocation[Validator]) -> None:
        policy, binding = found.hook.name, found.binding.name
        if action == "Deny":
            self.denials.append(_Denial(policy, binding, decision.message, decision.reason))
        elif action == "Audit":
            self.attributes.annotations.setdefault(FAILURE, _failure(position, decision, found))
        else:
            self.attributes.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {decision.message}"
            )
        self._count(found, decision.message, action.lower(), decision.seconds)

    def _count(self, found: Invocation[Validator], message: str, action: str, seconds: float) -> None:
        self.metrics.observe(found.hook.name, found.binding.name, error_type(message), action, seconds)

    def publish(self, policy: str) -> None:
        for key, values in self.notes.items():
            self.attributes.annotations.setdefault(f"{policy}/{key}", ", ".join(values))
        self.notes = {}


async def judge(review: Review, candidates: Sequence[Candidate[Validator]], metrics: PolicyMetrics) -> None:
    """Raises the StatusError of the first denial, after all policies have been evaluated."""
    verdict = _Verdict(review.attributes, metrics)
    for candidate in candidates:
        hook = candidate.hook
        async for found in each_of(review, candidate):
            try:
                if isinstance(found, ConfigurationError):
                    raise found
                result = await hook.evaluator.validate(await review.values(found), review.answers)
            except ConfigurationError as problem:
                if hook.fails:
                    verdict.denials.append(_Denial(hook.name, problem.binding, str(problem)))
                continue
            verdict.take(result, found)
        verdict.publish(hook.name)
    if verdict.denials:
        raise _refusal(review.attributes, verdict.denials[0])


def _failure(position: int, decision: Decision, found: Invocation[Validator]) -> str:
    """The audit annotation's value: a list of one, as Go writes JSON."""
    value: dict[str, Any] = {
        "message": decision.message,
        "policy": found.hook.name,
        "binding": found.binding.name,
        "expressionIndex": position,
        "validationActions": found.binding.spec.get("validationActions") or [],
    }
    text = json.dumps([value], separators=(",", ":"), ensure_ascii=False)
    for character in "&<>":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _refusal(attributes: Attributes, denial: _Denial) -> Exception:
    binding = f" with binding '{denial.binding}'" if denial.binding else ""
    message = f"ValidatingAdmissionPolicy '{denial.policy}'{binding} denied request: {denial.message}"
    refusal = refuse(attributes, message)
    assert isinstance(refusal, errors.StatusError)
    reason = denial.reason or INVALID
    refusal.status["reason"], refusal.status["code"] = reason, _CODES.get(reason, 422)
    refusal.status.setdefault("details", {}).setdefault("causes", []).append({"message": message})
    return refusal
