"""The spec of Jobs, shared with CronJobs: defaults, the generated selector, validation."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, labels
from apimachinery.fieldpath import FieldError
from apimachinery.meta import condition_status
from component.featuregates import Gates
from controlplane.apiserver.kinds.batch.policies import check_policies
from controlplane.apiserver.kinds.core.pod_template import default_template, validate_template
from controlplane.apiserver.kinds.shared import checks

Object = dict[str, Any]

UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_MAX_INT32 = 2**31 - 1
_MODES = ("NonIndexed", "Indexed")
_MAX_MANAGER = 63
_MANY, _FEW = 100_000, 10_000  # indexes, beyond which their bookkeeping would not fit an object
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


def default_job_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32
    if not spec.get("completionMode"):
        spec["completionMode"] = "NonIndexed"
    if spec.get("suspend") is None:
        spec["suspend"] = False
    if spec.get("podReplacementPolicy") is None:
        spec["podReplacementPolicy"] = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    default_template(spec.setdefault("template", {}))


def generate_selector(job: Object) -> None:
    """Label the template with the Job's uid and name, and select by the uid."""
    metadata = job["spec"]["template"].setdefault("metadata", {})
    given, own = metadata.get("labels") or {}, job["metadata"].get("labels")
    generated = dict.fromkeys(NAME_LABELS, job["metadata"].get("name") or "")  # a missing name is refused later
    generated.update(dict.fromkeys(UID_LABELS, job["metadata"]["uid"]))
    metadata["labels"] = {**given, **generated}
    selector = job["spec"].setdefault("selector", {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), UID_LABELS[0]: job["metadata"]["uid"]}
    if not own or own == given:
        job["metadata"]["labels"] = dict(metadata["labels"])  # a Job without labels of its own carries those of its pods


