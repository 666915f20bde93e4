"""Conditions of a CustomResourceDefinition, and what two of its controllers say in them. Pure; used by ``lifecycle``.

Source of rules and words: k8s.io/apiextensions-apiserver ``pkg/controller/status``, ``establish``, ``apiapproval``,
``nonstructuralschema``.
"""

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import orjson

from apimachinery import fieldpath
from apimachinery.times import format_time
from controlplane.apiserver.crd.definition import ESTABLISHED, NAMES_ACCEPTED, TERMINATING, preserves, schema_of
from controlplane.apiserver.crd.structural import structuralness
from controlplane.apiserver.crd.structural.node import UnsupportedSchemaError, read

Object = dict[str, Any]

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
NON_STRUCTURAL = "NonStructuralSchema"
API_APPROVAL = "KubernetesAPIApprovalPolicyConformant"
APPROVED_BY = "api-approved.kubernetes.io"
_POLICY = "https://github.com/kubernetes/enhancements/pull/1111"


def condition(kind: str, status: bool, reason: str, message: str) -> Object:
    """Without the time of its last transition, which :func:`put` fills in."""
    return {"type": kind, "status": "True" if status else "False", "reason": reason, "message": message}


def find(status: Object, kind: str) -> Object | None:
    return next((each for each in status.get("conditions") or () if each.get("type") == kind), None)


def is_true(status: Object, kind: str) -> bool:
    found = find(status, kind)
    return found is not None and found.get("status") == "True"


def put(status: Object, wanted: Object, now: datetime) -> Object:
    """``status`` with the condition in place of the one of its type; the time moves only when it becomes another value."""
    held = find(status, wanted["type"])
    moved = held is None or held.get("status") != wanted["status"] or not held.get("lastTransitionTime")
    time = format_time(now) if moved or held is None else held["lastTransitionTime"]
    made = {**wanted, "lastTransitionTime": time}
    others = [made if each is held else each for each in status.get("conditions") or ()]
    return {**status, "conditions": others if held is not None else [*others, made]}


def without(status: Object, kind: str) -> Object:
    return {**status, "conditions": [each for each in status.get("conditions") or () if each.get("type") != kind]}


def accept_names(crd: Object, others: list[Object], now: datetime) -> Object:
    """The status of ``crd`` after as many of its names were accepted as no other definition of its group holds."""
    status = crd.get("status") or {}
    wanted, held = crd["spec"]["names"], status.get("acceptedNames") or {}
    if _names(wanted) == _names(held):
        return status
    resources, kinds = _taken([*others, crd])
    accepted, trouble = dict(held), None
    for field, taken, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        wrong = _short_names(wanted, held, taken) if field == "shortNames" else _name(wanted, held, field, taken)
        if wrong:
            trouble = condition(NAMES_ACCEPTED, False, reason, wrong)
        else:
            _take(accepted, wanted, field)
    _take(accepted, wanted, "categories")
    names = trouble or condition(NAMES_ACCEPTED, True, "NoConflicts", "no conflicts found")
    established = find(status, ESTABLISHED) or condition(ESTABLISHED, False, "NotAccepted", "not all names are accepted")
    if established["status"] != "True" and trouble is None:
        established = condition(ESTABLISHED, False, "Installing", "the initial names have been accepted")
    if accepted == held and (before := find(status, NAMES_ACCEPTED)) is not None and _same(before, names):
        return status
    new = put(put({**status, "acceptedNames": accepted}, names, now), established, now)
    return {**new, "storedVersions": status.get("storedVersions") or []}


def _same(one: Object, other: Object) -> bool:
    return all(one.get(field) == other.get(field) for field in ("status", "reason", "message"))


def _names(names: Object) -> Object:
    return {key: value for key, value in names.items() if value}


def _take(accepted: Object, wanted: Object, field: str) -> None:
    if wanted.get(field):
        accepted[field] = wanted[field]
    else:
        accepted.pop(field, None)


