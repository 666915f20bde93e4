"""One webhook asked about one write: whether it is to be asked, the question, the answer, and what a failure means.

Called by the two plugins. What comes back is an Answer that allows; a refusal is raised as the StatusError that the client
gets, a failure as CallFailedError, which the webhook's failure policy judges.
"""

import asyncio
import math
import time
import uuid
from dataclasses import dataclass
from functools import partial

from apimachinery import errors
from apimachinery.errors import StatusError
from component import logs
from controlplane.apiserver.admission.interface import Attributes, Lookup, Object, refuse
from controlplane.apiserver.admission.matching import Namespaced
from controlplane.apiserver.admission.request import request_of
from controlplane.apiserver.admission.webhook import review
from controlplane.apiserver.admission.webhook.hooks import Candidate, Hook
from controlplane.apiserver.admission.webhook.metrics import CALLING, INTERNAL, NO_ERROR, WebhookMetrics
from controlplane.apiserver.admission.webhook.review import Answer
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.service_client import HookClients, HookError

_log = logs.get(__name__)
_OK = 200
_APART = 128 * 1024  # bytes of an answer that are read on a thread, as of a request's body


class CallFailedError(Exception):
    """The webhook could not be asked or its answer not be used. ``code`` is for metrics."""

    def __init__(self, hook: str, reason: str, code: int) -> None:
        super().__init__(f'failed calling webhook "{hook}": {reason}')
        self.code = code


class RejectedError(StatusError):
    """The webhook said no."""


@dataclass(frozen=True, slots=True)
class Versions:
    """An object before and after a write, in the version that a webhook is to see."""

    obj: Object | None
    old: Object | None


@dataclass(frozen=True, slots=True)
class Kind:
    """Which plugin asks: what metrics call it, and the code of a call that failed for no code of its own."""

    mutating: bool
    name: str  # of the type in metrics of calls
    step: str  # the same, in metrics of match conditions
    unreachable: int


MUTATING = Kind(True, "admit", "admit", 503)
VALIDATING = Kind(False, "validating", "validate", 400)


