"""The language of schemas: scalar, list, map, struct. The same four describe built-in kinds and custom resources.

Made by ``loader`` (built-in) and ``crd.structural.apply`` (custom resources), read by ``check``, ``patch``,
``codecs.protobuf`` and ``openapi``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from apimachinery.gvk import GroupVersionKind


@dataclass(frozen=True, slots=True)
class ScalarSchema:
    """``kind`` is one of ``SCALAR_KINDS``; ``any`` and ``object`` hold JSON that nothing looks into.

    ``definition`` is the full name of the definition it stands for, where there is one (``...meta.v1.Time``).
    """

    kind: str
    definition: str = ""


SCALAR_KINDS = frozenset(
    {"string", "int32", "int64", "double", "boolean", "bytes", "time", "microtime", "quantity", "intstr", "any", "object"}
)


@dataclass(frozen=True, slots=True)
class ListSchema:
    """``list_type`` is ``atomic``, ``set`` or ``map`` (elements identified by ``keys``), as server-side apply sees it.

    Strategic merge looks at the ``merge_key`` and ``strategies`` of the field instead, which are older.
    """

    element: "Schema"
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MapSchema:
    value: "Schema"
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct. ``strategies`` and ``merge_key`` rule strategic merge patches; ``default`` completes list keys.

    ``atomic`` None leaves the question to the struct it holds; True or False overrides that (server-side apply).
    ``omits_empty``: a scalar, list or map of this field that is zero or empty is not there at all, because Go's struct
    cannot tell the two apart (a value with ``omitempty``); a zero that a pointer holds does say something.
    """

    name: str
    schema: "Schema"
    required: bool = False
    strategies: tuple[str, ...] = ()
    merge_key: str = ""
    default: Any = None
    atomic: bool | None = None
    omits_empty: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """The body of a struct. An ``open`` one may have other fields too, each of them one thing to whoever manages it."""

    fields: dict[str, Field]
    atomic: bool = False
    kinds: tuple[GroupVersionKind, ...] = ()
    open: bool = False


@dataclass(slots=True, eq=False)
class StructSchema:
    """An object with named fields. The body is read on first use: kinds nobody touches cost one short string.

    Two references to one definition are the same StructSchema, so identity is equality and recursion is harmless.
    ``name`` is the full definition name such as ``io.k8s.api.core.v1.PodSpec``; parts of custom resources have none.
    ``cache`` holds what readers compile from it (checkers, protobuf tables), keyed by reader: it lives and dies with the schema.
    """

    name: str
    resolve: Callable[[], Definition]
    cache: dict[str, Any] = field(default_factory=dict)
    _definition: Definition | None = None

    @property
    def definition(self) -> Definition:
        if self._definition is None:
            self._definition = self.resolve()
        return self._definition

    @property
    def fields(self) -> dict[str, Field]:
        return self.definition.fields

    @property
    def atomic(self) -> bool:
        return self.definition.atomic

    @property
    def open(self) -> bool:
        return self.definition.open

    @property
    def short_name(self) -> str:
        """``PodSpec``: the Go struct that decode errors name."""
        return self.name.rpartition(".")[2]

    @property
    def go_name(self) -> str:
        """``v1.PodSpec``: the Go type that decode errors name."""
        return ".".join(self.name.split(".")[-2:])

    def __repr__(self) -> str:
        return f"StructSchema({self.name!r})"


Schema: TypeAlias = ScalarSchema | ListSchema | MapSchema | StructSchema
