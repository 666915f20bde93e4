"""EncryptionConfiguration (``apiserver.config.k8s.io/v1``): what a file says, checked in upstream's words.

``transformers`` makes providers of it; ``cli.secrets`` asks it which resources are meant.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import yaml

from component.errors import OperatorError
from component.flags import parse_duration

API_VERSION = "apiserver.config.k8s.io/v1"
KINDS = ("aesgcm", "aescbc", "secretbox", "identity", "kms")
_KEY_SIZES = {"aesgcm": (16, 24, 32), "aescbc": (16, 24, 32), "secretbox": (32,)}
_NO_REST = frozenset({"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"})
_MAX_BYTES = 1 << 20
_OVERLAP = (
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked"
)
_EVENTS = "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
_STAR = "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
_KMS_V1 = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead."
_FIELDS: Mapping[str, frozenset[str]] = {
    "resources": frozenset({"resources", "providers"}),
    "keys": frozenset({"name", "secret"}),
    "kms": frozenset({"apiVersion", "name", "cachesize", "endpoint", "timeout"}),
}


class EncryptionConfigError(OperatorError, ValueError):
    """The file cannot be used; the text names the file and every field at fault, and no key."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


@dataclass(frozen=True, slots=True)
class Provider:
    """One way to store values. ``keys`` are those of the ciphers; the rest is for kind kms."""

    kind: str
    keys: tuple[Key, ...] = ()
    name: str = ""
    endpoint: str = ""
    timeout: float = 3.0


@dataclass(frozen=True, slots=True)
class Rule:
    """``resources`` as written: ``secrets``, ``deployments.apps``, ``*.apps``, ``*.``, ``*.*``."""

    resources: tuple[str, ...]
    providers: tuple[Provider, ...]


def load(path: Path) -> tuple[Rule, ...]:
    """Read and check a file. Raises EncryptionConfigError."""
    return parse(read(path), str(path))


