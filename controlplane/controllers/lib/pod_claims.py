"""Which pods use which claims: an index over pods, by ``namespace/name`` of the claim. For all who look after volumes."""

from collections.abc import Iterator

from apimachinery.meta import Object, make_key, namespace_of
from apimachinery.objects import volumes

BY_CLAIM = "claim"


def claims_of(pod: Object) -> Iterator[str]:
    """Keys of the claims a pod names, its generic ephemeral volumes included."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if name := volumes.claim_name(pod, volume):
            yield make_key(namespace_of(pod), name)


def index_by_claim(pod: Object) -> list[str]:
    return list(dict.fromkeys(claims_of(pod)))
