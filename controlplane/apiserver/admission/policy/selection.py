"""Which policies, bindings and parameters a write meets: what validating and mutating policies do alike before they evaluate."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from apimachinery import errors
from apimachinery.gvk import GroupVersionKind, GroupVersionResource
from controlplane.apiserver.admission.interface import Attributes, Lookup
from controlplane.apiserver.admission.matching import Matched, Namespaced
from controlplane.apiserver.admission.policy import params, view
from controlplane.apiserver.admission.policy.evaluation import Answers, Values
from controlplane.apiserver.admission.policy.source import Binding, Candidate, Hook
from controlplane.apiserver.authorization.interface import Authorizer

Object = dict[str, Any]
E = TypeVar("E")


class ConfigurationError(Exception):
    """A policy or binding that cannot be judged for this write. The text says which of the two, as upstream's."""

    def __init__(self, binding: str, problem: Exception) -> None:
        super().__init__(f"failed to configure {'binding' if binding else 'policy'}: {problem}")
        self.binding = binding


@dataclass(frozen=True, slots=True)
class Invocation(Generic[E]):
    hook: Hook[E]
    binding: Binding
    matched: Matched
    param: Object | None


@dataclass(slots=True)
class Review:
    """One write before the policies: what is looked up or converted once for all of them."""

    attributes: Attributes
    lookup: Lookup
    authorizer: Authorizer
    kinds: params.ParamKinds
    answers: Answers = field(init=False)
    namespaced: Namespaced = field(init=False)
    _versions: dict[Any, tuple[Object | None, Object | None]] = field(default_factory=dict)
    _values: dict[tuple[GroupVersionKind, GroupVersionResource], Values] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.answers = Answers(self.attributes.user, self.authorizer)
        self.namespaced = Namespaced(self.attributes, self.lookup)

    async def selected(self, hook: Hook[E]) -> bool:
        """Whether the selectors of a policy whose rules match do so, too.

        Raises ConfigurationError, also for one whose kind of parameters is not served, whatever its bindings say.
        """
        try:
            if not await hook.match.by_labels(self.attributes, self.namespaced):
                return False
            if hook.param_kind is not None:
                params.served(self.kinds, hook.param_kind)
        except (errors.StatusError, params.ParamError) as problem:
            raise ConfigurationError("", problem) from None
        return True

    async def bound(self, binding: Binding) -> bool:
        """Raises ConfigurationError."""
        attributes = self.attributes
        try:
            forms = attributes.forms() if attributes.forms else ()
            return await binding.match.matches(attributes, self.namespaced, forms) is not None
        except errors.StatusError as problem:
            raise ConfigurationError(binding.name, problem) from None

    async def invocations(self, hook: Hook[E], binding: Binding, matched: Matched) -> Sequence[Invocation[E]]:
        """One for each parameter. Raises ConfigurationError."""
        reference = binding.spec.get("paramRef")
        try:
            found = await params.collect(self.kinds, hook.param_kind, reference, self.attributes.namespace)
        except params.ParamError as problem:
            raise ConfigurationError(binding.name, problem) from None
        return [Invocation(hook, binding, matched, each) for each in found]

    async def objects(self, matched: Matched) -> tuple[Object | None, Object | None]:
        """The object and the old one in the version that was matched. Raises ConfigurationError."""
        attributes, form = self.attributes, matched.form
        if form is None:
            return attributes.obj, attributes.old
        if form.kind not in self._versions:
            try:
                made = [None if each is None else await form.convert(each) for each in (attributes.obj, attributes.old)]
            except (errors.StatusError, ValueError) as problem:
                raise ConfigurationError("", ValueError(f"failed to convert object version: {problem}")) from None
            self._versions[form.kind] = made[0], made[1]
        return self._versions[form.kind]

    def changed(self) -> None:
        """The object is another one now."""
        self._versions.clear()
        self._values.clear()

    async def values(self, invocation: Invocation[E]) -> Values:
        """The variables of the policy's expressions. Raises StatusError for a namespace that is not there."""
        attributes, matched = self.attributes, invocation.matched
        common = self._values.get((matched.kind, matched.resource))
        if common is None:
            namespace = await self.namespaced.namespace() if attributes.namespace else None
            obj, old = await self.objects(matched)
            request = view.request_of(attributes, matched.kind, matched.resource)
            common = Values(view.values_of(attributes, request, namespace, obj, old), params=None)
            self._values[matched.kind, matched.resource] = common
        return common if invocation.param is None else Values(common, params=invocation.param)


async def each_of(review: Review, candidate: Candidate[E]) -> AsyncIterator[Invocation[E] | ConfigurationError]:
    """What a write meets of one policy, in the order of its bindings."""
    hook = candidate.hook
    try:
        if not await review.selected(hook):
            return
    except ConfigurationError as problem:
        yield problem
        return
    for binding in hook.bindings:
        try:
            if not await review.bound(binding):
                continue
            found = await review.invocations(hook, binding, candidate.matched)
        except ConfigurationError as problem:
            yield problem
            continue
        for each in found:
            yield each
