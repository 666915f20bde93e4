"""One change in the words of several versions of a kind: what a manager holds is named in the version it wrote.

``apply`` asks how a change from one object to another looks to each manager. Versions that differ in nothing but their name
need no entry here: paths in one are paths in the other. Source: structured-merge-diff's merge.Updater, which converts both
objects to each manager's version and compares them there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.meta import clone
from apimachinery.patch import compare
from apimachinery.patch.compare import Changes
from apimachinery.schema.types import StructSchema

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """A version of the kind with fields of its own. Both functions return new objects and change nothing they are given."""

    schema: StructSchema
    convert: Callable[[Object], Object]  # from the version of the request
    convert_back: Callable[[Object], Object]


OtherVersions = Mapping[str, OtherVersion]
"""By ``apiVersion``."""


class ChangesByVersion:
    """The change from ``old`` to ``new`` (both in the version of the request), made once for each version that is asked for."""

    def __init__(
        self, old: Object, new: Object, schema: StructSchema, others: OtherVersions, ignored: Iterable[str] = ()
    ) -> None:
        self.own = compare.changes(old, new, schema, ignored)
        self._old, self._new, self._others, self._ignored = old, new, others, tuple(ignored)
        self._made: dict[str, Changes] = {}

    def of(self, api_version: str) -> Changes:
        """As a manager sees it who wrote ``api_version``."""
        other = self._others.get(api_version)
        if other is None:
            return self.own
        if api_version not in self._made:
            before = other.convert(clone(self._old)) if self._old else {}
            after = other.convert(clone(self._new))
            self._made[api_version] = compare.changes(before, after, other.schema, self._ignored)
        return self._made[api_version]
