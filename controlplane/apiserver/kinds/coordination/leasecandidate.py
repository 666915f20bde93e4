"""LeaseCandidates: who would like to hold a lease, for coordinated leader election."""

import re
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.coordination.lease import check_strategy
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_VERSION = re.compile(r"v?\d+\.\d+(\.\d+)?([-+][0-9A-Za-z.+-]+)?").fullmatch


def _numbers(version: str) -> tuple[int, ...]:
    found = _VERSION(version)
    return tuple(int(part) for part in re.split("[-+]", version.removeprefix("v"))[0].split(".")) if found else ()


class LeaseCandidateStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("coordination.k8s.io", "v1beta1", "LeaseCandidate"), "leasecandidates", "leasecandidate", True
    )
    gates = ("CoordinatedLeaderElection",)
    columns = (
        NAME,
        Column("LeaseName", description="The lease that is wanted."),
        Column("BinaryVersion", description="The version of the candidate."),
        Column("EmulationVersion", description="The version that the candidate behaves like."),
        AGE,
    )
    allow_create_on_update = True
    selectable_names = frozenset({"spec.leaseName"})

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = [fieldpath.required(f"spec.{field}") for field in ("leaseName", "strategy") if not spec.get(field)]
        if not spec.get("binaryVersion"):
            found.append(fieldpath.required("spec.binaryVersion"))
        for field in ("binaryVersion", "emulationVersion"):
            text = spec.get(field)
            if text and not _VERSION(text):
                found.append(fieldpath.invalid(f"spec.{field}", text, f'could not parse "{text}" as version'))
        binary, emulated = (_numbers(spec.get(field) or "") for field in ("binaryVersion", "emulationVersion"))
        if not found and binary < emulated:
            text = "must be greater than or equal to `emulationVersion`"
            found.append(fieldpath.invalid("spec.binaryVersion", spec["binaryVersion"], text))
        strategy = spec.get("strategy")
        if strategy:
            if strategy == "OldestEmulationVersion" and not spec.get("emulationVersion"):
                text = "must be specified when `strategy` is 'OldestEmulationVersion'"
                found.append(fieldpath.required("spec.emulationVersion", text))
            found += check_strategy(strategy, "spec.strategy")
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        held = (old.get("spec") or {}).get("leaseName")
        return self.validate(ctx, obj) + checks.immutable(obj["spec"].get("leaseName"), held, "spec.leaseName")

    def selectable_fields(self, obj: Object) -> dict[str, str]:
        return {"spec.leaseName": str((obj.get("spec") or {}).get("leaseName") or "")}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        words = [spec.get(field) or "" for field in ("leaseName", "binaryVersion", "emulationVersion")]
        return [obj["metadata"]["name"], *words, age_of(obj, now)]
