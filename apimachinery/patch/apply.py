"""Server-side apply, and the record of who manages which field (``metadata.managedFields``).

``apply`` serves apply patches; ``track_update`` every other write. Both follow upstream's structured merge: a configuration owns
what it states; stating what another manager holds with another value is a conflict unless forced; what a manager stops
stating goes away unless somebody else holds it. Called by ``endpoints`` before the strategy prepares the object, so that what
the server itself fills in belongs to nobody.
"""

from collections.abc import Iterable
from datetime import datetime
from types import MappingProxyType
from typing import Any

import orjson

from apimachinery import errors
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import clone
from apimachinery.patch import compare, fieldset, managers, typed
from apimachinery.patch.fieldset import FieldSet
from apimachinery.patch.managers import APPLY, UPDATE, Managed, ManagerKey, Managers
from apimachinery.patch.versions import ChangesByVersion, OtherVersion, OtherVersions
from apimachinery.schema.types import StructSchema
from apimachinery.times import format_time

Object = dict[str, Any]

_NO_OTHERS: OtherVersions = MappingProxyType({})
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"  # the one manager that takes over from client-side apply without conflicts


def track_update(
    old: Object | None,
    new: Object,
    manager: str,
    operation: str,
    schema: StructSchema,
    now: datetime,
    *,
    subresource: str = "",
    ignored: Iterable[str] = (),
    others: OtherVersions = _NO_OTHERS,
) -> None:
    """Write ``new["metadata"]["managedFields"]`` for a create (``old`` None), update or patch by ``manager``.

    What changed belongs to the manager from now on and to nobody else; what was removed belongs to nobody. ``ignored`` names
    top-level fields that this write cannot set (``status`` on the main resource), ``others`` the versions in which other
    managers may have written. ``new`` is changed in place, but not
    the entries it may share with ``old``. An object without any record stays without one on updates, as upstream keeps it.
    """
    before = old or {}
    metadata = new.setdefault("metadata", {})
    held = managers.of_request(before, new, subresource)
    if old and not held:
        metadata.pop("managedFields", None)
        return
    by_version = ChangesByVersion(before, new, schema, others, ignored)
    _store(metadata, _tracked(held, by_version, _key(new, manager, operation, subresource), new.get("apiVersion", ""), now))


def _tracked(held: Managers, by_version: ChangesByVersion, key: ManagerKey, api_version: str, now: datetime) -> Managers:
    changed = by_version.own
    taken = fieldset.union(changed.added, changed.modified)
    if not taken and not changed.removed:
        return held
    result = managers.subtract(held, lambda each: _lost(by_version.of(each.api_version)), key)
    own = result.pop(key, None)
    fields = fieldset.difference(own.fields, changed.removed) if own else {}
    if taken:
        result[key] = _took(own, fieldset.union(fields, taken), api_version, format_time(now))
    elif own and fields:
        result[key] = own.with_fields(fields)
    return managers.cap(result)


def _lost(changed: compare.Changes) -> tuple[FieldSet, ...]:
    """What others hold no longer after a change."""
    return changed.added, changed.modified, changed.removed


def _took(own: Managed | None, fields: FieldSet, api_version: str, time: str) -> Managed:
    """A writer that repeats itself (a kubelet's status) keeps its encoded set; only the time moves."""
    if own and own.entry and fields == own.fields:
        return Managed(own.fields, api_version, time, {**own.entry, "time": time})
    return Managed(fields, api_version, time)


def _key(obj: Object, manager: str, operation: str, subresource: str) -> ManagerKey:
    return ManagerKey.of(manager, operation, obj.get("apiVersion", ""), subresource)


