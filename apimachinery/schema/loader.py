"""Reads ``data/structure.json`` (made by ``scripts/schema_data.py``) and builds schemas from it on demand.

Loading parses one JSON object of 700 short texts, about 2 ms; a definition becomes Python objects when something first
looks inside it.
"""

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from apimachinery.gvk import GroupVersionKind
from apimachinery.schema.types import Definition, Field, ListSchema, MapSchema, ScalarSchema, Schema, StructSchema

META = "io.k8s.apimachinery.pkg.apis.meta.v1."


class Schemas:
    """Every built-in definition of the release. One per process; safe to share between threads (building is idempotent)."""

    def __init__(self, definitions: dict[str, str], kinds: dict[str, str]) -> None:
        self._texts = definitions
        self._kinds = kinds
        self._structs: dict[str, StructSchema] = {}
        self._scalars: dict[str, ScalarSchema] = {}

    def of(self, gvk: GroupVersionKind) -> StructSchema:
        """The schema of a kind, including lists of it and options. Raises KeyError for one the release does not have."""
        return self.named(self._kinds["/".join(gvk)])

    def has(self, gvk: GroupVersionKind) -> bool:
        return "/".join(gvk) in self._kinds

    def kinds(self) -> list[GroupVersionKind]:
        """Every kind with a definition of its own."""
        return [GroupVersionKind(*key.split("/")) for key in self._kinds]

    def named(self, name: str) -> StructSchema:
        """By full definition name, such as ``io.k8s.api.core.v1.PodSpec``. Raises KeyError."""
        struct = self._structs.get(name)
        if struct is None:
            text = self._texts[name]
            struct = self._structs.setdefault(name, StructSchema(name, lambda: self._build(text)))
        return struct

    def meta(self, kind: str) -> StructSchema:
        """A definition of ``meta/v1``: ``DeleteOptions``, ``ObjectMeta``, ``Status``..."""
        return self.named(META + kind)

    def defines(self, name: str) -> bool:
        """Whether there is a struct of that full name."""
        return name in self._texts

    def text(self, name: str) -> str:
        """The source of a definition, as ``scripts/schema_data.py`` describes it: for readers that want it whole, once."""
        return self._texts[name]

    def _build(self, text: str) -> Definition:
        atomic, required, fields, kinds, kept = orjson.loads(text)
        built = {name: self._field(name, name in required, name in kept, spec) for name, spec in fields.items()}
        return Definition(built, atomic, tuple(GroupVersionKind(*kind) for kind in kinds))

    def _field(self, name: str, required: bool, kept: bool, spec: Any) -> Field:
        attributes: dict[str, Any] = {}
        if isinstance(spec, list) and isinstance(spec[1], dict):
            spec, attributes = spec
        strategies = tuple(attributes.get("strategy", "").split(",")) if "strategy" in attributes else ()
        schema = self._type(spec, attributes)
        return Field(
            name,
            schema,
            required,
            strategies,
            attributes.get("merge", ""),
            attributes.get("default"),
            attributes["map"] == "atomic" if "map" in attributes else None,
            not kept,
        )

    def _type(self, spec: Any, attributes: dict[str, Any]) -> Schema:
        if isinstance(spec, str):
            if spec.startswith("#"):
                return self.named(spec[1:])
            return self._scalars.setdefault(spec, ScalarSchema(*spec.split("@")))
        shape, inner = spec
        element = self._type(inner, {})
        if shape == "list":
            return ListSchema(element, attributes.get("list", "atomic"), tuple(attributes.get("keys", ())))
        return MapSchema(element, attributes.get("map") == "atomic")


@cache
def load() -> Schemas:
    """The built-in schemas, read once per process. Raises StaleDataError in a checkout whose data is of another version."""
    raw = orjson.loads(read_data("structure.json"))
    script = Path(str(resources.files("apimachinery"))).parent / "scripts" / "schema_data.py"
    check_fresh(raw.get("made_by", ""), script)
    return Schemas(raw["definitions"], raw["kinds"])


class StaleDataError(RuntimeError):
    """The generated data is not what the sources beside it would make."""


def check_fresh(made_by: str, script: Path) -> None:
    """An installed package has no generator beside it, and its data is as old as itself."""
    try:
        facts = "".join(f"{path.name} {path.stat().st_size}" for path in sorted((script.parent / "facts").iterdir()))
        expected = hashlib.sha256(script.read_bytes() + facts.encode()).hexdigest()[:16]
    except OSError:
        return
    if made_by != expected:
        raise StaleDataError(f"the generated schema data is older than its sources; run `python {script}`")


def read_data(name: str) -> bytes:
    """One of the generated data files. Raises FileNotFoundError that says how to make them."""
    path = resources.files("apimachinery.schema") / "data" / name
    try:
        return path.read_bytes()
    except FileNotFoundError:
        message = f"{path} is missing: it is generated; run `python scripts/schema_data.py` (installing the package does it too)"
        raise FileNotFoundError(message) from None
