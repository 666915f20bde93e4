"""``--image-credential-provider-config``: which programs give credentials for which images. Read once, when the kubelet starts.

The file (or a folder of ``*.json``, ``*.yaml`` and ``*.yml``) holds a CredentialProviderConfig of kubelet.config.k8s.io. Rules
and messages are upstream's (pkg/credentialprovider/plugin/config.go).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from component.flags import parse_duration
from node.kubelet.images import image_globs

_GROUP = "kubelet.config.k8s.io"
_VERSIONS = tuple(f"{_GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
V1 = "credentialprovider.kubelet.k8s.io/v1"
PLUGIN_VERSIONS = (V1, "credentialprovider.kubelet.k8s.io/v1alpha1", "credentialprovider.kubelet.k8s.io/v1beta1")
_CACHE_TYPES = ("ServiceAccount", "Token")
_SUFFIXES = (".json", ".yaml", ".yml")
_FIELDS = frozenset({"name", "matchImages", "defaultCacheDuration", "apiVersion", "args", "env", "tokenAttributes"})
_TOKEN_FIELDS = frozenset(
    {
        *("serviceAccountTokenAudience", "cacheType", "requireServiceAccount"),
        *("requiredServiceAccountAnnotationKeys", "optionalServiceAccountAnnotationKeys"),
    }
)


class ConfigurationError(ValueError):
    """The configuration cannot be used; the text names file and field."""


@dataclass(frozen=True, slots=True)
class TokenAttributes:
    """What a program wants to know of the pod's service account."""

    audience: str
    require_account: bool
    cache_per_token: bool = False
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Provider:
    """One program. ``default_duration`` is in seconds: how long an answer that does not say it itself is kept."""

    name: str
    api_version: str
    match_images: tuple[str, ...]
    default_duration: float
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    tokens: TokenAttributes | None = None


def read(path: Path, *, tokens: bool = True) -> tuple[Provider, ...]:
    """The providers of a file or a folder, in order. ``tokens``: whether service account tokens may be asked for.

    Raises ConfigurationError.
    """
    listed: list[Mapping[str, Any]] = []
    for file in _files(path):
        try:
            listed += _decode(file.read_text())
        except OSError as error:
            raise ConfigurationError(f'unable to read file "{file}": {error.strerror}') from None
        except (ConfigurationError, UnicodeDecodeError) as error:
            raise ConfigurationError(f'error decoding config "{file}": {error}') from None
    taken: set[str] = set()
    for each in listed:
        if (name := str(each.get("name") or "")) in taken:
            raise ConfigurationError(f'duplicate provider name "{name}" found in configuration file(s)')
        taken.add(name)
    if found := validate(listed, tokens=tokens):
        texts = [str(error) for error in found]
        raise ConfigurationError(
            f"failed to validate credential provider config: {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}"
        )
    return tuple(_provider(each) for each in listed)


def _files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        found = sorted(entry for entry in path.iterdir() if entry.is_file() and entry.suffix in _SUFFIXES)
        if not found:
            raise ConfigurationError(f'no configuration files found in directory "{path}"')
        return found
    if not path.exists():
        raise ConfigurationError(f'unable to access path "{path}": no such file or directory')
    return [path]


def _decode(text: str) -> Sequence[Mapping[str, Any]]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}") from None
    if not isinstance(document, dict):
        raise ConfigurationError("not a mapping")
    if document.get("kind") != "CredentialProviderConfig":
        raise ConfigurationError(f'failed to decode "{document.get("kind") or ""}" (wrong Kind)')
    if document.get("apiVersion") not in _VERSIONS:
        raise ConfigurationError(f"apiVersion {document.get('apiVersion')!r} is none of {', '.join(_VERSIONS)}")
    unknown = sorted(set(document) - {"apiVersion", "kind", "providers"})
    providers = document.get("providers") or []
    if not isinstance(providers, list) or not all(isinstance(each, dict) for each in providers):
        raise ConfigurationError("providers must be a list of mappings")
    for position, each in enumerate(providers):
        unknown += [f"providers[{position}].{name}" for name in sorted(set(each) - _FIELDS)]
        attributes = each.get("tokenAttributes")
        if isinstance(attributes, dict):
            unknown += [f"providers[{position}].tokenAttributes.{name}" for name in sorted(set(attributes) - _TOKEN_FIELDS)]
    if unknown:
        raise ConfigurationError("strict decoding error: " + ", ".join(f'unknown field "{name}"' for name in unknown))
    return providers


