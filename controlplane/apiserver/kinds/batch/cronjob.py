"""CronJobs: Jobs made on a schedule."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.batch import schedule
from controlplane.apiserver.kinds.batch.job_template import check_job_spec
from controlplane.apiserver.kinds.core.pod_template import default_template, name_warning, template_warnings
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    NONE,
    SELECTOR,
    age_of,
    selector_text,
    template_cells,
)
from controlplane.apiserver.registry.printing import age
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_POLICIES = ("Allow", "Forbid", "Replace")
_NAME_MAX = 52  # eleven characters are left for what the controller appends


class CronJobStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("batch", "v1", "CronJob"), "cronjobs", "cronjob", True, short_names=("cj",), categories=("all",)
    )
    columns = (
        NAME,
        Column("Schedule", description="When Jobs are made, in Cron format."),
        Column("Timezone", description="The time zone of the schedule."),
        Column("Suspend", type="boolean", description="Whether no further Jobs are made."),
        Column("Active", type="integer", description="Jobs that are running."),
        Column("Last Schedule", description="When a Job was last made."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        for field, value in (("suspend", False), ("successfulJobsHistoryLimit", 3), ("failedJobsHistoryLimit", 1)):
            if spec.get(field) is None:
                spec[field] = value
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        default_template(template.setdefault("spec", {}).setdefault("template", {}))

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = _check_schedule(spec)
        if len(obj["metadata"].get("name") or "") > _NAME_MAX:
            text = f"must be no more than {_NAME_MAX} characters"
            found.append(fieldpath.invalid("metadata.name", obj["metadata"]["name"], text))
        found += checks.one_of(spec.get("concurrencyPolicy"), _POLICIES, "spec.concurrencyPolicy")
        for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            found += checks.not_negative(spec.get(field), f"spec.{field}")
        job = {"completionMode": "NonIndexed", **spec["jobTemplate"]["spec"]}
        if job.get("selector") is not None:
            found.append(
                fieldpath.invalid("spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated")
            )
        if job.get("manualSelector"):
            found.append(fieldpath.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
        return found + check_job_spec(job, "spec.jobTemplate.spec", embedded=True)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        named = name_warning(obj["metadata"]["name"]) if old is None else []
        return named + template_warnings(obj["spec"]["jobTemplate"]["spec"]["template"], "spec.jobTemplate.spec.template")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        job = (spec.get("jobTemplate") or {}).get("spec") or {}
        last = status.get("lastScheduleTime")
        return [
            obj["metadata"]["name"],
            spec.get("schedule") or "",
            spec.get("timeZone") or NONE,
            "True" if spec.get("suspend") else "False",
            len(status.get("active") or ()),
            age(last, now) if last else NONE,
            age_of(obj, now),
            *template_cells(job.get("template") or {}),
            selector_text(job.get("selector")),
        ]


def _check_schedule(spec: Object) -> list[FieldError]:
    text = spec.get("schedule") or ""
    if not text:
        return [fieldpath.required("spec.schedule")]
    found: list[FieldError] = []
    wrong = schedule.problem(text)
    if wrong:
        found.append(fieldpath.invalid("spec.schedule", text, wrong))
    if "TZ" in text:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        found.append(fieldpath.invalid("spec.schedule", text, why))
    zone = spec.get("timeZone")
    if zone is not None:
        if not zone:
            found.append(fieldpath.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string"))
        elif zone.lower() == "local":
            found.append(
                fieldpath.invalid(
                    "spec.timeZone", zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
                )
            )
        elif not schedule.is_zone(zone):
            found.append(fieldpath.invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    return found
