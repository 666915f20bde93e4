"""StorageVersions: in which version each API server stores a resource. Behind ``StorageVersionAPI``; servers write the status.

Source of the rules: upstream's pkg/apis/apiserverinternal/validation.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, UNSET, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_SHOWN = 3
_ONE_VERSION = "should be unset if servers don't agree on the same encoding version, or have not all reported"


def _name_problems(name: str) -> list[str]:
    """``<group>.<resource>``"""
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    found = [f"the group segment {problem}" for problem in names.is_dns1123_subdomain(group)]
    return found + [f"the resource segment {problem}" for problem in names.is_dns1035_label(resource)]


class StorageVersionStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion"), "storageversions", "storageversion", False
    )
    gates = ("StorageVersionAPI", "APIServerIdentity")
    columns = (
        NAME,
        Column("CommonEncodingVersion", description="The version that all API servers store, if it is one."),
        Column("StorageVersions", description="The version that each API server stores."),
        AGE,
    )
    has_status = True
    name_is_valid = staticmethod(_name_problems)

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        status = obj.get("status") or {}
        reported = status.get("storageVersions") or ()
        found = _check_reported(reported, "status.storageVersions")
        encodings = {one.get("encodingVersion") for one in reported}
        common = status.get("commonEncodingVersion")
        if len(encodings) == 1 and common != (only := next(iter(encodings))):
            where = "status.commonEncodingVersion"
            found.append(fieldpath.invalid(where, common, f"should be {only} as all servers agree on it"))
        elif len(encodings) != 1 and common:
            found.append(fieldpath.invalid("status.commonEncodingVersion", common, _ONE_VERSION))
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        status = obj.get("status") or {}
        common = status.get("commonEncodingVersion") or UNSET
        return [obj["metadata"]["name"], common, _listed(status.get("storageVersions") or ()), age_of(obj, now)]


def _check_reported(reported: Sequence[Object], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, one in enumerate(reported):
        where, server = f"{path}[{position}]", one.get("apiServerID") or ""
        if server in taken:
            found.append(fieldpath.duplicate(f"{where}.apiServerID", server))
        taken.add(server)
        found += checks.each(f"{where}.apiServerID", server, names.is_dns1123_subdomain(server))
        encoding, decodable = one.get("encodingVersion") or "", one.get("decodableVersions") or ()
        if encoding not in decodable:
            detail = f"decodableVersions must include encodingVersion {encoding}"
            found.append(fieldpath.invalid(f"{where}.decodableVersions", list(decodable), detail))
        for served in one.get("servedVersions") or ():
            if served not in decodable:
                detail = f"individual served version : {served} must be included in decodableVersions : [{' '.join(decodable)}]"
                found.append(fieldpath.invalid(f"{where}.servedVersions", list(one["servedVersions"]), detail))
    return found


def _listed(reported: Sequence[Object]) -> str:
    shown = ",".join(f"{one.get('apiServerID')}={one.get('encodingVersion')}" for one in reported[:_SHOWN])
    return f"{shown} + {len(reported) - _SHOWN} more..." if len(reported) > _SHOWN else shown
