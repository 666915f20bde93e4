"""The parameters of a policy: the objects that a binding names or selects, or the one None that stands for none.

Upstream: ``generic.CollectParams``.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from apimachinery import labels
from apimachinery.gvk import GroupVersionKind

Object = dict[str, Any]


class ParamError(Exception):
    """The binding cannot be used for this write; the text is upstream's."""


class ParamKind(Protocol):
    """Objects of one kind in one version, as they are now."""

    @property
    def namespaced(self) -> bool: ...

    @property
    def resource(self) -> str:
        """The plural, without the group."""
        ...

    async def get(self, namespace: str, name: str) -> Object | None: ...

    async def list(self, namespace: str) -> Sequence[Object]: ...


class ParamKinds(Protocol):
    def find(self, kind: GroupVersionKind) -> ParamKind | None:
        """None for a kind that is not served."""
        ...


def served(kinds: ParamKinds, kind: GroupVersionKind) -> ParamKind:
    """Raises ParamError for a kind that is not."""
    found = kinds.find(kind)
    if found is None:
        raise ParamError(f"failed to find resource referenced by paramKind: '{kind.api_version}, Kind={kind.kind}'")
    return found


async def collect(
    kinds: ParamKinds, kind: GroupVersionKind | None, reference: Object | None, namespace: str
) -> Sequence[Object | None]:
    """``namespace`` is that of the write. Raises ParamError."""
    if kind is None or reference is None:
        return [None]
    found = served(kinds, kind)
    given = reference.get("namespace") or ""
    if given and not found.namespaced:
        raise ParamError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    where = (given or namespace) if found.namespaced else ""
    if found.namespaced and not where:
        raise ParamError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    if name := reference.get("name"):
        one = await found.get(where, name)
        params = [] if one is None else [one]
    else:
        selector = labels.from_label_selector(reference.get("selector"))
        params = [each for each in await found.list(where) if selector.matches(each["metadata"].get("labels") or {})]
    if not params and reference.get("parameterNotFoundAction") == "Deny":
        raise ParamError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return params
