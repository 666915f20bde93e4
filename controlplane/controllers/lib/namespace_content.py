"""What is left in a namespace that goes away, as the conditions that ``kubectl describe namespace`` shows. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apimachinery.meta import Object, finalizers_of, set_condition


@dataclass(slots=True)
class Remains:
    """Counted by the namespace controller in one pass."""

    objects: dict[str, int] = field(default_factory=dict)  # by resource.group
    finalizers: dict[str, int] = field(default_factory=dict)
    discovery_failures: dict[str, str] = field(default_factory=dict)
    content_failures: list[str] = field(default_factory=list)
    grace_seconds: int = 0

    @property
    def empty(self) -> bool:
        return not self.objects and not self.content_failures and not self.discovery_failures

    def count(self, resource: str, items: list[Mapping[str, Any]]) -> None:
        if not items:
            return
        self.objects[resource] = self.objects.get(resource, 0) + len(items)
        for item in items:
            for finalizer in finalizers_of(item):
                self.finalizers[finalizer] = self.finalizers.get(finalizer, 0) + 1
            grace = (item.get("metadata") or {}).get("deletionGracePeriodSeconds") or 0
            self.grace_seconds = max(self.grace_seconds, int(grace))


def set_conditions(namespace: Object, remains: Remains, now: datetime) -> bool:
    """Write the five deletion conditions; a condition that was never a problem is not written at all until the end."""
    counted = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remains.objects.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(remains.finalizers.items()))
    undiscovered = ", ".join(f"{name}: {why}" for name, why in sorted(remains.discovery_failures.items()))
    if undiscovered:
        undiscovered = f"Discovery failed for some groups, {len(remains.discovery_failures)} failing: {undiscovered}"
    verdicts = [
        (
            "NamespaceDeletionDiscoveryFailure",
            undiscovered,
            ("DiscoveryFailed", "ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "",
            ("GroupVersionParsingFailed", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            f"Failed to delete all resource types, {len(remains.content_failures)} remaining: "
            + ", ".join(remains.content_failures)
            if remains.content_failures
            else "",
            (
                "ContentDeletionFailed",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ),
        (
            "NamespaceContentRemaining",
            f"Some resources are remaining: {counted}" if counted else "",
            ("SomeResourcesRemain", "ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            f"Some content in the namespace has finalizers remaining: {held}" if held else "",
            ("SomeFinalizersRemain", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ]
    changed = False
    for kind, trouble, (bad, good, fine) in verdicts:
        status, reason, message = ("True", bad, trouble) if trouble else ("False", good, fine)
        changed |= set_condition(namespace, kind, status, now=now, reason=reason, message=message)
    return changed