def check_job_spec(spec: Mapping[str, Any], path: str, *, embedded: bool = False) -> list[FieldError]:
    """``embedded`` for the template of a CronJob, whose Jobs get their selectors later."""
    found: list[FieldError] = []
    for field in _COUNTS:
        found += checks.not_negative(spec.get(field), f"{path}.{field}")
    if not embedded and spec.get("selector") is None:
        found.append(fieldpath.required(f"{path}.selector"))
    elif not embedded:
        found += checks.label_selector(spec["selector"], f"{path}.selector")
    if not embedded:
        found += _check_match(spec)
    manager = spec.get("managedBy")
    if manager is not None:
        found += checks.domain_prefixed_path(manager, f"{path}.managedBy")
        if len(manager) > _MAX_MANAGER:
            found.append(fieldpath.too_long(f"{path}.managedBy", _MAX_MANAGER))
    found += _check_indexes(spec, path)
    found += check_policies({"completionMode": "NonIndexed", **spec}, path)
    template = spec.get("template") or {}
    found += validate_template(template, f"{path}.template")
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy in (None, "", "Always"):
        text = 'valid values: "OnFailure", "Never"'
        found.append(fieldpath.required(f"{path}.template.spec.restartPolicy", text))
    elif policy not in ("OnFailure", "Never"):
        found.append(fieldpath.not_supported(f"{path}.template.spec.restartPolicy", policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        found.append(fieldpath.invalid(f"{path}.template.spec.restartPolicy", policy, text))
    return found


def _check_indexes(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """``completionMode`` and what only Indexed Jobs may say (KEP-2214, KEP-3850)."""
    mode, completions, parallelism = spec.get("completionMode"), spec.get("completions"), spec.get("parallelism") or 0
    retries, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    found: list[FieldError] = []
    if failed is not None and retries is None:
        found.append(fieldpath.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if mode not in _MODES:
        return [*found, fieldpath.not_supported(f"{path}.completionMode", mode, _MODES)]
    if mode == "NonIndexed":
        given = [field for field in ("backoffLimitPerIndex", "maxFailedIndexes") if spec.get(field) is not None]
        text = "requires indexed completion mode"
        return found + [fieldpath.invalid(f"{path}.{field}", spec[field], text) for field in given]
    if completions is None:
        found.append(fieldpath.required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _MANY:
        text = f"must be less than or equal to {_MANY} when completion mode is Indexed"
        found.append(fieldpath.invalid(f"{path}.parallelism", parallelism, text))
    if failed is not None and completions is not None and failed > completions:
        found.append(fieldpath.invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MANY:
        found.append(fieldpath.invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MANY}"))
    if (completions or 0) > _MANY and retries is not None:
        text = f"must be less than or equal to {_FEW} when completions are above {_MANY} and used with backoff limit per index"
        if failed is None:
            missing = f"must be specified when completions is above {_MANY}"
            found.append(fieldpath.required(f"{path}.maxFailedIndexes", missing))
        numbers = (("parallelism", parallelism), ("maxFailedIndexes", failed or 0))
        found += [fieldpath.invalid(f"{path}.{field}", number, text) for field, number in numbers if number > _FEW]
    return found


def _check_match(spec: Mapping[str, Any]) -> list[FieldError]:
    held = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    try:
        matches = labels.from_label_selector(spec.get("selector")).matches(held)
    except ValueError:
        return []  # reported where the selector itself is checked
    text = "`selector` does not match template `labels`"
    return [] if matches else [fieldpath.invalid("spec.template.metadata.labels", held, text)]


def check_generated(job: Object) -> list[FieldError]:
    """Unless the selector is the client's own affair, template and selector carry what was generated at creation."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return []
    wanted = {**dict.fromkeys(UID_LABELS, metadata.get("uid")), **dict.fromkeys(NAME_LABELS, metadata.get("name") or "")}
    held = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    found: list[FieldError] = []
    for key, value in wanted.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in held:
            found.append(fieldpath.required(path, f"must be '{value}'"))
        elif held[key] != value:
            found.append(fieldpath.invalid("spec.template.metadata.labels", held, f"must be '{value}'"))
    try:
        matches = labels.from_label_selector(spec.get("selector")).matches(wanted)
    except ValueError:
        return found  # reported where the selector itself is checked
    if spec.get("selector") is not None and not matches:
        found.append(fieldpath.invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return found


_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates", "topologySpreadConstraints")


def check_job_spec_update(spec: Object, old: Object, features: Gates) -> list[FieldError]:
    """Parallelism, suspension, limits and deadlines may change; selector, template and completions may not.

    Of the template of a suspended Job without active pods, upstream lets change where its pods run and what they ask for
    (KEP-2926, KEP-5440), each with a feature.
    """
    held = old["spec"]
    found: list[FieldError] = []
    for field in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        found += checks.immutable(spec.get(field), held.get(field), f"spec.{field}")
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic:
        found += checks.immutable(spec.get("completions"), held.get("completions"), "spec.completions")
    new, stored = spec.get("template") or {}, held.get("template") or {}
    if new != stored and held.get("suspend"):
        status = old.get("status") or {}
        fresh = not status.get("startTime")
        idle = not status.get("active") and (fresh or condition_status(old, "Suspended") == "True")
        if idle if features.enabled("MutableSchedulingDirectivesForSuspendedJobs") else fresh:
            new, stored = _without_scheduling(new), _without_scheduling(stored)
        if idle and features.enabled("MutablePodResourcesForSuspendedJobs"):
            new, stored = _without_amounts(new), _without_amounts(stored)
    return found + checks.immutable(new, stored, "spec.template")


def _without_amounts(template: Mapping[str, Any]) -> Object:
    """A template without what its containers request and are limited to."""
    spec = dict(template.get("spec") or {})
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = [_unasking(container) for container in spec[part]]
    return {**template, "spec": spec}


def _unasking(container: Mapping[str, Any]) -> Object:
    rest = {key: value for key, value in (container.get("resources") or {}).items() if key not in ("requests", "limits")}
    return {**container, "resources": rest}


def _without_scheduling(template: Mapping[str, Any]) -> Object:
    """A template without what decides where its pods run."""
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in _SCHEDULING}
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if key not in ("labels", "annotations")}
    return {"spec": spec, "metadata": metadata}
