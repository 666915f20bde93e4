"""What a CustomResourceDefinition says, without its schemas: small enough to be kept for hundreds of them. Pure.

Read by ``registration`` (what is served), ``strategy`` and ``resource`` (how), ``lifecycle`` works on the object itself.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.registry.strategy import ResourceInfo

Object = dict[str, Any]

GROUP = "apiextensions.k8s.io"
RESOURCE = f"customresourcedefinitions.{GROUP}"
KIND = "CustomResourceDefinition"
ESTABLISHED, NAMES_ACCEPTED, TERMINATING = "Established", "NamesAccepted", "Terminating"
WEBHOOK = "Webhook"
ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where replicas and selector are, as JSON paths; the selector's may be empty."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of ``kubectl get``, as the definition has it."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a custom resource. ``deprecation`` is the warning that requests carry, or nothing."""

    name: str
    served: bool
    storage: bool
    deprecation: str = ""
    has_status: bool = False
    scale: ScalePaths | None = None
    columns: tuple[PrinterColumn, ...] = ()
    selectable: tuple[str, ...] = ()  # JSON paths


@dataclass(frozen=True, slots=True)
class Names:
    """The names that have been accepted."""

    plural: str
    singular: str
    kind: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition at one revision. ``spec_digest`` is equal for equal specs."""

    name: str
    uid: str
    revision: int
    group: str
    names: Names
    namespaced: bool
    versions: tuple[Version, ...]
    webhook: bool
    spec_digest: bytes
    conditions: frozenset[str]  # the types of those that are True

    @property
    def established(self) -> bool:
        return ESTABLISHED in self.conditions

    @property
    def serving(self) -> bool:
        """Whether requests are answered: a definition that lost its names after it was established goes on."""
        return self.established or NAMES_ACCEPTED in self.conditions

    @property
    def terminating(self) -> bool:
        return TERMINATING in self.conditions

    @property
    def storage_version(self) -> str:
        return next((version.name for version in self.versions if version.storage), self.versions[0].name)

    def version(self, name: str) -> Version | None:
        return next((version for version in self.versions if version.name == name), None)

    def served(self) -> list[Version]:
        return [version for version in self.versions if version.served]

    def gvk(self, version: str) -> GroupVersionKind:
        return GroupVersionKind(self.group, version, self.names.kind)

    def info(self, version: Version) -> ResourceInfo:
        names = self.names
        return ResourceInfo(
            self.gvk(version.name),
            names.plural,
            names.singular,
            self.namespaced,
            names.short_names,
            names.categories,
            deprecation=version.deprecation,
            list_kind=names.list_kind,
        )

    def same_resource(self, other: "Definition") -> bool:
        """Whether objects look and behave the same under both: only conditions and metadata may differ."""
        return (self.uid, self.spec_digest, self.names) == (other.uid, other.spec_digest, other.names)


def parse(obj: Object, revision: int) -> Definition:
    """A stored definition, which validation has seen."""
    spec, status, meta = obj["spec"], obj.get("status") or {}, obj["metadata"]
    names = status.get("acceptedNames") or {}
    conditions = status.get("conditions") or ()
    return Definition(
        meta["name"],
        meta.get("uid") or "",
        revision,
        spec["group"],
        Names(
            names.get("plural") or "",
            names.get("singular") or "",
            names.get("kind") or "",
            names.get("listKind") or "",
            tuple(names.get("shortNames") or ()),
            tuple(names.get("categories") or ()),
        ),
        spec.get("scope") == "Namespaced",
        tuple(_version(version, spec) for version in spec["versions"]),
        (spec.get("conversion") or {}).get("strategy") == WEBHOOK,
        hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).digest(),
        frozenset(each["type"] for each in conditions if each.get("status") == "True"),
    )


def _version(version: Object, spec: Object) -> Version:
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    paths = None
    if scale is not None:
        paths = ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or "")
    deprecation = ""
    if version.get("deprecated"):
        written = version.get("deprecationWarning")
        usual = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
        deprecation = usual if written is None else written
    return Version(
        version["name"],
        bool(version.get("served")),
        bool(version.get("storage")),
        deprecation,
        subresources.get("status") is not None,
        paths,
        tuple(_columns(version.get("additionalPrinterColumns") or ())),
        tuple(each["jsonPath"] for each in version.get("selectableFields") or ()),
    )


def _columns(columns: Iterable[Object]) -> Iterable[PrinterColumn]:
    for each in columns:
        yield PrinterColumn(
            each["name"],
            each["type"],
            each["jsonPath"],
            each.get("format") or "",
            each.get("description") or "",
            each.get("priority") or 0,
        )


def version_of(obj: Object, name: str) -> Object:
    """A version as the definition's object has it, schema and all. Raises StopIteration for one it has not."""
    found: Object = next(version for version in obj["spec"]["versions"] if version["name"] == name)
    return found


def schema_of(obj: Object, name: str) -> Object:
    """The OpenAPI schema of a version; an object of anything where there is none."""
    schema: Object | None = (version_of(obj, name).get("schema") or {}).get("openAPIV3Schema")
    return schema or ANYTHING


def preserves(obj: Object) -> bool:
    """Whether all unknown fields stay, and schemas need not be structural: definitions that were made as v1beta1."""
    return bool(obj["spec"].get("preserveUnknownFields"))


def published_schema_of(obj: Object, name: str) -> Object:
    """What OpenAPI documents say of a version: nothing, where other fields may be anywhere."""
    return ANYTHING if preserves(obj) else schema_of(obj, name)
