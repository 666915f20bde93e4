"""etcd's and gRPC's errors in the words of storage, and whether a call may be made again. Used by ``members``.

The texts are etcd's own (``etcdserver/api/v3rpc/rpctypes``): gRPC's codes alone do not tell a lost leader from a full disk.
"""

from dataclasses import dataclass

import grpc
import grpc.aio

from controlplane.apiserver.storage.interface import OutcomeUnknownError, StorageUnavailableError, TooLargeError

COMPACTED = "required revision has been compacted"
FUTURE = "required revision is a future revision"
NO_LEASE = "requested lease not found"
DENIED = "permission denied"

_SPACE = (
    "etcd: its database has reached its quota (mvcc: database space exceeded): compact and defragment it, or raise "
    "--quota-backend-bytes, then run `etcdctl alarm disarm`; reads go on meanwhile"
)
# what a member says before it has done anything
_NOT_DONE = (
    "etcdserver: no leader",
    "etcdserver: not leader",
    "etcdserver: leader changed",
    "etcdserver: too many requests",
    "etcdserver: not capable",
    "etcdserver: rpc not supported for learner",
    "failed to connect to all addresses",
    "dns resolution failed",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """``elsewhere``: another member may do better. ``not_done``: the call certainly had no effect."""

    code: grpc.StatusCode
    text: str
    elsewhere: bool
    not_done: bool

    def says(self, text: str) -> bool:
        return text in self.text


REPLACED = Failure(grpc.StatusCode.CANCELLED, "the connection was replaced", elsewhere=True, not_done=False)
"""Of a call that was under way when its channel was closed for one with renewed certificates."""


def understand(error: grpc.aio.AioRpcError) -> Failure:
    code, text = error.code(), error.details() or ""
    lowered = text.lower()
    not_done = any(known in lowered for known in _NOT_DONE)
    elsewhere = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED) or not_done
    return Failure(code, text, elsewhere, not_done)


def raised(failure: Failure, url: str, *, safe: bool) -> Exception:
    """What the caller of storage gets. ``safe`` calls change nothing, so their outcome cannot be in doubt."""
    if failure.says("database space exceeded"):
        return StorageUnavailableError(_SPACE, retry_after=10)
    if failure.says("request is too large") or failure.says("larger than max"):
        return TooLargeError(f"etcd: {failure.text}")
    if failure.says("too many operations in txn") or failure.says("duplicate key given"):
        return ValueError(f"etcd: {failure.text}")
    if failure.says("no leader"):
        return StorageUnavailableError(f"etcd: {url} has no leader: the cluster has lost its quorum or is electing one")
    text = f"etcd: {url}: {failure.text or failure.code.name}"
    if failure.elsewhere and not failure.not_done and not safe:
        return OutcomeUnknownError(f"{text}; the change may have been made or not")
    return StorageUnavailableError(text)