def _store(metadata: Object, held: Managers) -> None:
    entries = managers.encode(held)
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def apply(
    live: Object | None,
    config: Object,
    manager: str,
    force: bool,
    schema: StructSchema,
    now: datetime,
    *,
    subresource: str = "",
    ignored: Iterable[str] = (),
    others: OtherVersions = _NO_OTHERS,
) -> Object:
    """The object after ``manager`` applied ``config`` to ``live`` (None: it does not exist yet), with managedFields.

    ``config`` has ``apiVersion``, ``kind`` and ``metadata.name``; it is not changed, nor is ``live``. ``ignored`` names top-level
    fields that this write cannot set. The result is ``live``'s equal when nothing changes; compare with ``same_but_for_times``.

    Raises StatusError: 400 when the configuration carries managedFields, 500 in upstream's words when it does not fit the
    schema, 409 naming each conflicting field and its manager unless ``force``.
    """
    if (config.get("metadata") or {}).get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    check_types(config, schema)
    held = managers.decode((live or {}).get("metadata", {}).get("managedFields")) or {}
    if live and not held:
        held = _before_first_apply(live, schema, now)
    key = _key(config, manager, APPLY, subresource)
    work = _Apply(live or {}, config, key, held, schema, frozenset(ignored), others)
    conflicts = {} if force else work.conflicts()
    if conflicts and manager == KUBECTL:
        conflicts = _beyond_last_applied(conflicts, live or {}, schema)
    if conflicts:
        raise conflict_error(conflicts, held)
    return work.result(now, _next_last_applied(live or {}, config, manager))


def check_types(config: Object, schema: StructSchema) -> None:
    """Refuse a configuration that does not fit the schema: other than everywhere else, unknown fields are never overlooked.

    Callers that normalise the configuration first must ask before they do. Raises a 500 StatusError, as upstream does.
    """
    problems = typed.problems(config, schema)
    if not problems:
        return
    gvk, metadata = GroupVersionKind.of(config), config.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    text = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {each}" for each in problems)
    message = f"failed to create typed patch object ({name}; {gvk.group}/{gvk.version}, Kind={gvk.kind}): {text}"
    raise errors.StatusError(errors.make_status(500, "", message))


def _before_first_apply(live: Object, schema: StructSchema, now: datetime) -> Managers:
    """An object that nobody kept a record of: all of it belongs to a manager of that name, so that conflicts show."""
    everything = compare.changes({}, live, schema).added
    version = live.get("apiVersion", "")
    key = ManagerKey.of(BEFORE_FIRST_APPLY, UPDATE, version, "")
    return {key: Managed(everything, version, format_time(now))}


class _Apply:
    """One application of a configuration."""

    def __init__(
        self,
        live: Object,
        config: Object,
        key: ManagerKey,
        held: Managers,
        schema: StructSchema,
        ignored: frozenset[str],
        others: OtherVersions,
    ) -> None:
        self.live = live
        self.config = config
        self.key = key
        self.held = held
        self.schema = schema
        self.ignored = ignored
        self.others = others
        self.claimed = compare.fields_of(config, schema, ignored)
        self.new = self._merged()
        self.changes = ChangesByVersion(live, self.new, schema, others, ignored)

    def _merged(self) -> Object:
        stated = {name: value for name, value in self.config.items() if name not in self.ignored}
        merged = typed.merge(self.live, stated, self.schema)
        last = self.held.get(self.key)
        if last is None or not last.fields:
            return merged
        owners = [each for key, each in self.held.items() if key != self.key]
        if any(each.api_version in self.others for each in (last, *owners)):
            return self._pruned_across(merged, last, owners)
        return typed.prune(merged, last.fields, [self.claimed, *(each.fields for each in owners)], self.schema)

    def _pruned_across(self, merged: Object, last: Managed, owners: list[Managed]) -> Object:
        """Prune in the version that the manager applied last, then put back what others hold, each in its own version."""
        own = OtherVersion(self.schema, clone, clone)
        at = self.others.get(last.api_version, own)
        pruned = at.convert_back(typed.without_named(at.convert(clone(merged)), last.fields, at.schema))
        owned: dict[str, list[FieldSet]] = {"": [self.claimed]}
        for each in owners:
            owned.setdefault(each.api_version if each.api_version in self.others else "", []).append(each.fields)
        for version, fields in owned.items():
            at = self.others.get(version, own)
            whole, part = at.convert(clone(merged)), at.convert(clone(pruned))
            pruned = at.convert_back(typed.put_back(whole, part, fields, at.schema))
        return pruned

    def conflicts(self) -> dict[ManagerKey, FieldSet]:
        """Fields of others that would change."""
        found = {}
        for key, each in self.held.items():
            changed = self.changes.of(each.api_version)
            taken = fieldset.union(changed.added, changed.modified)
            common = fieldset.intersection(each.fields, taken) if key != self.key else {}
            if common:
                found[key] = common
        return found

    def result(self, now: datetime, last_applied: str | None) -> Object:
        new = {**self.new, "metadata": dict(self.new.get("metadata") or {})}
        if last_applied is not None:
            new["metadata"]["annotations"] = {**new["metadata"].get("annotations", {}), LAST_APPLIED: last_applied}
        held = managers.subtract(self.held, lambda each: _lost(self.changes.of(each.api_version)), self.key)
        held.pop(self.key, None)
        if self.claimed:
            held[self.key] = Managed(self.claimed, self.config.get("apiVersion", ""), format_time(now))
        _store(new["metadata"], held)
        return new


