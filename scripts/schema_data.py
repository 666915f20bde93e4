"""Makes ``apimachinery/schema/data/*.json``: the built-in kinds of one Kubernetes release in the compact form the server loads.

Run by the build hook, or alone: ``python scripts/schema_data.py``. Sources: the definitions in the PyPI package
``kubernetes-validate`` (types, required fields, list keys, patch strategies, descriptions) and ``scripts/facts`` (protobuf
field numbers; which fields Go writes even when they are empty: pointers, and those without ``omitempty``). The definitions
are not OpenAPI as served: optional types are unions with null, which is undone here.

The output keeps each definition as JSON *text* inside one JSON object, so that a process pays only for the kinds it uses:

- ``structure.json``: ``{"made_by": ..., "definitions": {name: text}, "kinds": {"group/version/Kind": name}}``; a text is a
  list ``[atomic, required, fields, kinds, kept]``, fields map a name to a type, or to ``[type, attributes]``; ``kept`` names the
  scalars, lists and maps that survive when empty
- ``descriptions.json``: ``{name: text}`` with the description of the definition (key ``""``) and of its fields
- ``protobuf.json``: ``{message: text}`` with rows ``[name, JSON name, number, type, "repeated"?, "kept"?]``
"""

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

RELEASE = "v1.36.0-local"
FACTS = Path(__file__).parent / "facts"
TARGET = Path("apimachinery/schema/data")

# Names of definitions that are scalars on the wire, whatever the definition says.
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "object",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch": "object",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
}

# Defaults that upstream's own OpenAPI states and that list keys depend on; the package leaves all defaults out.
DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}

# Versions that the release has removed but that are still served on request, as copies of what replaced them.
REMOVED = {
    "io.k8s.api.policy.v1beta1.": ("io.k8s.api.policy.v1.", "PodDisruptionBudget"),
    "io.k8s.api.batch.v1beta1.": ("io.k8s.api.batch.v1.", "CronJob", "JobTemplateSpec"),
    "io.k8s.api.discovery.v1beta1.": ("io.k8s.api.discovery.v1.", "Endpoint", "ForZone", "ForNode"),
}
# Where such a version is not the same: fields by their new name, with the old name (None: not there) and the old number.
RENAMED = {
    "io.k8s.api.discovery.v1beta1.Endpoint": {"deprecatedTopology": ("topology", 5), "zone": (None, 0), "hints": ("hints", 7)},
}

ATTRIBUTES = {
    "x-kubernetes-list-type": "list",
    "x-kubernetes-list-map-keys": "keys",
    "x-kubernetes-patch-strategy": "strategy",
    "x-kubernetes-patch-merge-key": "merge",
    "x-kubernetes-map-type": "map",
}


def without_null(kind: Any) -> str:
    """``["string", "null"]`` is how the source writes an optional string."""
    if isinstance(kind, list):
        (kind,) = [name for name in kind if name != "null"]
    return str(kind)


def type_of(schema: dict[str, Any]) -> Any:
    """A scalar (``time@definition`` where it has one), ``#definition``, ``["list", element]`` or ``["map", value]``."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"{SCALARS[name]}@{name}" if name in SCALARS else f"#{name}"
    kind, style = without_null(schema["type"]), schema.get("format")
    if kind == "array":
        return ["list", type_of(schema["items"])]
    if kind == "object":
        return ["map", type_of(schema["additionalProperties"])] if "additionalProperties" in schema else "object"
    if kind == "integer":
        return style or "int64"
    if kind == "number":
        return "double"
    return {"byte": "bytes", "date-time": "time"}.get(style or "", kind)


def field_of(owner: str, name: str, schema: dict[str, Any]) -> Any:
    attributes = {short: schema[long] for long, short in ATTRIBUTES.items() if long in schema}
    if (owner, name) in DEFAULTS:
        attributes["default"] = DEFAULTS[owner, name]
    return [type_of(schema), attributes] if attributes else type_of(schema)


def definition_of(name: str, schema: dict[str, Any]) -> list[Any]:
    fields = {field: field_of(name, field, body) for field, body in schema.get("properties", {}).items()}
    kinds = [[gvk["group"], gvk["version"], gvk["kind"]] for gvk in schema.get("x-kubernetes-group-version-kind", [])]
    return [schema.get("x-kubernetes-map-type") == "atomic", schema.get("required", []), fields, kinds]


def kept_when_empty(name: str, fields: dict[str, Any], facts: "Facts") -> list[str]:
    """Of a definition's fields; those of a definition that Go has no message for are all kept."""
    message = "k8s.io." + name.removeprefix("io.k8s.").replace("-", "_")
    if message not in facts.messages:
        return list(fields)
    kept = facts.kept_of(message)
    return [field for field in fields if field in kept]


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def structure(definitions: dict[str, Any], facts: "Facts") -> dict[str, Any]:
    texts, kinds = {}, {}
    for name, schema in definitions.items():
        if name in SCALARS:
            continue
        definition = definition_of(name, schema)
        definition.append(kept_when_empty(name, definition[2], facts))
        texts[name] = compact(definition)
        if len(definition[3]) == 1:  # options such as DeleteOptions exist in every group; they are found by name
            kinds["/".join(definition[3][0])] = name
    return {"made_by": made_by(Path(__file__)), "definitions": texts, "kinds": kinds}


