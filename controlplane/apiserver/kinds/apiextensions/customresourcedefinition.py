"""CustomResourceDefinitions: readable, so that clients can ask whether a kind they do not know is one; none can be made yet.

kubectl lists them before it says that a kind does not exist. Creating one is refused by name (405) until ``crd/`` serves them.
"""

from datetime import datetime
from typing import Any

from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared.columns import NAME
from controlplane.apiserver.registry.strategy import Column, Object, ResourceInfo, Strategy


class CustomResourceDefinitionStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        "customresourcedefinitions",
        "customresourcedefinition",
        False,
        ("crd", "crds"),
        ("api-extensions",),
        verbs=("get", "list", "watch"),
    )
    columns = (NAME, Column("Created At", "date", description="When the definition was made."))

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]
