"""What checks share: a finding, the containers of a pod, and the words findings are made of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Spec = Mapping[str, Any]
Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """``reason (detail)``, as refusals show it."""

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


Check = Callable[[Pod], Finding | None]


def spec_of(pod: Pod) -> Spec:
    spec: Spec = pod.get("spec") or {}
    return spec


def containers(pod: Pod) -> list[Mapping[str, Any]]:
    """Every container, init and ephemeral ones too, in upstream's order."""
    spec = spec_of(pod)
    return [each for part in ("initContainers", "containers", "ephemeralContainers") for each in spec.get(part) or ()]


def context_of(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    context: Mapping[str, Any] = holder.get("securityContext") or {}
    return context


def names_where(pod: Pod, bad: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    return [each.get("name", "") for each in containers(pod) if bad(each)]


def quoted(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def one_or_more(word: str, names: list[str]) -> str:
    """``container "a"`` or ``containers "a", "b"``."""
    return f"{word}{'' if len(names) == 1 else 's'} {quoted(names)}"


def setters(pod_too: bool, names: list[str]) -> str:
    """``pod and container "a"``: who sets something; empty when nobody does."""
    parts = ["pod"] if pod_too else []
    return " and ".join([*parts, *([one_or_more("container", names)] if names else [])])


def is_windows(pod: Pod) -> bool:
    return (spec_of(pod).get("os") or {}).get("name") == "windows"
