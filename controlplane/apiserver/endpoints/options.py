"""Query parameters as typed options. Raises upstream's 400 and 422 for values that make no sense. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from apimachinery import errors, fieldpath, fields, labels
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.interface import ListOptions, Matches, WatchOptions
from controlplane.apiserver.wire.info import is_true

IGNORE, WARN, STRICT = "Ignore", "Warn", "Strict"
_MAX_MANAGER = 128
_INTEGER = re.compile(r"[+-]?[0-9]+")
_META = "meta.k8s.io"
_LONG = 1024  # characters of selectors, beyond which they are not remembered
_ALWAYS_SELECTABLE = frozenset({"metadata.name", "metadata.namespace"})


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """CreateOptions, UpdateOptions and PatchOptions in one."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = WARN
    force: bool = False


def write_options(query: Mapping[str, str], kind: str, user_agent: str = "") -> WriteOptions:
    """``kind`` names the options in error messages: CreateOptions, UpdateOptions or PatchOptions."""
    found: list[FieldError] = []
    dry_run = _dry_run(query.get("dryRun"), found)
    manager = query.get("fieldManager", "")
    if len(manager) > _MAX_MANAGER:
        found.append(fieldpath.too_long("fieldManager", _MAX_MANAGER))
    if not manager.isprintable():
        found.append(fieldpath.invalid("fieldManager", manager, "should only contain printable characters"))
    validation = query.get("fieldValidation", "") or WARN
    if validation not in (IGNORE, WARN, STRICT):
        found.append(fieldpath.not_supported("fieldValidation", validation, [IGNORE, STRICT, WARN]))
    if found:
        raise errors.invalid(kind, "", found, _META)
    return WriteOptions(dry_run, manager or manager_of(user_agent), validation, is_true(query.get("force")))


def _dry_run(text: str | None, found: list[FieldError]) -> bool:
    if not text:
        return False
    if text != "All":
        found.append(fieldpath.not_supported("dryRun", [text], ["All"]))
    return True


def manager_of(user_agent: str) -> str:
    """The field manager of a client that names none: the program part of its user agent."""
    name = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return name[:_MAX_MANAGER] or "unknown"


def delete_options(query: Mapping[str, str], body: dict[str, Any] | None) -> dict[str, Any]:
    """DeleteOptions from a body if there is one, else from the query."""
    if body is None:
        body = {}
        if "gracePeriodSeconds" in query:
            body["gracePeriodSeconds"] = integer(query["gracePeriodSeconds"])
        if query.get("propagationPolicy"):
            body["propagationPolicy"] = query["propagationPolicy"]
        if "orphanDependents" in query:
            body["orphanDependents"] = is_true(query["orphanDependents"])
        if query.get("dryRun"):
            body["dryRun"] = [query["dryRun"]]
    if any(one != "All" for one in body.get("dryRun") or []):
        unsupported = fieldpath.not_supported("dryRun", body["dryRun"], ["All"])
        raise errors.invalid("DeleteOptions", "", [unsupported], _META)
    return body


class Selection:
    """The selectors of a list, watch or deletecollection, parsed and compiled. ``matches`` is None when everything matches."""

    __slots__ = ("equals", "matches", "text")

    def __init__(self, by_label: labels.Selector = labels.EVERYTHING, by_field: fields.Selector = fields.EVERYTHING) -> None:
        self.equals = by_field.equals()
        self.text = "" if by_label.empty and by_field.empty else f"{by_label}&{by_field}"  # equal for selections of the same
        self.matches = _compiled(by_label, by_field)


def _compiled(by_label: labels.Selector, by_field: fields.Selector) -> Matches | None:
    tests = [*map(_field_test, by_field.requirements), *map(_label_test, by_label.requirements)]
    if len(tests) < 2:
        return tests[0] if tests else None
    if len(tests) == 2:
        first, second = tests
        return lambda traits: first(traits) and second(traits)
    return lambda traits: all(test(traits) for test in tests)


def _field_test(requirement: fields.Requirement) -> Matches:
    """A list asks this of every object, so the usual operator costs one call."""
    name, value = requirement.field, requirement.value
    if requirement.operator == "=":
        return lambda traits: traits.fields.get(name, "") == value
    return lambda traits: traits.fields.get(name, "") != value


def _label_test(requirement: labels.Requirement) -> Matches:
    name = requirement.key
    if requirement.operator in ("=", "=="):
        (value,) = requirement.values
        return lambda traits: traits.labels.get(name) == value
    return lambda traits: requirement.matches(traits.labels)


