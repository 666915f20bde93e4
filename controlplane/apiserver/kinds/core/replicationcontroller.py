"""ReplicationControllers: the older form of ReplicaSets, with a plain map as selector."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.core.pod_template import default_template, name_warning, template_warnings, validate_template
from controlplane.apiserver.kinds.shared import checks, workload
from controlplane.apiserver.kinds.shared.columns import AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age_of, map_text, template_cells
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class ReplicationControllerStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("", "v1", "ReplicationController"),
        "replicationcontrollers",
        "replicationcontroller",
        True,
        short_names=("rc",),
        categories=("all",),
    )
    columns = (
        NAME,
        Column("Desired", type="integer", description="The number of desired replicas."),
        Column("Current", type="integer", description="The most recently observed number of replicas."),
        Column("Ready", type="integer", description="The number of ready replicas."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )
    has_status = True
    has_scale = True
    has_generation = True
    orphan_by_default = True
    selectable_names = frozenset({"status.replicas"})

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        template = spec.get("template")
        if template is None:
            return
        default_template(template)
        held = template["metadata"].get("labels")
        if held:
            spec.setdefault("selector", dict(held))
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(held)

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = checks.not_negative(spec.get("replicas"), "spec.replicas")
        found += checks.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        selector, template = spec.get("selector") or {}, spec.get("template")
        if not selector:
            found.append(fieldpath.required("spec.selector"))
        if template is None:
            return [*found, fieldpath.required("spec.template")]
        held = template["metadata"].get("labels") or {}
        if not selector.items() <= held.items():
            text = "`selector` does not match template `labels`"
            found.append(fieldpath.invalid("spec.template.metadata.labels", held, text))
        return found + validate_template(template, "spec.template") + workload.always_restarts(template, "ReplicationController")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas") or 0)}

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        named = name_warning(obj["metadata"]["name"]) if old is None else []
        return named + template_warnings(obj["spec"].get("template") or {}, "spec.template")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return [
            obj["metadata"]["name"],
            spec.get("replicas") or 0,
            status.get("replicas") or 0,
            status.get("readyReplicas") or 0,
            age_of(obj, now),
            *template_cells(spec.get("template") or {}),
            map_text(spec.get("selector")),
        ]
