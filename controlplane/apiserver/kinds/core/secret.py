"""Secrets: at most 1 MiB, with a type that says which keys must be there; ``stringData`` is folded into ``data``."""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import errors, fieldpath, names
from apimachinery.codecs import json
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.binary import decoded_size
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

MAX_BYTES = 1024 * 1024
IMMUTABLE = "field is immutable when `immutable` is set"
ACCOUNT_NAME = "kubernetes.io/service-account.name"

_DOCKER_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


class SecretStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("", "v1", "Secret"), "secrets", "secret", True)
    columns = (
        NAME,
        Column("Type", description="Used to facilitate programmatic handling of secret data."),
        Column("Data", description="Number of entries"),
        AGE,
    )
    selectable_names = frozenset({"type"})

    def default(self, obj: Object) -> None:
        if not obj.get("type"):
            obj["type"] = "Opaque"
        text = obj.pop("stringData", None)
        if text:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        data: Mapping[str, str] = obj.get("data") or {}
        found: list[FieldError] = []
        for key in data:
            found += checks.each(f"data[{key}]", key, names.is_config_key(key))
        if sum(map(decoded_size, data.values())) > MAX_BYTES:
            found.append(fieldpath.too_long("data", MAX_BYTES))
        return found + _check_type(obj, data)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found = checks.immutable(obj.get("type"), old.get("type"), "type")
        if old.get("immutable"):
            if not obj.get("immutable"):
                found.append(fieldpath.forbidden("immutable", IMMUTABLE))
            if (obj.get("data") or {}) != (old.get("data") or {}):
                found.append(fieldpath.forbidden("data", IMMUTABLE))
        return found + self.validate(ctx, obj)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"type": obj.get("type", "")}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], obj.get("type", ""), len(obj.get("data") or ()), age_of(obj, now)]


def _check_type(obj: Object, data: Mapping[str, str]) -> list[FieldError]:
    kind = obj.get("type")
    if kind == "kubernetes.io/service-account-token":
        annotations = obj["metadata"].get("annotations") or {}
        return [] if annotations.get(ACCOUNT_NAME) else [fieldpath.required(f"metadata.annotations[{ACCOUNT_NAME}]")]
    if kind in _DOCKER_KEYS:
        return _check_docker(data, _DOCKER_KEYS[kind])
    if kind == "kubernetes.io/basic-auth" and not ("username" in data or "password" in data):
        return [fieldpath.required("data[username]"), fieldpath.required("data[password]")]
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        return [fieldpath.required("data[ssh-privatekey]")]
    if kind == "kubernetes.io/tls":
        return [fieldpath.required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _check_docker(data: Mapping[str, str], key: str) -> list[FieldError]:
    if key not in data:
        return [fieldpath.required(f"data[{key}]")]
    try:
        content = json.decode(base64.b64decode(data[key]))
    except errors.StatusError as error:
        text = error.status["message"]
        return [fieldpath.invalid(f"data[{key}]", "<secret contents redacted>", text)]
    if not isinstance(content, dict):
        return [fieldpath.invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object")]
    return []
