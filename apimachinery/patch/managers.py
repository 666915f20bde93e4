"""``metadata.managedFields``: who manages which fields, decoded for work and encoded again.

An entry is a dict as the API has it; its ``fieldsV1`` is a ``fieldset.FieldSet`` already. Used by ``apply``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from apimachinery.patch import fieldset
from apimachinery.patch.fieldset import FieldSet

Object = dict[str, Any]

APPLY = "Apply"
UPDATE = "Update"
MAX_UPDATERS = 10
ANCIENT = "ancient-changes"  # who inherits the fields of the oldest updaters past the limit


@dataclass(frozen=True, slots=True)
class ManagerKey:
    """What makes two entries the same manager. Appliers are one manager whatever version they applied."""

    name: str
    operation: str
    api_version: str
    subresource: str

    @classmethod
    def of(cls, name: str, operation: str, api_version: str, subresource: str) -> "ManagerKey":
        return cls(name, operation, "" if operation == APPLY else api_version, subresource)


@dataclass(frozen=True, slots=True)
class Managed:
    """What one manager manages. ``entry`` is the stored form while nothing changed, None afterwards."""

    fields: FieldSet
    api_version: str
    time: str
    entry: Object | None = None

    def with_fields(self, fields: FieldSet) -> "Managed":
        return self if fields is self.fields else Managed(fields, self.api_version, self.time)


Managers = dict[ManagerKey, Managed]


def decode(entries: Any) -> Managers | None:
    """None for anything that is not a well-formed list of entries."""
    if entries is None:
        return {}
    if not isinstance(entries, list):
        return None
    result: Managers = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
            return None
        fields = entry.get("fieldsV1", {})
        if not isinstance(fields, dict) or entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            return None
        version = entry.get("apiVersion", "")
        key = ManagerKey.of(entry.get("manager", ""), entry["operation"], version, entry.get("subresource", ""))
        result[key] = Managed(fields, version, entry.get("time", ""), entry)
    return result


def of_request(old: Object, new: Object, subresource: str) -> Managers:
    """The managers to start from. Clients may edit them through the object itself: ``[{}]`` forgets everybody, and what is
    missing or malformed means what is stored."""
    stored = decode(_entries(old)) or {}
    sent = _entries(new)
    if subresource or not sent:
        return stored
    if sent == [{}]:
        return {}
    if sent == _entries(old):
        return stored
    edited = decode(sent)
    if not edited or not all(fieldset.is_valid(each.fields) for each in edited.values()):
        return stored
    return edited


def _entries(obj: Object) -> Any:
    return (obj.get("metadata") or {}).get("managedFields")


def encode(managers: Managers) -> list[Object]:
    """Entries in upstream's order. Managers without fields are dropped."""
    kept = [(key, each) for key, each in managers.items() if each.fields]
    kept.sort(key=lambda pair: (pair[0].operation, pair[1].time, pair[0].name, pair[1].api_version, pair[0].subresource))
    return [each.entry or _entry(key, each) for key, each in kept]


def _entry(key: ManagerKey, each: Managed) -> Object:
    entry: Object = {"manager": key.name, "operation": key.operation, "apiVersion": each.api_version}
    if each.time:
        entry["time"] = each.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": fieldset.ordered(each.fields)}
    if key.subresource:
        entry["subresource"] = key.subresource
    return entry


def cap(managers: Managers) -> Managers:
    """Fold the oldest updaters into one when there are more than ``MAX_UPDATERS``."""
    updaters = [key for key in managers if key.operation == UPDATE]
    if len(updaters) <= MAX_UPDATERS:
        return managers
    updaters.sort(key=lambda key: (managers[key].time, key.name))
    result = dict(managers)
    for key in updaters[: len(updaters) - MAX_UPDATERS + 1]:
        old = result.pop(key)
        bucket = ManagerKey.of(ANCIENT, UPDATE, old.api_version, "")
        held = result.get(bucket)
        fields = fieldset.union(held.fields, old.fields) if held else old.fields
        result[bucket] = Managed(fields, old.api_version, old.time)
    return result


def shown(key: ManagerKey, each: Managed) -> str:
    """A manager as conflict messages name it."""
    text = f'"{key.name}"'
    if key.subresource:
        text += f' with subresource "{key.subresource}"'
    if key.operation == UPDATE:
        text += f" using {each.api_version}"
    return text


def subtract(managers: Managers, lost: Callable[[Managed], Iterable[FieldSet]], spare: ManagerKey | None) -> Managers:
    """Take from everybody but ``spare`` what ``lost`` says of each."""
    result = {}
    for key, each in managers.items():
        held = each.fields
        if key != spare:
            for gone in lost(each):
                held = fieldset.difference(held, gone)
        if held:
            result[key] = each.with_fields(held)
    return result
