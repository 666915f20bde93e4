"""Limits that pods set on their own use of local disk."""

from typing import Any

import pytest

from node.kubelet.eviction.local_storage import exceeded, is_limited
from node.kubelet.eviction.ranking import ContainerUsed, PodUsed

MI = 1 << 20


def pod(limit: str = "", size: str = "", second: bool = False) -> dict[str, Any]:
    containers: list[dict[str, Any]] = [{"name": "main", "resources": {"limits": {"ephemeral-storage": limit}} if limit else {}}]
    if second:
        containers.append({**containers[0], "name": "second"})
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": size} if size else {}}]
    return {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": containers, "volumes": volumes}}


def test_only_limited_pods_are_measured() -> None:
    assert not is_limited(pod())
    assert is_limited(pod(limit="1Mi"))
    assert is_limited(pod(size="1Mi"))


@pytest.mark.parametrize(
    ("wanted", "used", "outcome"),
    [
        (pod(size="1Mi"), PodUsed(volumes={"scratch": (1 * MI, 5)}), None),
        (
            pod(size="1Mi"),
            PodUsed(volumes={"scratch": (2 * MI, 5)}),
            ("emptydirfs.limit", 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". '),
        ),
        (
            pod(limit="4Mi", second=True),
            PodUsed({"main": ContainerUsed(rootfs=3 * MI), "second": ContainerUsed(logs=3 * MI)}, {"scratch": (3 * MI, 1)}),
            ("ephemeralpodfs.limit", "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. "),
        ),
        (
            pod(limit="4Mi", second=True),
            PodUsed({"main": ContainerUsed(rootfs=3 * MI, logs=2 * MI)}),
            ("ephemeralcontainerfs.limit", 'Container main exceeded its local ephemeral storage limit "4Mi". '),
        ),
        (pod(limit="4Mi"), PodUsed({"main": ContainerUsed(rootfs=4 * MI)}), None),
    ],
)
def test_who_exceeds_a_limit_is_told_which(wanted: dict[str, Any], used: PodUsed, outcome: tuple[str, str] | None) -> None:
    assert exceeded(wanted, used) == outcome
