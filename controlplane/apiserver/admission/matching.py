"""Which writes a webhook or a policy is about: rules, selectors, versions that mean the same objects. Pure but for one look-up.

Compiled once from the ``rules`` of a webhook, or the ``matchResources`` of a policy or binding; asked for every write. Follows
upstream's predicates: rules in the version of the request come first, then, where ``matchPolicy`` is Equivalent, rules in its
other versions; selectors that cannot be judged matter only for writes that the rules are about.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from apimachinery import errors, labels
from apimachinery.gvk import GroupVersionKind, GroupVersionResource
from apimachinery.labels import Selector
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Form, Lookup

Object = Mapping[str, Any]
_NAMESPACES = GroupVersionResource("", "v1", "namespaces")
_EXEMPT = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)
_REVIEWS = frozenset(
    {
        "selfsubjectreviews.authentication.k8s.io",
        "tokenreviews.authentication.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
    }
)


def is_exempt(attributes: Attributes) -> bool:
    """Whether the write configures admission itself: nobody may lock out those who would mend it."""
    return attributes.kind.group == "admissionregistration.k8s.io" and attributes.kind.kind in _EXEMPT


def beyond_policies(attributes: Attributes) -> bool:
    """Whether policies are not asked: about what configures admission, and about who somebody is and may, which nodes and
    extension servers must always be able to ask. Webhooks are asked about the latter."""
    return attributes.group_resource in _REVIEWS or is_exempt(attributes)


@dataclass(frozen=True, slots=True)
class Rule:
    """``RuleWithOperations``, with the ``resourceNames`` that policies add."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # resource and subresource
    scope: str = "*"
    names: frozenset[str] = frozenset()

    @classmethod
    def compile(cls, rule: Object) -> Self:
        parts = (each.partition("/") for each in rule.get("resources") or ())
        return cls(
            frozenset(rule.get("operations") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("apiVersions") or ()),
            tuple((resource, sub) for resource, _, sub in parts),
            rule.get("scope") or "*",
            frozenset(rule.get("resourceNames") or ()),
        )

    def matches(self, attributes: Attributes, resource: GroupVersionResource) -> bool:
        """``resource`` takes the place of the one in the request's URL."""
        return (
            _has(self.operations, attributes.operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and any(one in ("*", resource.resource) and sub in ("*", attributes.subresource) for one, sub in self.resources)
            and (self.scope == "*" or (self.scope == "Namespaced") == (bool(attributes.namespace) and resource != _NAMESPACES))
            and (not self.names or attributes.name in self.names)
        )


def _has(wanted: frozenset[str], value: str) -> bool:
    return value in wanted or "*" in wanted


@dataclass(frozen=True, slots=True)
class Matched:
    """What the rules matched. ``form`` is None for the version of the request itself."""

    resource: GroupVersionResource
    kind: GroupVersionKind
    form: Form | None = None


def first_match(rules: Iterable[Rule], attributes: Attributes, equivalents: Sequence[Form] = ()) -> Matched | None:
    """The first rule's match in the request's own version, else the first in one of ``equivalents``."""
    resource = attributes.gvr
    if any(rule.matches(attributes, resource) for rule in rules):
        return Matched(resource, attributes.kind)
    for rule in rules:
        for form in equivalents:
            if form.resource != resource and rule.matches(attributes, form.resource):
                return Matched(form.resource, form.kind, form)
    return None


class Namespaced:
    """The labels of the namespace that a write is in, looked up when they are first asked for."""

    __slots__ = ("_attributes", "_labels", "_lookup", "_namespace")

    def __init__(self, attributes: Attributes, lookup: Lookup) -> None:
        self._attributes, self._lookup = attributes, lookup
        self._namespace: dict[str, Any] | None = None

    async def namespace(self) -> dict[str, Any]:
        """The stored Namespace. Raises a 404."""
        if self._namespace is None:
            name = self._attributes.own_namespace
            self._namespace = await self._lookup("namespaces", "", name)
            if self._namespace is None:
                raise errors.not_found("namespaces", name)
        return self._namespace

    async def labels(self) -> Mapping[str, str]:
        """A Namespace that is being written counts with its new labels. Raises a 404."""
        attributes = self._attributes
        own = attributes.resource == "namespaces" and not attributes.subresource and attributes.operation in (CREATE, UPDATE)
        return labels_of(attributes.obj if own else await self.namespace())


def labels_of(obj: Object | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


@dataclass(frozen=True, slots=True)
class Match:
    """``everything`` is what no rules mean: all writes to a policy, none to a webhook."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...]
    namespaces: Selector
    objects: Selector
    equivalent: bool
    everything: bool

    @classmethod
    def compile(
        cls,
        rules: Iterable[Object] | None,
        exclude: Iterable[Object] | None = None,
        namespace_selector: Object | None = None,
        object_selector: Object | None = None,
        match_policy: str | None = None,
        *,
        everything: bool = False,
    ) -> Self:
        """Raises ValueError for a selector that is none; an absent selector selects all."""
        return cls(
            tuple(map(Rule.compile, rules or ())),
            tuple(map(Rule.compile, exclude or ())),
            labels.from_label_selector(namespace_selector or {}),
            labels.from_label_selector(object_selector or {}),
            match_policy == "Equivalent",
            everything,
        )

    @classmethod
    def resources(cls, match: Object | None) -> Self:
        """The ``matchResources`` of a policy's binding, or the ``matchConstraints`` of a policy."""
        found = match or {}
        selectors = found.get("namespaceSelector"), found.get("objectSelector")
        return cls.compile(
            found.get("resourceRules"), found.get("excludeResourceRules"), *selectors, found.get("matchPolicy"), everything=True
        )

    def by_rules(self, attributes: Attributes, forms: Sequence[Form] = ()) -> Matched | None:
        """Rules alone, of which the answer is the same for all writes to a resource unless rules name objects."""
        equivalents = forms if self.equivalent else ()
        if self.excluded and first_match(self.excluded, attributes, equivalents) is not None:
            return None
        if not self.rules and self.everything:
            return Matched(attributes.gvr, attributes.kind)
        return first_match(self.rules, attributes, equivalents)

    def by_object(self, attributes: Attributes) -> bool:
        """The labels of the object before or after the write."""
        if self.objects.empty:
            return True
        found = (each for each in (attributes.obj, attributes.old) if each is not None and "metadata" in each)
        return any(self.objects.matches(labels_of(each)) for each in found)

    async def by_namespace(self, attributes: Attributes, namespaced: Namespaced) -> bool:
        """Cluster-scoped objects, Namespaces apart, are in no namespace that could be unselected. Raises a 404."""
        if self.namespaces.empty or not (attributes.namespace or attributes.resource == "namespaces"):
            return True
        return self.namespaces.matches(await namespaced.labels())

    async def by_labels(self, attributes: Attributes, namespaced: Namespaced) -> bool:
        """Both selectors. Raises a 404 when only the labels of a namespace could tell, and there is none."""
        return self.by_object(attributes) and await self.by_namespace(attributes, namespaced)

    async def matches(self, attributes: Attributes, namespaced: Namespaced, forms: Sequence[Form] = ()) -> Matched | None:
        """All together. Raises as :meth:`by_labels`."""
        found = self.by_rules(attributes, forms)
        return found if found is not None and await self.by_labels(attributes, namespaced) else None

    @property
    def by_name(self) -> bool:
        """Whether rules name objects."""
        return any(rule.names for rule in (*self.rules, *self.excluded))