class Caller:
    def __init__(self, kind: Kind, clients: HookClients, lookup: Lookup, authorizer: Authorizer, metrics: WebhookMetrics) -> None:
        self.kind, self.metrics = kind, metrics
        self._clients, self._lookup, self._authorizer = clients, lookup, authorizer

    def namespaced(self, attributes: Attributes) -> Namespaced:
        """For all webhooks that are asked about one write."""
        return Namespaced(attributes, self._lookup)

    async def concerned(self, candidate: Candidate, attributes: Attributes, namespaced: Namespaced) -> Versions | None:
        """What the webhook is to see; None when selectors or conditions keep the write from it. Raises StatusError."""
        hook, matched = candidate.hook, candidate.matched
        if not hook.match.by_object(attributes) or not await hook.match.by_namespace(attributes, namespaced):
            return None
        obj, old = attributes.obj, attributes.old
        if matched.form is not None:
            try:
                obj = await matched.form.convert(obj) if obj is not None else None
                old = await matched.form.convert(old) if old is not None else None
            except StatusError as problem:
                raise errors.internal(problem.message) from None
        shown = Versions(obj, old)
        return shown if hook.conditions is None or await self._condition(candidate, attributes, shown) else None

    async def _condition(self, candidate: Candidate, attributes: Attributes, shown: Versions) -> bool:
        from controlplane.apiserver.admission.policy import view
        from controlplane.apiserver.admission.policy.evaluation import Answers, Evaluation
        from controlplane.apiserver.admission.policy.expressions import Compiler

        hook, matched = candidate.hook, candidate.matched
        assert hook.conditions is not None
        request = request_of(attributes, matched.kind, matched.resource)
        values = view.values_of(attributes, request, None, shown.obj, shown.old)
        where = (hook.name, "webhook", self.kind.step, attributes.operation)
        evaluation = Evaluation(values, Answers(attributes.user, self._authorizer), Compiler())
        found = await self.metrics.conditions.watch(where, hook.conditions.match(evaluation))
        if found.error:
            _log.warning("Match conditions cannot be evaluated, failing closed", webhook=hook.name, err=found.error)
            raise refuse(attributes, found.error)
        return found.matches

    async def ask(self, candidate: Candidate, attributes: Attributes, shown: Versions) -> Answer:
        """Raises CallFailedError, RejectedError, and another StatusError for what the webhook is not to blame for."""
        hook, metrics, kind, operation = candidate.hook, self.metrics, self.kind.name, attributes.operation
        begun = time.perf_counter()
        code, rejected = 0, True
        try:
            found = await self._ask(candidate, attributes, shown)
            code, rejected = _OK, False
            return found
        except CallFailedError as failure:
            code, rejected = failure.code, not hook.fails_open
            if rejected:
                metrics.rejected(hook.name, kind, operation, CALLING, code)
            raise
        except RejectedError as refusal:
            code = refusal.code
            metrics.rejected(hook.name, kind, operation, NO_ERROR, code)
            raise
        except StatusError:
            metrics.rejected(hook.name, kind, operation, INTERNAL, 0)
            raise
        finally:
            metrics.called(hook.name, kind, operation, time.perf_counter() - begun, code, rejected=rejected)

    async def _ask(self, candidate: Candidate, attributes: Attributes, shown: Versions) -> Answer:
        hook = candidate.hook
        if attributes.dry_run and not hook.dry_runs:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            version = review.version_for(hook.versions)
        except ValueError as problem:
            raise CallFailedError(hook.name, f"could not create admission objects: {problem}", 400) from None
        if isinstance(hook.client, HookError):
            raise CallFailedError(hook.name, f"could not get REST client: {hook.client}", self.kind.unreachable)
        uid = str(uuid.uuid4())
        body = review.question(version, uid, attributes, candidate.matched, shown.obj, shown.old)
        seconds = min(hook.timeout, attributes.deadline - time.perf_counter())  # the request's own end is the chain's business
        query = {"timeout": f"{max(math.ceil(seconds), 1)}s"}
        try:
            said = await self._clients.post(hook.client, body, hook.timeout, query)
            read = partial(review.answer, said, version, uid, mutating=self.kind.mutating)
            found = await asyncio.to_thread(read) if len(said) > _APART else read()
        except HookError as problem:
            code = problem.code or self.kind.unreachable
            raise CallFailedError(hook.name, f"failed to call webhook: {problem}", code) from None
        except review.InvalidAnswerError as problem:
            raise CallFailedError(hook.name, f"received invalid webhook response: {problem}", 503) from None
        except ValueError as problem:
            raise CallFailedError(hook.name, f"failed to call webhook: {problem}", self.kind.unreachable) from None
        for key, value in found.annotations.items():
            if not attributes.annotate(f"{hook.name}/{key}", value):
                _log.warning("Failed to set admission audit annotation", webhook=hook.name, key=key)
        attributes.warnings.extend(found.warnings)
        if not found.allowed:
            raise _refusal(hook, found.status)
        return found

    def failed_open(self, hook: Hook, failure: CallFailedError, attributes: Attributes, annotation: str) -> None:
        """A failure that the webhook's policy takes for consent."""
        _log.warning("Failed calling webhook, failing open", webhook=hook.name, err=failure)
        self.metrics.failed_open(hook.name, self.kind.name)
        attributes.annotations[annotation] = hook.name


def _refusal(hook: Hook, status: Object) -> RejectedError:
    """The webhook's own Status as far as it makes sense for a refusal; its text says whose it is."""
    denied = f'admission webhook "{hook.name}" denied the request'
    said = status.get("message") or status.get("reason")
    code = status.get("code")
    made = errors.make_status(400, "", f"{denied}: {said}" if said else f"{denied} without explanation")
    if isinstance(status.get("reason"), str) and status["reason"]:
        made["reason"] = status["reason"]
    if isinstance(status.get("details"), dict):
        made["details"] = status["details"]
    if isinstance(code, int) and 400 <= code <= 599:
        made["code"] = code
    return RejectedError(made)


def closed(failure: CallFailedError) -> StatusError:
    """The 500 of a webhook that has to be asked and cannot be."""
    _log.warning("Failed calling webhook, failing closed", err=failure)
    return errors.internal(str(failure))
