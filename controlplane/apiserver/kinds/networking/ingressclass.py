"""IngressClasses: which controller serves an Ingress."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class IngressClassStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("networking.k8s.io", "v1", "IngressClass"), "ingressclasses", "ingressclass", False)
    columns = (
        NAME,
        Column("Controller", description="Controller that is responsible for handling this class"),
        Column("Parameters", description="A reference to a resource with additional parameters"),
        AGE,
    )
    has_generation = True

    def default(self, obj: Object) -> None:
        parameters = obj.setdefault("spec", {}).get("parameters")
        if parameters is not None and not parameters.get("scope"):
            parameters["scope"] = "Cluster"

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        controller, parameters = spec.get("controller") or "", spec.get("parameters")
        if not controller:
            found = [fieldpath.required("spec.controller")]
        elif len(controller) > 250:
            found = [fieldpath.too_long("spec.controller", 250)]
        else:
            found = checks.domain_prefixed_path(controller, "spec.controller")
        if parameters is None:
            return found
        group = parameters.get("apiGroup")
        if group is not None:
            found += checks.each("spec.parameters.apiGroup", group, names.is_dns1123_subdomain(group))
        for field in ("kind", "name"):
            if not parameters.get(field):
                found.append(fieldpath.required(f"spec.parameters.{field}", f"{field} is required"))
        found += checks.one_of(parameters.get("scope"), ("Cluster", "Namespace"), "spec.parameters.scope")
        if parameters.get("scope") == "Namespace" and not parameters.get("namespace"):
            text = "`parameters.scope` is set to 'Namespace'"
            found.append(fieldpath.required("spec.parameters.namespace", text))
        if parameters.get("scope") == "Cluster" and parameters.get("namespace") is not None:
            text = "`parameters.scope` is set to 'Cluster'"
            found.append(fieldpath.forbidden("spec.parameters.namespace", text))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        new, held = obj["spec"].get("controller"), (old.get("spec") or {}).get("controller")
        return self.validate(ctx, obj) + checks.immutable(new, held, "spec.controller")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        parameters = spec.get("parameters")
        shown = NONE
        if parameters:
            group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
            shown = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
        return [obj["metadata"]["name"], spec.get("controller") or "", shown, age_of(obj, now)]
