"""What a namespace's labels ask for: a level and a version each to enforce, to audit and to warn about."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from component import strict
from component.errors import OperatorError
from controlplane.apiserver.admission.pod_security.checks import LEVELS, NEWEST, PRIVILEGED, RESTRICTED

PREFIX = "pod-security.kubernetes.io/"
MODES = ("enforce", "audit", "warn")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,5})")
_SHAPE: strict.Shape = {
    "apiVersion": None,
    "kind": None,
    "defaults": {f"{mode}{suffix}": None for mode in MODES for suffix in ("", "-version")},
    "exemptions": dict.fromkeys(("usernames", "namespaces", "runtimeClasses")),
}


@dataclass(frozen=True, slots=True)
class Standard:
    """A level in a version; shown as ``baseline:latest`` or ``restricted:v1.30``."""

    level: str = PRIVILEGED
    version: str = "latest"

    @property
    def minor(self) -> int:
        return NEWEST if self.version == "latest" else min(int(self.version.removeprefix("v1.")), NEWEST)

    @property
    def shown(self) -> str:
        """The version in metrics: made-up ones must not fill the memory."""
        if self.level == PRIVILEGED or self.version == "latest":
            return "latest"
        return self.version if int(self.version.removeprefix("v1.")) <= NEWEST else "future"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of the whole server: what holds where labels say nothing, and who is left alone."""

    defaults: Mapping[str, Standard] = field(default_factory=dict)
    users: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def settings_from(config: Mapping[str, Any]) -> Settings:
    """A PodSecurityConfiguration. Raises OperatorError for what it cannot mean."""
    try:
        strict.check(config, _SHAPE)
    except ValueError as error:
        raise OperatorError(f"PodSecurityConfiguration: {error}") from None
    given, exempt = config.get("defaults") or {}, config.get("exemptions") or {}
    defaults = {}
    for mode in MODES:
        level, version = str(given.get(mode, PRIVILEGED)), str(given.get(f"{mode}-version", "latest"))
        if level not in LEVELS or not _is_version(version):
            raise OperatorError(
                f"PodSecurityConfiguration: defaults.{mode} must be one of {', '.join(LEVELS)}, its version latest or v1.x"
            )
        defaults[mode] = Standard(level, version)
    sets = [frozenset(map(str, exempt.get(name) or ())) for name in ("usernames", "namespaces", "runtimeClasses")]
    return Settings(defaults, *sets)


def _is_version(text: str) -> bool:
    return text == "latest" or _VERSION.fullmatch(text) is not None


def standard(labels: Mapping[str, str], mode: str, settings: Settings) -> Standard:
    """What a namespace asks for. A level that is none means the strictest one, for enforcing; else nothing."""
    default = settings.defaults.get(mode, Standard())
    level, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
    if level is not None and level not in LEVELS:
        level = RESTRICTED if mode == "enforce" else PRIVILEGED
    if version is not None and not _is_version(version):
        version = "latest"
    if level is None:
        level = default.level
        version = version or default.version
    return Standard(level, version or "latest")


def label_errors(labels: Mapping[str, str]) -> list[FieldError]:
    found = []
    for mode in MODES:
        level, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
        if level is not None and level not in LEVELS:
            path = f"metadata.labels[{PREFIX}{mode}]"
            found.append(fieldpath.invalid(path, level, f"must be one of {', '.join(LEVELS)}"))
        if version is not None and not _is_version(version):
            path = f"metadata.labels[{PREFIX}{mode}-version]"
            found.append(fieldpath.invalid(path, version, 'must be "latest" or "v1.x"'))
    return found