def read(path: Path) -> bytes:
    """The bytes of a file. Raises EncryptionConfigError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        why = f'error reading encryption provider configuration file "{path}": {error.strerror or error}'
        raise _unusable(f"error while loading file: {why}") from None
    if not data:
        raise _unusable(f'error while loading file: encryption provider configuration file "{path}" is empty')
    return data


def parse(data: bytes, origin: str) -> tuple[Rule, ...]:
    """What has been read, understood and checked; ``origin`` is the file's name for messages. Raises EncryptionConfigError."""
    undecoded = f'error decoding encryption provider configuration file "{origin}"'
    if len(data) > _MAX_BYTES:
        raise _unusable(f"{undecoded}: larger than {_MAX_BYTES} bytes")
    try:
        document = yaml.safe_load(data)
    except yaml.YAMLError as error:
        # the parser quotes the line at fault, which may hold a key
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise _unusable(f"{undecoded}: not YAML{where}") from None
    if not isinstance(document, dict):
        raise _unusable(f"{undecoded}: not a mapping")
    if not document.get("kind"):
        raise _unusable(f"{undecoded}: Object 'Kind' is missing")
    if (document.get("apiVersion"), document["kind"]) != (API_VERSION, "EncryptionConfiguration"):
        found = f'no kind "{document["kind"]}" is registered for version "{document.get("apiVersion", "")}"'
        raise _unusable(f"{undecoded}: {found}; write kind EncryptionConfiguration of {API_VERSION}")
    if unknown := list(_strict(document)):
        raise _unusable(f"{undecoded}: strict decoding error: {', '.join(unknown)}")
    problems: list[str] = []
    rules = tuple(_rules(document.get("resources"), problems))
    if problems:
        raise _unusable(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return rules


def _unusable(why: str) -> EncryptionConfigError:
    return EncryptionConfigError(f"error while parsing file: {why}")


def _strict(document: Mapping[str, Any]) -> Iterator[str]:
    """Complaints about unknown fields and wrong types, as a strict decoder has them."""
    for name in document.keys() - {"apiVersion", "kind", "resources"}:
        yield f'unknown field "{name}"'
    for i, rule in enumerate(_list(document.get("resources"))):
        at = f"resources[{i}]"
        yield from _unknown(rule, at, _FIELDS["resources"])
        for j, provider in enumerate(_list(_get(rule, "providers"))):
            inside = f"{at}.providers[{j}]"
            yield from _unknown(provider, inside, frozenset(KINDS))
            for kind in ("aesgcm", "aescbc", "secretbox"):
                cipher = _get(provider, kind)
                yield from _unknown(cipher, f"{inside}.{kind}", frozenset({"keys"}))
                for k, key in enumerate(_list(_get(cipher, "keys"))):
                    yield from _unknown(key, f"{inside}.{kind}.keys[{k}]", _FIELDS["keys"])
            yield from _unknown(_get(provider, "kms"), f"{inside}.kms", _FIELDS["kms"])
            yield from _unknown(_get(provider, "identity"), f"{inside}.identity", frozenset())


def _unknown(value: Any, path: str, known: frozenset[str]) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield f'"{path}" must be a mapping'
        return
    for name in value.keys() - known:
        yield f'unknown field "{path}.{name}"'


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _rules(resources: Any, problems: list[str]) -> Iterator[Rule]:
    if not _list(resources):
        problems.append("resources: Required value: at least one resources is required")
    names: set[str] = set()
    seen: list[str] = []
    for i, rule in enumerate(_list(resources)):
        at, inside = f"resources[{i}].resources", f"resources[{i}].providers"
        wanted = [str(one) for one in _list(_get(rule, "resources"))]
        if not wanted:
            problems.append(f"{at}: Required value: at least one {at} is required")
        problems += overlaps(wanted, at)
        problems += [text for j, name in enumerate(wanted) for text in _name_problem(name, f"{at}[{j}]")]
        providers = _list(_get(rule, "providers"))
        if not providers:
            problems.append(f"{inside}: Required value: at least one {inside} is required")
        made = [_provider(one, f"{inside}[{j}]", names, problems) for j, one in enumerate(providers)]
        if not problems:
            problems += _masked(wanted, seen)
        seen += wanted
        yield Rule(tuple(wanted), tuple(one for one in made if one is not None))


def split(resource: str) -> tuple[str, str]:
    """Resource and group of ``deployments.apps``; ``*.`` is everything of the core group."""
    name, _, group = resource.partition(".")
    return name, group


def overlaps(resources: Sequence[str], path: str) -> list[str]:
    """What is wrong with naming these in one list."""
    pairs = [split(one) for one in resources]
    shown = orjson.dumps(list(resources)).decode()
    problems = []
    if len(set(pairs)) < len(pairs):
        problems.append(f"{path}: Invalid value: {shown}: the same resource cannot be specified multiple times")
    distinct = set(pairs)
    if any(
        one != other and (one == ("*", "*") or (one[1] == other[1] and "*" in (one[0], other[0])))
        for one in distinct
        for other in distinct
    ):
        problems.append(f"{path}: Invalid value: {shown}: {_OVERLAP}")
    return problems


def _name_problem(name: str, path: str) -> Iterator[str]:
    resource, group = split(name)
    if name.lower() != name:
        why = "resource name should not contain capital letters"
    elif name == "*":
        why = _STAR
    elif name in _NO_REST:
        why = "resources which do not have REST API/s cannot be encrypted"
    elif group == "events.k8s.io":
        why = _EVENTS
    elif group == "extensions":
        why = "'extensions' group has been removed and cannot be used for encryption"
    elif group == "*" and resource != "*":
        why = "encrypting the same resource across groups is not supported"
    else:
        return
    yield f'{path}: Invalid value: "{name}": {why}'


def _masked(wanted: Sequence[str], earlier: Sequence[str]) -> list[str]:
    """A rule for what an earlier wildcard covers would never be asked."""
    for name in wanted:
        group = split(name)[1]
        for mask in (f"*.{group}", "*.*"):
            if mask in earlier:
                return [f'error while building transformers: resource "{name}" is masked by earlier rule "{mask}"']
    return []


def _provider(value: Any, path: str, names: set[str], problems: list[str]) -> Provider | None:
    found = [kind for kind in KINDS if _get(value, kind) is not None]
    if len(found) != 1:
        why = "more than one provider specified in a single element, should split into different list elements"
        if not found:
            why = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
        problems.append(f'{path}: Invalid value: "{", ".join(found)}": {why}')
        return None
    kind = found[0]
    if kind == "identity":
        return Provider(kind)
    if kind == "kms":
        return _kms(value[kind], f"{path}.kms", names, problems)
    return Provider(kind, tuple(_keys(_get(value[kind], "keys"), f"{path}.{kind}.keys", _KEY_SIZES[kind], problems)))


def _keys(keys: Any, path: str, sizes: Sequence[int], problems: list[str]) -> Iterator[Key]:
    if not _list(keys):
        problems.append(f"{path}: Required value: at least one keys is required")
    for i, key in enumerate(_list(keys)):
        at = f"{path}[{i}]"
        name, secret = str(_get(key, "name") or ""), str(_get(key, "secret") or "")
        if not name:
            problems.append(f"{at}.name: Required value: name is a mandatory field for a key")
        if not secret:
            problems.append(f"{at}.secret: Required value: secret is a mandatory field for a key")
            continue
        try:
            decoded = base64.b64decode(re.sub(r"[\r\n]", "", secret), validate=True)
        except (binascii.Error, ValueError):
            problems.append(f'{at}.secret: Invalid value: "REDACTED": secrets must be base64 encoded')
            continue
        if len(decoded) not in sizes:
            wanted = " ".join(map(str, sizes))
            why = f"secret is not of the expected length, got {len(decoded)}, expected one of [{wanted}]"
            problems.append(f'{at}.secret: Invalid value: "REDACTED": {why}')
            continue
        yield Key(name, decoded)


def _kms(value: Mapping[str, Any], path: str, names: set[str], problems: list[str]) -> Provider | None:
    version = value.get("apiVersion") or "v1"  # as upstream defaults it
    name, endpoint = str(value.get("name") or ""), str(value.get("endpoint") or "")
    before = len(problems)
    if not name:
        problems.append(f"{path}.name: Required value: name is a mandatory field for a provider")
    if ":" in name and version != "v1":
        problems.append(f"{path}.name: Invalid value: \"{name}\": invalid KMS provider name {name}, must not contain ':'")
    if name in names:
        problems.append(f'{path}.name: Invalid value: "{name}": duplicate KMS provider name {name}, names must be unique')
    names.add(name)
    timeout = _timeout(value.get("timeout"), path, problems)
    if not endpoint:
        problems.append(f'{path}.endpoint: Invalid value: "": endpoint is a mandatory field for a kms')
    elif (scheme := urlsplit(endpoint).scheme) != "unix":
        why = f'unsupported scheme "{scheme}" for KMS provider, only unix is supported'
        problems.append(f'{path}.endpoint: Invalid value: "{endpoint}": {why}')
    if version != "v1" and value.get("cachesize") is not None:
        problems.append(f"{path}.cachesize: Invalid value: {value['cachesize']}: cachesize is not supported in v2")
    if version not in ("v1", "v2"):
        why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"  # upstream's own words
        problems.append(f'{path}.apiVersion: Invalid value: "{version}": {why}')
    if len(problems) == before and version == "v1":
        problems.append(f"error while building transformers: {_KMS_V1} ({path}.apiVersion: v2; this server has no KMSv1)")
    return Provider("kms", (), name, endpoint, timeout)


def _timeout(value: Any, path: str, problems: list[str]) -> float:
    if value is None:
        return 3.0
    try:
        seconds = parse_duration(str(value))
    except ValueError as error:
        problems.append(f"{path}.timeout: Invalid value: {value}: {error}")
        return 3.0
    if seconds <= 0:
        problems.append(f"{path}.timeout: Invalid value: {value}: timeout should be a positive value")
    return seconds
