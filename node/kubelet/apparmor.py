"""Whether this node can do what a pod asks of AppArmor. Asked when a pod comes, before anything of it is started."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apimachinery.objects import pods

REASON = "AppArmor"
_PARAMETER = Path("/sys/module/apparmor/parameters/enabled")
_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_UNCONFINED = ("Unconfined", "unconfined")


def is_enabled(parameter: Path = _PARAMETER) -> bool:
    """Whether the kernel of this machine enforces AppArmor."""
    try:
        return parameter.read_text().startswith("Y")
    except OSError:
        return False


def refuse(pod: Mapping[str, Any], enabled: bool) -> tuple[str, str] | None:
    """(reason, message) when a container must be confined and cannot be. Pure."""
    if enabled or not any(_wanted(pod)):
        return None
    return REASON, "Cannot enforce AppArmor: AppArmor is not enabled on the host"


def _wanted(pod: Mapping[str, Any]) -> list[bool]:
    """For each place that can name a profile, whether it names one that confines."""
    spec = pods.spec_of(pod)
    contexts = [spec.get("securityContext") or {}, *((each.get("securityContext") or {}) for each in pods.all_containers(pod))]
    named = [context["appArmorProfile"].get("type") for context in contexts if context.get("appArmorProfile")]
    annotations = (pod["metadata"].get("annotations") or {}).items()
    named += [value for key, value in annotations if key.startswith(_ANNOTATION) and value]
    return [each not in _UNCONFINED for each in named]