def selection(query: Mapping[str, str], strategy: Strategy, name: str = "") -> Selection:
    """``name`` is the object a watch URL names; it becomes a field requirement. Raises a 400 for what cannot be parsed."""
    label_text, field_text = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not label_text and not field_text and not name:
        return EVERYTHING
    if len(label_text) + len(field_text) + len(name) > _LONG:
        return _parsed(label_text, field_text, name, strategy)
    return _remembered(label_text, field_text, name, strategy)


def _parsed(label_text: str, field_text: str, name: str, strategy: Strategy) -> Selection:
    try:
        by_label = labels.parse(label_text) if label_text else labels.EVERYTHING
        by_field = fields.parse(field_text) if field_text else fields.EVERYTHING
    except ValueError as problem:
        raise errors.bad_request(str(problem)) from None
    by_field = fields.Selector(tuple(_known(requirement, strategy) for requirement in by_field.requirements))
    if name and not any(one == ("metadata.name", name) for one in by_field.equals()):
        by_field = fields.Selector((*by_field.requirements, fields.Requirement("metadata.name", "=", name)))
    return Selection(by_label, by_field)


# Clients ask the same again and again; one function for all who do lets an event be judged once for them.
_remembered = lru_cache(maxsize=512)(_parsed)
EVERYTHING = Selection()


def _known(requirement: fields.Requirement, strategy: Strategy) -> fields.Requirement:
    """The requirement in terms of what is extracted from stored objects; a 400 for a field that the kind does not offer."""
    name = requirement.field
    if name in strategy.selectable_aliases:
        return replace(requirement, field=strategy.selectable_aliases[name])
    # upstream's kinds with fields of their own list every one they know; what has no namespace does not know that one
    unknown = name == "metadata.namespace" and bool(strategy.selectable_names) and not strategy.info.namespaced
    if name in strategy.selectable_names or (name in _ALWAYS_SELECTABLE and not unknown):
        return requirement
    if strategy.selectable_names:
        raise errors.bad_request(f"field label not supported: {name}")
    raise errors.bad_request(f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def list_options(query: Mapping[str, str], strategy: Strategy) -> ListOptions:
    if not query:
        return ListOptions()
    chosen = selection(query, strategy)
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    _check_list(version, match, token, query)
    limit = integer(query["limit"]) if query.get("limit") else 0
    timeout_seconds(query)  # a list ends in time anyway; what is no number is refused all the same
    return ListOptions(version, match, max(limit, 0), token, chosen.matches, chosen.equals, chosen.text)


def _check_list(version: str, match: str, token: str, query: Mapping[str, str]) -> None:
    found: list[FieldError] = []
    path = "resourceVersionMatch"
    if "sendInitialEvents" in query:
        found.append(fieldpath.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match:
        if not version:
            found.append(fieldpath.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if token:
            found.append(fieldpath.forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            found.append(fieldpath.not_supported(path, match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            found.append(fieldpath.forbidden(path, text))
    if found:
        raise errors.invalid("ListOptions", "", found, _META)


def watch_options(
    query: Mapping[str, str], strategy: Strategy, name: str = "", seconds: float = 0, *, streamed_lists: bool = True
) -> WatchOptions:
    """``streamed_lists``: whether a watch may begin with what there is (the feature WatchList)."""
    chosen = selection(query, strategy, name)
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    initial = is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None
    bookmarks = is_true(query.get("allowWatchBookmarks"))
    found: list[FieldError] = []
    if query.get("limit"):
        integer(query["limit"])  # says nothing about a watch, but has to be a number
    if "sendInitialEvents" in query:
        if match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            found.append(fieldpath.forbidden("resourceVersionMatch", text))
        if not streamed_lists:
            text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            found.append(fieldpath.forbidden("sendInitialEvents", text))
    elif match:
        found.append(
            fieldpath.forbidden(
                "resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        )
    if query.get("continue"):
        found.append(fieldpath.forbidden("continue", "continue is forbidden for watch"))
    if found:
        raise errors.invalid("ListOptions", "", found, _META)
    return WatchOptions(version, chosen.matches, bookmarks, initial, chosen.equals, seconds)


def timeout_seconds(query: Mapping[str, str]) -> int | None:
    text = query.get("timeoutSeconds")
    return integer(text) if text else None


def integer(text: str) -> int:
    """As Go's ``ParseInt`` takes it: Python's ``int`` would take spaces, underscores and other scripts' digits as well."""
    if not _INTEGER.fullmatch(text):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    # compared by length first: Python refuses to read thousands of digits
    if len(text) > 40 or not -(1 << 63) <= (value := int(text)) < 1 << 63:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value