def _taken(crds: list[Object]) -> tuple[set[str], set[str]]:
    """The resource names and the kinds that are accepted somewhere."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for crd in crds:
        names = (crd.get("status") or {}).get("acceptedNames") or {}
        resources.update(filter(None, (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ()))))
        kinds.update(filter(None, (names.get("kind"), names.get("listKind"))))
    return resources, kinds


def _name(wanted: Object, held: Object, field: str, taken: set[str]) -> str:
    name = wanted.get(field) or ""
    return "" if name == (held.get(field) or "") or name not in taken else _in_use(name)


def _short_names(wanted: Object, held: Object, taken: set[str]) -> str:
    own = {*(held.get("shortNames") or ()), held.get("plural"), held.get("singular")}
    found = [_in_use(name) for name in wanted.get("shortNames") or () if name not in own and name in taken]
    return found[0] if len(found) == 1 else f"[{', '.join(dict.fromkeys(found))}]" if found else ""


def _in_use(name: str) -> str:
    return f"{orjson.dumps(name).decode()} is already in use"


def establish(status: Object, now: datetime) -> Object:
    """Established, for good, once the names were accepted."""
    if not is_true(status, NAMES_ACCEPTED) or is_true(status, ESTABLISHED):
        return status
    return put(status, condition(ESTABLISHED, True, "InitialNamesAccepted", "the initial names have been accepted"), now)


def structural(crd: Object) -> Object | None:
    """The condition that says why the schemas are not structural; None when they are, as of all that were made as v1."""
    if not preserves(crd):
        return None
    found = [str(fieldpath.invalid("spec.preserveUnknownFields", True, "must be false"))]
    for index, version in enumerate(crd["spec"]["versions"]):
        try:
            node = read(schema_of(crd, version["name"]))
        except UnsupportedSchemaError as problem:
            text = f"failed to check validation schema for version {version['name']}: {problem}"
            return {**condition(NON_STRUCTURAL, False, "StructuralError", text), "status": "Unknown"}
        found += map(str, structuralness.problems(node, f"spec.versions[{index}].schema.openAPIV3Schema"))
    text = found[0] if len(found) == 1 else f"[{', '.join(dict.fromkeys(found))}]"
    return condition(NON_STRUCTURAL, True, "Violations", text)


def judge(status: Object, wanted: Object | None, now: datetime) -> Object:
    """The status with what :func:`structural` says."""
    held = find(status, NON_STRUCTURAL)
    if wanted is None:
        return status if held is None else without(status, NON_STRUCTURAL)
    return status if held is not None and _same(held, wanted) else put(status, wanted, now)


def leave(crd: Object, now: datetime) -> None:
    """Mark a definition, in place, whose instances are to go before it does."""
    meta = crd["metadata"]
    if FINALIZER not in (held := meta.get("finalizers") or []):
        meta["finalizers"] = [*held, FINALIZER]
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    crd["status"] = put(crd.get("status") or {}, condition(TERMINATING, True, "InstanceDeletionPending", text), now)


def is_protected(group: str) -> bool:
    """Whether the group is one of the community's, whose definitions need approval."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def approve(crd: Object, status: Object, now: datetime) -> Object:
    """The status with what the approval annotation says; definitions of other groups have no such condition."""
    if not is_protected(crd["spec"]["group"]):
        return status
    wanted = _approval((crd["metadata"].get("annotations") or {}).get(APPROVED_BY) or "")
    held = find(status, API_APPROVAL)
    return status if held is not None and _same(held, wanted) else put(status, wanted, now)


def _approval(annotation: str) -> Object:
    needed = f'protected groups must have approval annotation "{APPROVED_BY}"'
    if not annotation:
        return condition(API_APPROVAL, False, "MissingAnnotation", f"{needed}, see {_POLICY}")
    if annotation.startswith("unapproved"):
        quoted = orjson.dumps(annotation).decode()
        return condition(API_APPROVAL, False, "UnapprovedAnnotation", f"not approved: {quoted}")
    try:
        parts = urlsplit(annotation)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme and parts.netloc:
        return condition(API_APPROVAL, True, "ApprovedAnnotation", f"approved in {annotation}")
    text = f'{needed} with either a URL or a reason starting with "unapproved", see {_POLICY}'
    return condition(API_APPROVAL, False, "InvalidAnnotation", text)
