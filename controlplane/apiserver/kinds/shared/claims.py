"""The spec of a PersistentVolumeClaim: of a claim by itself, and of the templates of ephemeral volumes and StatefulSets."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks, storage


def check_claim_spec(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    found = storage.check_access_modes(spec, path, "at least 1 access mode is required")
    found += checks.label_selector(spec.get("selector"), f"{path}.selector")
    where = f"{path}.resources[{storage.STORAGE}]"
    size = ((spec.get("resources") or {}).get("requests") or {}).get(storage.STORAGE)
    found += [fieldpath.required(where)] if size is None else storage.check_size(size, where)
    found += storage.check_classes(spec, path)
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, held in (("dataSource", source), ("dataSourceRef", reference)):
        if held is not None:
            found += _check_source(held, f"{path}.{field}")
    if source is not None and reference is not None:
        if reference.get("namespace"):
            text = "may not be specified when dataSourceRef.namespace is specified"
            found.append(fieldpath.invalid(path, f"{path}.dataSource", text))
        elif dict(source) != dict(reference):
            found.append(fieldpath.invalid(path, f"{path}.dataSource", "must match dataSourceRef"))
    return found


def _check_source(source: Mapping[str, Any], path: str) -> list[FieldError]:
    found = [fieldpath.required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group = source.get("apiGroup") or ""
    if not group and source.get("kind") and source["kind"] != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        found.append(fieldpath.invalid(path, source["kind"], text))
    if group:
        found += checks.each(path, group, names.is_dns1123_subdomain(group))
    return found
