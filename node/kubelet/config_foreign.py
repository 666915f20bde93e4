"""Fields of upstream's KubeletConfiguration that this kubelet has no use for: which may be there, and with which values.

Asked by ``config`` for every field that it does not know itself. Three kinds: *policies* are accepted with the value that says
what this kubelet does anyway and refused with any other, because a policy that is silently ignored is worse than an error;
*tuning* of mechanisms that are not here is accepted and named in the log; what is no field at all is unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

# What else than nothing (null, "", 0, false, 0s, an empty list or mapping) says what happens here in any case.
POLICIES: Mapping[str, tuple[Any, ...]] = {
    "enableServer": (True,),
    "readOnlyPort": (),
    "enableDebuggingHandlers": (True,),
    "enableSystemLogQuery": (),
    "kubeletCgroups": (),
    "systemCgroups": (),
    "runOnce": (),
    "podsPerCore": (),
    "enableControllerAttachDetach": (True,),
    "protectKernelDefaults": (),
    "kernelMemcgNotification": (),
    "memoryReservationPolicy": ("None",),
    "tracing": (),
    "tlsCurvePreferences": (),
}
TUNING = frozenset(
    {
        *("eventRecordQPS", "eventBurst", "enableContentionProfiling"),
        *("oomScoreAdj", "streamingConnectionIdleTimeout"),
        *("draManagerReconcilePeriod", "runtimeRequestTimeout", "hairpinMode", "nodeStatusMaxImages", "maxOpenFiles"),
        *("contentType", "kubeAPIQPS", "kubeAPIBurst", "makeIPTablesUtilChains", "iptablesMasqueradeBit", "iptablesDropBit"),
        *("containerLogMaxWorkers", "containerLogMonitorInterval", "configMapAndSecretChangeDetectionStrategy"),
        *("showHiddenMetricsForVersion", "volumePluginDir", "logging", "enableProfilingHandler", "enableDebugFlagsHandler"),
        "memoryThrottlingFactor",
    }
)
NESTED = frozenset(path.rpartition(".")[0] for path in POLICIES if "." in path)


def problem(path: str, value: Any) -> str | None:
    """What is wrong with a field that ``config`` does not obey; None for one that may be there."""
    if path in TUNING or (path in NESTED and not value):
        return None
    if path not in POLICIES:
        return f'unknown field "{path}"'
    if is_nothing(value) or value in POLICIES[path]:
        return None
    shown = " or ".join(repr(one) for one in POLICIES[path]) or "nothing"
    return f"{path}: {value!r} is not supported by this kubelet, only {shown}"


def ignored(document: Mapping[str, Any]) -> Sequence[str]:
    """The tuning in a document that has no effect here, for the log."""
    return sorted(key for key, value in document.items() if key in TUNING and not is_nothing(value))


def is_nothing(value: Any) -> bool:
    """What stands for "not said" in a Go document with all fields written out."""
    return not value or value in ("0s", "0")


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A document with another one over it, as a JSON merge patch: mappings field by field, lists as a whole, null removes."""
    result = dict(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            inner = result.get(key)
            result[key] = merged(inner if isinstance(inner, dict) else {}, value)
        else:
            result[key] = value
    return result
