"""Which checks make up which level in which version, in the order in which findings are shown: baseline first, each by name."""

from dataclasses import dataclass
from functools import lru_cache

from controlplane.apiserver.admission.pod_security import baseline, restricted
from controlplane.apiserver.admission.pod_security.forms import Check, Finding, Pod

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)
NEWEST = 36
"""The minor version that ``latest`` and every later one stand for."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check by its name, with its forms from the versions (minors) they begin with."""

    name: str
    forms: tuple[tuple[int, Check], ...]

    def at(self, minor: int) -> Check | None:
        fitting = [check for since, check in self.forms if since <= minor]
        return fitting[-1] if fitting else None


BASELINE_RULES = (
    Rule("appArmorProfile", ((0, baseline.app_armor),)),
    Rule("capabilities_baseline", ((0, baseline.capabilities),)),
    Rule("hostNamespaces", ((0, baseline.host_namespaces),)),
    Rule("hostPathVolumes", ((0, baseline.host_path_volumes),)),
    Rule("hostPorts", ((0, baseline.host_ports),)),
    Rule("hostProbesAndHostLifecycle", ((34, baseline.probe_hosts),)),
    Rule("privileged", ((0, baseline.privileged),)),
    Rule("procMount", ((0, baseline.proc_mount),)),
    Rule("seLinuxOptions", ((0, baseline.SELINUX_1_0), (31, baseline.SELINUX_1_31))),
    Rule("seccompProfile_baseline", ((0, baseline.seccomp),)),
    Rule(
        "sysctls",
        (
            (0, baseline.sysctls(baseline.SYSCTLS_1_0)),
            (27, baseline.sysctls(baseline.SYSCTLS_1_27)),
            (29, baseline.sysctls(baseline.SYSCTLS_1_29)),
            (32, baseline.sysctls(baseline.SYSCTLS_1_32)),
        ),
    ),
    Rule("windowsHostProcess", ((0, baseline.windows_host_process),)),
)
RESTRICTED_RULES = (
    Rule(
        "allowPrivilegeEscalation",
        ((8, restricted.privilege_escalation), (25, restricted.unless_windows(restricted.privilege_escalation))),
    ),
    Rule("capabilities_restricted", ((22, restricted.capabilities), (25, restricted.unless_windows(restricted.capabilities)))),
    Rule("restrictedVolumes", ((0, restricted.volumes),)),
    Rule("runAsNonRoot", ((0, restricted.run_as_non_root),)),
    Rule("runAsUser", ((23, restricted.run_as_user),)),
    Rule("seccompProfile_restricted", ((19, restricted.seccomp), (25, restricted.unless_windows(restricted.seccomp)))),
)
REPLACED = {
    "capabilities_restricted": "capabilities_baseline",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}


@lru_cache(maxsize=128)
def checks_of(level: str, minor: int) -> tuple[Check, ...]:
    if level == PRIVILEGED:
        return ()
    rules: tuple[Rule, ...] = BASELINE_RULES
    if level == RESTRICTED:
        added = [rule for rule in RESTRICTED_RULES if rule.at(minor) is not None]
        hidden = {REPLACED[rule.name] for rule in added if rule.name in REPLACED}
        rules = (*(rule for rule in BASELINE_RULES if rule.name not in hidden), *added)
    return tuple(check for rule in rules if (check := rule.at(minor)) is not None)


def findings(pod: Pod, level: str, minor: int) -> list[Finding]:
    """Everything by which the pod breaks the level."""
    return [found for check in checks_of(level, minor) if (found := check(pod)) is not None]
