"""MutatingAdmissionWebhook: webhooks are asked one after the other, each about what those before it have made.

When one changes the object, the whole chain sees it a second time (``admission.chain``), and with it the webhooks that want
to be asked again when somebody after them has changed something. None is asked for the first time in the second round.
"""

import orjson

from apimachinery import errors
from apimachinery.errors import StatusError
from apimachinery.patch import json_patch
from controlplane.apiserver.admission.interface import Attributes, Form, Object
from controlplane.apiserver.admission.managed_fields import keep_managers
from controlplane.apiserver.admission.matching import is_exempt
from controlplane.apiserver.admission.reinvocation import Memory
from controlplane.apiserver.admission.webhook.calls import Caller, CallFailedError, Versions, closed
from controlplane.apiserver.admission.webhook.hooks import Candidate, Hook, Source
from controlplane.apiserver.admission.webhook.review import JSON_PATCH, Answer, parsed

NAME = "MutatingAdmissionWebhook"
_MUTATION = "mutation.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"


class MutatingAdmissionWebhook:
    name = NAME

    def __init__(self, source: Source, caller: Caller) -> None:
        self._source, self._caller = source, caller

    def handles(self, attributes: Attributes) -> bool:
        return self._source.any and not is_exempt(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Everything is decided while mutating."""

    async def mutate(self, attributes: Attributes) -> None:
        again = attributes.reinvocation.under_way
        memory = Memory.begin(attributes, NAME)
        try:
            namespaced = self._caller.namespaced(attributes)
            for candidate in self._source.candidates(attributes):
                shown = await self._caller.concerned(candidate, attributes, namespaced)
                if shown is None or (again and candidate.hook.uid not in memory.due):
                    continue
                await self._ask(candidate, attributes, shown, memory)
        finally:
            memory.end(attributes)

    async def _ask(self, candidate: Candidate, attributes: Attributes, shown: Versions, memory: Memory) -> None:
        hook = candidate.hook
        where = f"round_{int(attributes.reinvocation.under_way)}_index_{candidate.index}"
        changed = False
        try:
            answer = await self._caller.ask(candidate, attributes, shown)
            changed = await _apply(candidate, attributes, shown.obj, answer, where)
        except CallFailedError as failure:
            if not hook.fails_open:
                raise closed(failure) from None
            self._caller.failed_open(hook, failure, attributes, f"failed-open.{_MUTATION}{where}")
        finally:
            said = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
            attributes.annotations[f"{_MUTATION}{where}"] = orjson.dumps(said).decode()
        if changed:
            memory.changed()
            attributes.reinvocation.wanted = True
        if hook.reinvoked:
            memory.asked.add(hook.uid)


async def _apply(candidate: Candidate, attributes: Attributes, shown: Object | None, answer: Answer, where: str) -> bool:
    """Put what the patch makes of the object in its place; whether that changed anything. Raises StatusError."""
    hook, form = candidate.hook, candidate.matched.form or _own(attributes)
    operations = _operations(hook, answer)
    if not operations:
        return False
    if shown is None or attributes.obj is None:
        text = f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this operation'
        raise errors.internal(text)
    if answer.patch_type != JSON_PATCH:
        raise CallFailedError(hook.name, f'unsupported patch type "{answer.patch_type}"', 400)
    made = _patched(shown, operations)
    made["apiVersion"], made["kind"] = candidate.matched.kind.api_version, candidate.matched.kind.kind
    try:
        if form is not None:
            form.settle(made)
    except ValueError as problem:
        raise errors.internal(str(problem)) from None
    keep_managers(made, shown, attributes.warnings)
    changed = made != shown
    if attributes.audits_bodies:
        said = {"configuration": hook.configuration, "webhook": hook.name, "patch": operations, "patchType": JSON_PATCH}
        attributes.annotations[f"{_PATCH}{where}"] = orjson.dumps(said).decode()
    if changed:
        own = made if candidate.matched.form is None else await candidate.matched.form.revert(made)
        attributes.obj.clear()
        attributes.obj.update(own)
    return changed


def _own(attributes: Attributes) -> Form | None:
    forms = attributes.forms() if attributes.forms is not None else ()
    return forms[0] if forms else None


def _operations(hook: Hook, answer: Answer) -> list[Object]:
    if not answer.patch:
        return []
    try:
        found = parsed(answer.patch)
        if found is not None and not isinstance(found, list):
            raise ValueError("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    except ValueError as problem:
        raise CallFailedError(hook.name, f"received undecodable patch in webhook response: {problem}", 503) from None
    return found or []


def _patched(obj: Object, operations: list[Object]) -> Object:
    try:
        return json_patch.apply(obj, operations)
    except StatusError as problem:
        raise errors.internal("; ".join(getattr(problem, "__notes__", None) or [problem.message])) from None