def validate(providers: Sequence[Mapping[str, Any]], *, tokens: bool = True) -> list[FieldError]:
    """Every fault of the providers, under upstream's paths. Pure."""
    path = "providers"
    found: list[FieldError] = []
    if not providers:
        found.append(fieldpath.required(path, "at least 1 item in plugins is required"))
    for each in providers:
        found += _name(str(each.get("name") or ""), f"{path}.name")
        version = each.get("apiVersion") or ""
        if not version:
            found.append(fieldpath.required(f"{path}.apiVersion"))
        elif version not in PLUGIN_VERSIONS:
            found.append(fieldpath.not_supported(f"{path}.apiVersion", version, PLUGIN_VERSIONS))
        if not each.get("matchImages"):
            found.append(fieldpath.required(f"{path}.matchImages", "at least 1 item in matchImages is required"))
        for pattern in each.get("matchImages") or ():
            try:
                image_globs.parse(str(pattern))
            except ValueError as error:
                found.append(fieldpath.invalid(f"{path}.matchImages", pattern, f"match image is invalid: {error}"))
        found += _duration(each.get("defaultCacheDuration"), f"{path}.defaultCacheDuration")
        if (attributes := each.get("tokenAttributes")) is not None:
            found += _attributes(attributes, version, f"{path}.tokenAttributes", tokens=tokens)
    return found


def _name(name: str, path: str) -> list[FieldError]:
    refused = {"/": "cannot contain '/'", " ": "cannot contain spaces"}
    found = [fieldpath.invalid(path, name, f"provider name {why}") for part, why in refused.items() if part in name]
    if name in (".", ".."):
        found.append(fieldpath.invalid(path, name, f"provider name cannot be '{name}'"))
    return found if name else [fieldpath.required(path)]


def _duration(value: Any, path: str) -> list[FieldError]:
    if value is None:
        return [fieldpath.required(path)]
    try:
        seconds = parse_duration(str(value))
    except ValueError as error:
        return [fieldpath.invalid(path, value, str(error))]
    return (
        [fieldpath.invalid(path, value, f"{path.rpartition('.')[2]} must be greater than or equal to 0")] if seconds < 0 else []
    )


def _attributes(attributes: Mapping[str, Any], version: str, path: str, *, tokens: bool) -> list[FieldError]:
    found: list[FieldError] = []
    if not tokens:
        gate = "KubeletServiceAccountTokenForCredentialProviders feature gate is disabled"
        found.append(fieldpath.forbidden(path, f"tokenAttributes is not supported when {gate}"))
    if not attributes.get("serviceAccountTokenAudience"):
        found.append(fieldpath.required(f"{path}.serviceAccountTokenAudience"))
    wanted = attributes.get("requireServiceAccount")
    if wanted is None:
        found.append(fieldpath.required(f"{path}.requireServiceAccount"))
    if version != V1:
        found.append(fieldpath.forbidden(path, f"tokenAttributes is only supported for {V1} API version"))
    required, optional = (attributes.get(f"{kind}ServiceAccountAnnotationKeys") or () for kind in ("required", "optional"))
    if wanted is False and required:
        text = "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set"
        found.append(fieldpath.forbidden(f"{path}.requiredServiceAccountAnnotationKeys", text))
    found += _keys(required, f"{path}.requiredServiceAccountAnnotationKeys")
    found += _keys(optional, f"{path}.optionalServiceAccountAnnotationKeys")
    if both := sorted({*required} & {*optional}):
        found.append(fieldpath.invalid(path, both, "annotation keys cannot be both required and optional"))
    kind = attributes.get("cacheType") or ""
    if not kind:
        text = (
            f"cacheType is required to be set when tokenAttributes is specified. Supported values are: {', '.join(_CACHE_TYPES)}"
        )
        found.append(fieldpath.required(f"{path}.cacheType", text))
    elif kind not in _CACHE_TYPES:
        found.append(fieldpath.not_supported(f"{path}.cacheType", kind, _CACHE_TYPES))
    return found


def _keys(keys: Sequence[str], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, key in enumerate(keys):
        found += [fieldpath.invalid(path, key, problem) for problem in names.is_qualified_name(str(key).lower())]
        if key in keys[:position]:
            found.append(fieldpath.duplicate(path, key))
    return found


def _provider(each: Mapping[str, Any]) -> Provider:
    attributes = each.get("tokenAttributes")
    return Provider(
        name=str(each["name"]),
        api_version=str(each["apiVersion"]),
        match_images=tuple(str(pattern) for pattern in each["matchImages"]),
        default_duration=parse_duration(str(each["defaultCacheDuration"])),
        args=tuple(str(word) for word in each.get("args") or ()),
        env={str(item["name"]): str(item.get("value") or "") for item in each.get("env") or ()},
        tokens=_token_attributes(attributes) if attributes is not None else None,
    )


def _token_attributes(attributes: Mapping[str, Any]) -> TokenAttributes:
    return TokenAttributes(
        audience=str(attributes["serviceAccountTokenAudience"]),
        require_account=bool(attributes["requireServiceAccount"]),
        cache_per_token=attributes["cacheType"] == "Token",
        required=tuple(attributes.get("requiredServiceAccountAnnotationKeys") or ()),
        optional=tuple(attributes.get("optionalServiceAccountAnnotationKeys") or ()),
    )
