"""Validation that workloads share: selectors against templates, numbers or percentages, rolling updates."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, intstr, labels, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks


def selector_and_labels(spec: Mapping[str, Any], kind: str = "deployment") -> list[FieldError]:
    """``spec.selector`` is there, not empty, well formed, and matches the labels of ``spec.template``.

    An absent selector matches nothing, so it is reported together with the labels it does not match. ``kind`` goes into the
    message about an empty one.
    """
    selector = spec.get("selector")
    found = checks.label_selector(selector, "spec.selector")
    if selector is None and kind != "daemonset":  # the one that upstream does not ask for it by itself
        found.append(fieldpath.required("spec.selector"))
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {kind}"
        found.append(fieldpath.invalid("spec.selector", selector, text))
    held = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    try:
        matches = labels.from_label_selector(selector).matches(held)
    except ValueError:
        return [*found, fieldpath.invalid("spec.selector", selector, "invalid label selector")]
    if not matches:
        text = "`selector` does not match template `labels`"
        found.append(fieldpath.invalid("spec.template.metadata.labels", held, text))
    return found


def always_restarts(template: Mapping[str, Any], kind: str = "ReplicaSet", path: str = "spec.template") -> list[FieldError]:
    """Templates of workloads that never end restart their containers always and have no deadline.

    ``kind`` goes into the message; Deployments speak of ReplicaSets, too.
    """
    spec = template.get("spec") or {}
    found: list[FieldError] = []
    if spec.get("restartPolicy") not in (None, "Always"):
        found.append(fieldpath.not_supported(f"{path}.spec.restartPolicy", spec["restartPolicy"], ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        found.append(fieldpath.forbidden(f"{path}.spec.activeDeadlineSeconds", text))
    return found


def number_or_percent(value: int | str | None, path: str) -> list[FieldError]:
    """Not negative, or digits and a percent sign."""
    if isinstance(value, str):
        return checks.each(path, value, names.is_percent(value))
    return checks.not_negative(value, path)


def at_most_100_percent(value: int | str | None, path: str) -> list[FieldError]:
    part = intstr.percent(value) if value is not None else None
    return [fieldpath.invalid(path, value, "must not be greater than 100%")] if part is not None and part > 100 else []


def is_zero(value: int | str | None) -> bool:
    return value is None or value == 0 or (isinstance(value, str) and intstr.percent(value) == 0)
