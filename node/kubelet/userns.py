"""User namespaces of pods (``hostUsers: false``): which ids of this machine each pod gets for its own, kept on disk.

``runtime.manager`` asks for a pod's mapping when it makes its sandbox; the pod's end lets the ids go. No two pods have an id in
common, and none has one of the host's first 65,536. The file ``userns`` in a pod's directory is upstream's: a restarted kubelet
goes on with what its pods were given.
"""

import asyncio
import contextlib
import json
import os
import pwd
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apimachinery.meta import uid_of
from apimachinery.objects import pods
from component import logs
from component.process import ProcessError, Runner

UNIT = 65536
GATE = "UserNamespacesSupport"
_FILE = "userns"
_USER = "kubelet"
_LARGEST_ID = 1 << 32
_log = logs.get(__name__)

Pod = Mapping[str, Any]


class UserNamespaceError(ValueError):
    """The pod can have no user namespace; the text is upstream's, for an event."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """Ids of the host, the same for users and groups."""

    first: int
    length: int


def whole_range(given: IdRange, ids_per_pod: int, max_pods: int) -> IdRange:
    """``given`` if it can be divided among the pods. Raises ValueError in upstream's words. Pure."""
    if ids_per_pod % UNIT:
        raise ValueError(f"kubelet user namespace length {ids_per_pod} is not a multiple of {UNIT}")
    if given.first % ids_per_pod:
        raise ValueError(f"kubelet user assigned ID {given.first} is not a multiple of {ids_per_pod}")
    if given.first < ids_per_pod:
        raise ValueError(f"kubelet user assigned ID {given.first} must be greater or equal to {ids_per_pod}")
    if given.length % ids_per_pod:
        raise ValueError(f"kubelet user assigned IDs length {given.length} is not a multiple of {ids_per_pod}")
    if given.length // ids_per_pod < max_pods:
        raise ValueError(f"kubelet user assigned IDs are not enough to support {max_pods} pods")
    return given


async def host_range(runner: Runner, ids_per_pod: int, max_pods: int) -> IdRange:
    """The ids that ``/etc/subuid`` and ``/etc/subgid`` give to the user kubelet, by getsubids; without that user or program,
    those that follow the host's first ones. Raises ValueError for a division that cannot be used."""
    default = IdRange(ids_per_pod, min(ids_per_pod * max_pods, _LARGEST_ID - ids_per_pod))
    if shutil.which("getsubids") is None or not await asyncio.to_thread(_known, _USER):
        return default
    try:
        users = await runner.run(["getsubids", _USER])
        groups = await runner.run(["getsubids", "-g", _USER])
    except ProcessError as error:
        raise ValueError(f"error finding additional ids for user {_USER}: {error}") from None
    if users.stdout != groups.stdout:
        raise ValueError(f'user {_USER} has different subuids and subgids: "{users.stdout!r}" vs "{groups.stdout!r}"')
    return whole_range(parse_subids(users.stdout.decode()), ids_per_pod, max_pods)


def _known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def parse_subids(text: str) -> IdRange:
    """What getsubids prints: ``0: kubelet 65536 7208960``, one line. Raises ValueError. Pure."""
    lines = text.strip().splitlines()
    if len(lines) != 1:
        raise ValueError(f"there must be exactly one range of subordinate ids for user {_USER}, not {len(lines)}")
    words = lines[0].split()
    if len(words) != 4 or not (words[2].isdigit() and words[3].isdigit()):
        raise ValueError(f"invalid mapping format of getsubids: {lines[0]!r}")
    return IdRange(int(words[2]), int(words[3]))


