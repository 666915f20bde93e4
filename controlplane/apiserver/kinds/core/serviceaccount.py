"""ServiceAccounts: identities of pods. ``/token`` is an endpoint of its own."""

from datetime import datetime
from typing import Any

from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Object, ResourceInfo, Strategy


class ServiceAccountStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("", "v1", "ServiceAccount"), "serviceaccounts", "serviceaccount", True, short_names=("sa",)
    )
    columns = (NAME, Column("Secrets", description="Number of secrets that pods running as this account may use"), AGE)
    returns_deleted = True

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], len(obj.get("secrets") or ()), age_of(obj, now)]
