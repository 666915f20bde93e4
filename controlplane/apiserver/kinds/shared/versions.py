"""Further versions of a kind, served beside the one that is stored.

:class:`VersionView` is for versions that differ in nothing but their name; others give it a pair of conversions.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.registry.strategy import Context, Object, Strategy, Subresource


class VersionView(Strategy):
    """``stored``, the strategy of the storage version, in other words. Converts through ``to_stored`` and ``from_stored``."""

    def __init__(self, stored: Strategy, version: str, deprecation: str = "") -> None:
        kind = stored.info.gvk
        own = GroupVersionKind(kind.group, version, kind.kind)
        self._stored = stored
        self.info = replace(stored.info, gvk=own, deprecation=deprecation)
        self.stored_as = stored.info
        self.columns, self.gates = stored.columns, stored.gates
        self.has_status, self.has_scale, self.has_generation = stored.has_status, stored.has_scale, stored.has_generation
        self.orphan_by_default = stored.orphan_by_default
        self.returns_deleted = stored.returns_deleted
        self.allow_create_on_update = stored.allow_create_on_update
        self.allow_unconditional_update = stored.allow_unconditional_update
        self.selectable_names, self.selectable_aliases = stored.selectable_names, stored.selectable_aliases
        self.name_is_valid = stored.name_is_valid
        self.subresources = tuple(self._own_part(part) for part in stored.subresources)

    def _own_part(self, part: Subresource) -> Subresource:
        return replace(part, kind=self.info.gvk) if part.kind == self._stored.info.gvk else part

    # ------------------------------------------------------------------ conversion

    def to_stored(self, obj: Object) -> Object:
        return {**obj, "apiVersion": self._stored.info.gvk.api_version}

    def from_stored(self, obj: Object) -> Object:
        return {**obj, "apiVersion": self.info.gvk.api_version}

    def _take(self, obj: Object, stored: Object) -> None:
        """Put what the stored version's rules made of an object back into it."""
        made = self.from_stored(stored)
        obj.clear()
        obj.update(made)

    # ------------------------------------------------------------------ the stored version's rules

    def default(self, obj: Object) -> None:
        stored = self.to_stored(obj)
        self._stored.default(stored)
        self._take(obj, stored)

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        stored = self.to_stored(obj)
        self._stored.prepare_for_create(ctx, stored)
        self._take(obj, stored)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return self._stored.validate(ctx, self.to_stored(obj))

    def prepare_for_update(self, ctx: Context, obj: Object, old: Object) -> None:
        stored = self.to_stored(obj)
        self._stored.prepare_for_update(ctx, stored, self.to_stored(old))
        self._take(obj, stored)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self._stored.validate_update(ctx, self.to_stored(obj), self.to_stored(old))

    def prepare_for_status_update(self, ctx: Context, obj: Object, old: Object) -> None:
        stored = self.to_stored(obj)
        self._stored.prepare_for_status_update(ctx, stored, self.to_stored(old))
        self._take(obj, stored)

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self._stored.validate_status_update(ctx, self.to_stored(obj), self.to_stored(old))

    def canonicalize(self, obj: Object) -> None:
        stored = self.to_stored(obj)
        self._stored.canonicalize(stored)
        self._take(obj, stored)

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        return self._stored.warnings(ctx, self.to_stored(obj), None if old is None else self.to_stored(old))

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return self._stored.selectable_fields(self.to_stored(obj))

    def spec_changed(self, obj: Object, old: Object) -> bool:
        return self._stored.spec_changed(self.to_stored(obj), self.to_stored(old))

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return self._stored.row(self.to_stored(obj), now)
