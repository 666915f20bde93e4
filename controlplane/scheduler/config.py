"""KubeSchedulerConfiguration, as far as it is understood here; anything else in it is refused by name.

Read from ``--config``; turned into profiles by ``plugins.catalog``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from component import config, flags

DEFAULT_NAME = "default-scheduler"
_IGNORED = frozenset({"clientConnection", "parallelism", "enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"})
_POINTS = frozenset(
    {"multiPoint", "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit",
     "preBind", "bind", "postBind"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """``enabled`` maps plugin names to weights (0: the plugin's own); ``disabled`` may hold ``*``."""

    scheduler_name: str = DEFAULT_NAME
    enabled: Mapping[str, int] = field(default_factory=dict)
    disabled: frozenset[str] = frozenset()
    unscored: frozenset[str] = frozenset()
    unfiltered: frozenset[str] = frozenset()
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    profiles: tuple[ProfileConfig, ...] = (ProfileConfig(),)
    initial_backoff: float = 1.0
    longest_backoff: float = 10.0
    percentage_of_nodes: int = 0
    leader_election: Mapping[str, Any] = field(default_factory=dict)


def read(path: str | None) -> SchedulerConfig:
    """The configuration of a file, or the default without one. Raises click.UsageError for what it does not understand."""
    if not path:
        return SchedulerConfig()
    settings = config.read(path, "KubeSchedulerConfiguration")
    known = {"profiles", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "percentageOfNodesToScore", "leaderElection"}
    for key in settings.keys() - known - _IGNORED:
        raise click.UsageError(f"configuration file {path}: {key} is not supported")
    written: list[Mapping[str, Any]] = settings.get("profiles") or [{}]
    profiles = tuple(_profile(path, each) for each in written)
    names = [each.scheduler_name for each in profiles]
    if len(set(names)) != len(names):
        raise click.UsageError(f"configuration file {path}: two profiles have the same schedulerName")
    return SchedulerConfig(
        profiles,
        float(settings.get("podInitialBackoffSeconds") or 1),
        float(settings.get("podMaxBackoffSeconds") or 10),
        int(settings.get("percentageOfNodesToScore") or 0),
        settings.get("leaderElection") or {},
    )


def _profile(path: str, written: Mapping[str, Any]) -> ProfileConfig:
    for key in written.keys() - {"schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore"}:
        raise click.UsageError(f"configuration file {path}: profiles[].{key} is not supported")
    enabled: dict[str, int] = {}
    disabled: dict[str, set[str]] = {point: set() for point in _POINTS}
    for point, sets in (written.get("plugins") or {}).items():
        if point not in _POINTS:
            raise click.UsageError(f"configuration file {path}: plugins.{point} is not an extension point")
        for each in sets.get("enabled") or ():
            enabled[each["name"]] = int(each.get("weight") or 0)
        disabled[point] |= {each["name"] for each in sets.get("disabled") or ()}
    return ProfileConfig(
        str(written.get("schedulerName") or DEFAULT_NAME),
        enabled,
        frozenset(disabled["multiPoint"]),
        frozenset(disabled["score"]),
        frozenset(disabled["filter"]),
        {each["name"]: each.get("args") or {} for each in written.get("pluginConfig") or ()},
    )


def leader_election(options: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with the file's ``leaderElection`` in place of the flags' defaults."""
    merged = dict(options)
    durations = {
        "leaseDuration": "leader_elect_lease_duration",
        "renewDeadline": "leader_elect_renew_deadline",
        "retryPeriod": "leader_elect_retry_period",
    }
    for key, option in durations.items():
        if key in configured:
            merged[option] = flags.parse_duration(str(configured[key]))
    if "leaderElect" in configured:
        merged["leader_elect"] = bool(configured["leaderElect"])
    for key, option in (
        ("resourceName", "leader_elect_resource_name"),
        ("resourceNamespace", "leader_elect_resource_namespace"),
    ):
        if configured.get(key):
            merged[option] = configured[key]
    return merged
