"""Jobs: Pods that run until enough of them have succeeded."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import condition_status
from apimachinery.times import parse_time
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.apiserver.kinds.batch.job_template import (
    check_generated,
    check_job_spec,
    check_job_spec_update,
    default_job_spec,
    generate_selector,
)
from controlplane.apiserver.kinds.core.pod_template import name_warning, template_warnings
from controlplane.apiserver.kinds.shared.columns import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    SELECTOR,
    age_of,
    selector_text,
    template_cells,
)
from controlplane.apiserver.registry.printing import human_duration
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


class JobStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("batch", "v1", "Job"), "jobs", "job", True, categories=("all",))
    columns = (
        NAME,
        Column("Status", description="Status of the job."),
        Column("Completions", description="Pods that have succeeded, of those that must."),
        Column("Duration", description="Time required to complete the job."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )
    has_status = True
    has_generation = True
    orphan_by_default = True
    selectable_names = frozenset({"status.successful"})

    def __init__(self, features: Gates = DEFAULTS) -> None:
        self._features = features

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_job_spec(spec)
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}
        if not obj["spec"].get("manualSelector"):
            generate_selector(obj)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return check_job_spec(obj["spec"], "spec") + check_generated(obj)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj) + check_job_spec_update(obj["spec"], old, self._features)

    def begin_delete(self, ctx: Context, obj: Object, options: Object) -> bool:
        if not options.get("propagationPolicy") and options.get("orphanDependents") is None:
            ctx.warnings.append(_ORPHANS)
        return False

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.successful": str((obj.get("status") or {}).get("succeeded") or 0)}

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        named = name_warning(obj["metadata"]["name"]) if old is None else []
        return named + template_warnings(obj["spec"]["template"], "spec.template")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        return [
            obj["metadata"]["name"],
            _state(obj),
            _completions(spec, (obj.get("status") or {}).get("succeeded") or 0),
            _duration(obj.get("status") or {}, now),
            age_of(obj, now),
            *template_cells(spec.get("template") or {}),
            selector_text(spec.get("selector")),
        ]


def _state(job: Object) -> str:
    for condition, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition_status(job, condition) == "True":
            return word
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition_status(job, condition) == "True":
            return condition
    return "Running"


def _completions(spec: Object, succeeded: int) -> str:
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(status: Object, now: datetime) -> str:
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return human_duration((end - parse_time(status["startTime"])).total_seconds())