def conflict_error(conflicts: dict[ManagerKey, FieldSet], held: Managers) -> errors.StatusError:
    """409 that names each field and who holds it."""
    listed = [(managers.shown(key, held[key]), path) for key in conflicts for path in fieldset.paths(conflicts[key])]
    causes = [{"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path} for who, path in listed]
    if len(listed) == 1:
        who, path = listed[0]
        return errors.apply_conflict(causes, f"Apply failed with 1 conflict: conflict with {who}: {path}")
    lines = []
    for who in sorted({who for who, _ in listed}):
        lines.append(f"conflicts with {who}:")
        lines += [f"- {path}" for owner, path in listed if owner == who]
    return errors.apply_conflict(causes, f"Apply failed with {len(listed)} conflicts: " + "\n".join(lines))


def _last_applied(obj: Object) -> str | None:
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    return text if isinstance(text, str) else None


def _beyond_last_applied(conflicts: dict[ManagerKey, FieldSet], live: Object, schema: StructSchema) -> dict[ManagerKey, FieldSet]:
    """kubectl may take what its own client-side apply once set: no conflict remains if all are such fields."""
    try:
        last = orjson.loads(_last_applied(live) or "")
    except orjson.JSONDecodeError:
        return conflicts
    if not isinstance(last, dict) or typed.problems(last, schema):
        return conflicts
    allowed = compare.fields_of(last, schema)
    remaining = {key: fieldset.difference(fields, allowed) for key, fields in conflicts.items()}
    return {key: fields for key, fields in remaining.items() if fields}


def _next_last_applied(live: Object, config: Object, manager: str) -> str | None:
    """kubectl keeps the annotation of client-side apply in step where it exists, so that one may go back to it."""
    if manager != KUBECTL or _last_applied(live) is None:
        return None
    kept = {key: value for key, value in config.items() if key != "metadata"}
    metadata = dict(config.get("metadata") or {})
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    metadata["annotations"] = annotations
    return orjson.dumps({**kept, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"


def same_but_for_times(old: Object, new: Object) -> bool:
    """Whether a write would change nothing but the times in managedFields; then it should not happen at all.

    ``resourceVersion`` does not count, nor does the order of fields: clients send objects back in whatever order they like.
    """
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    blank = {"managedFields": None, "resourceVersion": None}
    if {**old, "metadata": None} != {**new, "metadata": None} or {**before, **blank} != {**after, **blank}:
        return False
    return _timeless(before.get("managedFields")) == _timeless(after.get("managedFields"))


def _timeless(entries: list[Object] | None) -> list[Object]:
    names = ("operation", "manager", "apiVersion", "subresource")
    stripped = [{**entry, "time": ""} for entry in entries or ()]
    return sorted(stripped, key=lambda entry: [entry.get(name, "") for name in names])
