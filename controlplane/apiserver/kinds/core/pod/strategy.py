"""The life of a Pod in the API server: created Pending, bound once, deleted gracefully by its kubelet."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery.fieldpath import FieldError
from apimachinery.objects import qos
from apimachinery.objects.pods import is_terminal, pod_ips
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.apiserver.kinds.core.pod import table, validation
from controlplane.apiserver.kinds.core.pod.defaults import default_pod, sync_addresses
from controlplane.apiserver.kinds.core.pod.match_labels import apply_match_label_keys
from controlplane.apiserver.kinds.core.pod.subresources import POD, subresources
from controlplane.apiserver.kinds.core.pod_template import pod_warnings
from controlplane.apiserver.kinds.core.pod_template.defaults import mirror_service_account
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy

_GATED = "Scheduling is blocked due to non-empty scheduling gates"
_SPEC_FIELDS = ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")


class PodStrategy(Strategy):
    """Rules of Pods; see the neighbouring modules."""

    info = ResourceInfo(POD, "pods", "pod", True, short_names=("po",), categories=("all",))
    columns = table.COLUMNS
    has_status = True
    returns_deleted = True
    has_generation = True
    selectable_names = frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    )

    def __init__(self, features: Gates = DEFAULTS) -> None:
        self.subresources = subresources(features)

    def default(self, obj: Object) -> None:
        default_pod(obj)

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = status = {"phase": "Pending"}
        status["qosClass"] = qos.compute(obj)
        apply_match_label_keys(obj)
        if obj["spec"].get("schedulingGates"):
            _set_gated(obj)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return validation.validate_new_pod(obj)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return validation.validate_pod_update(obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Object, old: Object) -> None:
        status = obj.setdefault("status", {})
        previous = (old.get("status") or {}).get("qosClass")
        if previous and not status.get("qosClass"):
            status["qosClass"] = previous
        sync_addresses(status)

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return validation.validate_pod_status_update(obj, old)

    def canonicalize(self, obj: Object) -> None:
        mirror_service_account(obj["spec"])  # admission may have named an account since defaulting

    def spec_changed(self, obj: Object, old: Object) -> bool:
        """Binding is not a new wish: a pod that was only given its node stays at its generation."""
        new, held = obj["spec"], old.get("spec") or {}
        fields = new.keys() | held.keys()
        return any(new.get(field) != held.get(field) for field in fields if field != "nodeName")

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        """Only for new pods: people hardly ever update one by hand."""
        return pod_warnings(obj["metadata"], obj["spec"], "") if old is None else []

    def begin_delete(self, ctx: Context, obj: Object, options: Object) -> bool:
        """The kubelet gets the grace period; a pod that never ran, or has ended, needs none."""
        period = options.get("gracePeriodSeconds")
        if period is None:
            period = obj["spec"].get("terminationGracePeriodSeconds")
            period = 0 if period is None else period
        if not obj["spec"].get("nodeName") or is_terminal(obj):
            period = 0
        if period < 0:
            period = 1
        options["gracePeriodSeconds"] = period
        return period > 0

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        ips = pod_ips(obj)
        values = {f"spec.{field}": str(spec.get(field) or "") for field in _SPEC_FIELDS}
        values["spec.hostNetwork"] = "true" if spec.get("hostNetwork") else "false"
        values["status.phase"] = str(status.get("phase") or "")
        values["status.podIP"] = ips[0] if ips else ""
        values["status.nominatedNodeName"] = str(status.get("nominatedNodeName") or "")
        return values

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return table.pod_row(obj, now)

    def row_conditions(self, obj: Object) -> Sequence[Object]:
        return table.COMPLETED.get((obj.get("status") or {}).get("phase") or "", ())


def _set_gated(pod: Object) -> None:
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": _GATED, "lastTransitionTime": None}
    ]