class UserNamespaces:
    """One per kubelet. ``pod_dir`` tells a pod's directory, ``supports(handler)`` whether the runtime can."""

    def __init__(
        self,
        ids: IdRange,
        ids_per_pod: int,
        pod_dir: Callable[[str], Path],
        supports: Callable[[str], bool],
        *,
        enabled: bool = True,
    ) -> None:
        self._ids = ids
        self._per_pod = ids_per_pod
        self._pod_dir = pod_dir
        self._supports = supports
        self._enabled = enabled
        self._used: dict[str, int] = {}  # the first id of each pod, by uid

    def load(self, uids: list[str]) -> None:
        """The mappings that a kubelet before this one has given. Blocks: for the start. A file that is broken, or of another
        division of the ids, is left: its pod is told so when it asks."""
        for uid in uids:
            try:
                held = self._read(uid)
                if held is not None:
                    self._record(uid, held)
            except (OSError, ValueError) as error:
                _log.error("Cannot use the user namespace of a pod", uid=uid, err=error)

    def of(self, pod: Pod, handler: str) -> IdRange | None:
        """The ids of the pod's own user namespace, given now if need be; None: it is in the host's. Blocks: writes a file.

        Raises UserNamespaceError, or OSError.
        """
        host_users = pods.spec_of(pod).get("hostUsers")
        if host_users is not None and not self._enabled:
            raise UserNamespaceError(f'the feature gate "{GATE}" is disabled: can\'t set spec.HostUsers')
        if host_users is not False:
            return None
        if not self._supports(handler):
            who = f'RuntimeClass handler "{handler}"' if handler else "runtime"
            raise UserNamespaceError(f"can't set `spec.hostUsers: false`, {who} does not support user namespaces")
        uid = uid_of(pod)
        try:
            held = self._read(uid)
            if held is not None:
                return self._record(uid, held)
        except ValueError as error:
            raise UserNamespaceError(f"user namespace: {error}") from None
        first = self._free()
        self._used[uid] = first
        made = IdRange(first, self._per_pod)
        try:
            self._write(uid, made)
        except OSError:
            del self._used[uid]
            raise
        return made

    def release(self, uid: str) -> None:
        """Nothing of the pod runs any more. Blocks."""
        if self._used.pop(uid, None) is not None:
            with contextlib.suppress(FileNotFoundError):
                (self._pod_dir(uid) / _FILE).unlink()

    def _free(self) -> int:
        taken = set(self._used.values())
        for first in range(self._ids.first, self._ids.first + self._ids.length, self._per_pod):
            if first not in taken:
                return first
        why = "could not find an empty slot to allocate a user namespace"
        raise UserNamespaceError(f"create user namespace: {why}")

    def _record(self, uid: str, held: IdRange) -> IdRange:
        if held.length != self._per_pod:
            raise ValueError(f"wrong user namespace length {held.length}")
        if held.first % self._per_pod:
            raise ValueError(f"wrong user namespace offset specified {held.first}")
        if not self._ids.first <= held.first < self._ids.first + self._ids.length:
            raise ValueError(f"id {held.first} is out of range")
        if any(other != uid and first == held.first for other, first in self._used.items()):
            raise ValueError(f'range picked for pod "{uid}" already taken')
        self._used[uid] = held.first
        return held

    def _read(self, uid: str) -> IdRange | None:
        try:
            content = (self._pod_dir(uid) / _FILE).read_bytes()
        except FileNotFoundError:
            return None
        return parse_mappings(content)

    def _write(self, uid: str, made: IdRange) -> None:
        """Durable before it is used: after a crash, no second pod may get the same ids."""
        mapping = [{"hostId": made.first, "containerId": 0, "length": made.length}]
        folder = self._pod_dir(uid)
        fresh = folder / f".{_FILE}.tmp"
        with fresh.open("w") as file:
            json.dump({"uidMappings": mapping, "gidMappings": mapping}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, folder / _FILE)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def parse_mappings(content: bytes) -> IdRange:
    """A ``userns`` file. Raises ValueError. Pure."""
    try:
        document = json.loads(content)
        users, groups = document["uidMappings"], document["gidMappings"]
        if users != groups:
            raise ValueError("invalid user namespace configuration: GID and UID mappings should be identical.")
        (only,) = users
        if only["containerId"] != 0:
            raise ValueError("invalid user namespace configuration: UID 0 must be mapped")
        return IdRange(int(only["hostId"]), int(only["length"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"invalid user namespace mappings file: {error}") from None