def made_by(script: Path) -> str:
    """Which generator made the data; ``apimachinery.schema.loader`` compares, so that a checkout never runs on stale data."""
    facts = "".join(f"{path.name} {path.stat().st_size}" for path in sorted((script.parent / "facts").iterdir()))
    return hashlib.sha256(script.read_bytes() + facts.encode()).hexdigest()[:16]


def descriptions(definitions: dict[str, Any]) -> dict[str, str]:
    result = {}
    for name, schema in definitions.items():
        texts = {field: body["description"] for field, body in schema.get("properties", {}).items() if "description" in body}
        if "description" in schema:
            texts = {"": schema["description"], **texts}
        if "x-kubernetes-unions" in schema:
            texts["x-kubernetes-unions"] = schema["x-kubernetes-unions"]
        result[name] = compact(texts)
    return result


class Facts:
    """What the definitions do not tell: how Go's types write themselves."""

    def __init__(self, folder: Path) -> None:
        self.messages = json.loads((folder / "kubernetes-v1.36-protobuf.json").read_text())["messages"]
        self.messages |= dict(removed_messages(self.messages))
        self._renamed = json.loads((folder / "kubernetes-v1.36-json-names.json").read_text())
        self._kept = json.loads((folder / "kubernetes-v1.36-kept-empty.json").read_text())
        for facts in (self._renamed, self._kept):
            facts |= {old: facts[name] for old, name in list(copies(facts, message_name))}

    def json_name(self, message: str, field: str) -> str:
        """May be "" (inlined) or "-" (the raw value)."""
        return str(self._renamed.get(message, {}).get(field, field))

    def kept_of(self, message: str) -> set[str]:
        """JSON names, those of inlined structs included."""
        kept = set(self._kept.get(message, ()))
        for field, spec in self.messages[message].items():
            if self.json_name(message, field) == "" and spec[1] in self.messages:
                kept |= self.kept_of(spec[1])
        return kept


def protobuf(facts: Facts) -> dict[str, str]:
    result = {}
    for message, fields in facts.messages.items():
        kept = facts.kept_of(message)
        rows = []
        for field, spec in fields.items():
            name = facts.json_name(message, field)
            rows.append([field, name, *spec, *(["kept"] if name in kept else [])])
        result[message] = compact(rows)
    return result


def source() -> dict[str, Any]:
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        raise SystemExit("kubernetes-validate is not installed: pip install 'kubernetes-validate>=1.36'")
    path = Path(spec.origin).parent / "kubernetes-json-schema" / RELEASE / "_definitions.json"
    definitions: dict[str, Any] = json.loads(path.read_text())["$defs"]
    return definitions | dict(removed_definitions(definitions))


def copies(names: Iterable[str], form: Callable[[str], str] = str) -> Iterator[tuple[str, str]]:
    """Old name and new name, of each that a removed version also has."""
    for old, (new, *starts) in REMOVED.items():
        for name in names:
            if name.startswith(form(new)) and name.removeprefix(form(new)).startswith(tuple(starts)):
                yield name.replace(form(new), form(old)), name


def removed_definitions(definitions: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    copied = {name: old for old, name in copies(definitions)}
    for name, old in copied.items():
        text = json.dumps(definitions[name]).replace('"version": "v1"', '"version": "v1beta1"')
        for other, replacement in copied.items():
            text = text.replace(f'/{other}"', f'/{replacement}"')
        body = json.loads(text)
        for field, (before, _) in RENAMED.get(old, {}).items():
            found = body["properties"].pop(field)
            if before:
                body["properties"][before] = found
        yield old, body


def message_name(definition: str) -> str:
    return "k8s.io." + definition.removeprefix("io.k8s.")


def removed_messages(messages: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    copied = {name: old for old, name in copies(messages, message_name)}
    for name, old in copied.items():
        fields = {field: [copied.get(part, part) for part in spec] for field, spec in messages[name].items()}
        definition = "io.k8s." + old.removeprefix("k8s.io.")
        for field, (before, number) in RENAMED.get(definition, {}).items():
            found = fields.pop(field)
            if before:
                fields[before] = [number, *found[1:]]
        yield old, fields


def generate(root: Path) -> None:
    """Write the data files under ``root``, replacing what is there only when it differs."""
    definitions = source()
    target = root / TARGET
    target.mkdir(parents=True, exist_ok=True)
    facts = Facts(FACTS)
    files = {"structure": structure(definitions, facts), "descriptions": descriptions(definitions), "protobuf": protobuf(facts)}
    for name, content in files.items():
        path, text = target / f"{name}.json", compact(content)
        if not path.exists() or path.read_text() != text:
            part = path.with_suffix(".part")
            part.write_text(text)
            part.replace(path)  # others may be reading


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent)
