"""Forgetting old revisions, together with every other API server of the cluster. Run by ``backend``.

The key ``compact_rev_key`` is a clock that all servers share, upstream's included: who moves its version on compacts to where
etcd stood one interval before; the others only look. Follows k8s.io/apiserver ``storage/etcd3/compact.go``.
"""

from dataclasses import dataclass

from controlplane.apiserver.storage.backends.etcd.api import etcd_v3_pb2 as pb
from controlplane.apiserver.storage.backends.etcd.keys import COMPACT_KEY
from controlplane.apiserver.storage.backends.etcd.members import CALL_SECONDS, Members


@dataclass(slots=True)
class Compactor:
    """``time`` is the version of the shared key when it was last looked at, ``revision`` etcd's revision then."""

    members: Members
    time: int = 0
    revision: int = 0

    async def tick(self) -> int:
        """One interval has passed. Returns the revision that was compacted to, 0 when it was not this server's turn."""
        target = self.revision
        response = await self.members.call("KV", "Txn", _move(self.time, target), safe=False, attempt=CALL_SECONDS)
        self.revision = response.header.revision
        if not response.succeeded:
            found = response.responses[0].response_range.kvs
            self.time = found[0].version if found else 0
            return 0
        self.time += 1
        if not target:  # at the start nothing is known of the past
            return 0
        await self.members.call("KV", "Compact", pb.CompactionRequest(revision=target), safe=True, attempt=CALL_SECONDS)
        return target


def _move(time: int, revision: int) -> pb.TxnRequest:
    return pb.TxnRequest(
        compare=[pb.Compare(result=pb.Compare.EQUAL, target=pb.Compare.VERSION, key=COMPACT_KEY, version=time)],
        success=[pb.RequestOp(request_put=pb.PutRequest(key=COMPACT_KEY, value=str(revision).encode()))],
        failure=[pb.RequestOp(request_range=pb.RangeRequest(key=COMPACT_KEY))],
    )
