"""The two contracts of storage. ``Backend`` speaks bytes and revisions; ``ObjectStore`` speaks encoded objects.

``registry`` calls an ObjectStore (in production the cacher, which wraps the plain store of ``objects.py``, which wraps a
Backend). Contract suites: ``tests/contract/test_backend.py`` and ``tests/contract/test_object_store.py``. Wiring::

    backend = await SQLiteBackend.open(path)  # backends/sqlite.py; or MemoryBackend(), backends/memory.py
    feed = Feed(backend)  # cacher/feed.py: the one watch that all caches share; tasks.create_task(feed.run())
    pods = Cacher(feed, Collection("/registry/pods/", "v1", "Pod", extract, indexes=("spec.nodeName",)))
    await pods.start()  # loads; from then on ``pods`` is an ObjectStore for keys under its prefix
    ...
    await backend.close()

A *revision* is a positive integer that grows by one with every committed transaction; it is what clients see as
``resourceVersion``. Keys are ``/registry/<resource>/[<namespace>/]<name>`` as ``layout`` has them.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from component.errors import OperatorError

# --------------------------------------------------------------------------- bytes and revisions


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One stored value. ``create_revision`` and ``mod_revision`` as in etcd."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    ttl: int = 0  # seconds until the key expires; 0 is for ever


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


Operation = Put | Delete


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds when the key's ``mod_revision`` equals ``revision``; 0 means that the key does not exist."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The outcome of a transaction: ``revision`` if it went in, else the ``current`` values of the condition keys."""

    succeeded: bool
    revision: int
    current: tuple[KeyValue | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    items: list[KeyValue]
    revision: int  # the revision at which the range was read
    more: bool = False
    remaining: int = 0  # keys after the last one returned, when the backend can tell cheaply


@dataclass(frozen=True, slots=True)
class BackendEvent:
    """A change to one key. ``value`` is None for a deletion; ``previous_revision`` is 0 for a creation.

    A watch of everything (prefix "") over several processes need not know the ``create_revision`` of a deletion.
    """

    key: str
    value: bytes | None
    revision: int
    create_revision: int = 0
    previous_revision: int = 0  # ``get(key, previous_revision)`` is what the key held before


class CompactedError(Exception):
    """The asked revision is older than what the backend still holds."""

    def __init__(self, asked: int, compacted: int) -> None:
        super().__init__(f"revision {asked} has been compacted; the oldest held is {compacted}")
        self.asked, self.compacted = asked, compacted


class FutureRevisionError(Exception):
    """The asked revision has not been reached yet."""


class StorageUnavailableError(OperatorError):
    """The store cannot answer now (no leader, disk full). The message says why and what to do.

    ``retry_after``: seconds until asking again makes sense.
    """

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeUnknownError(StorageUnavailableError):
    """A write got no answer in time: it may have happened, or may still happen."""


class TooLargeError(Exception):
    """A value or transaction is larger than the store takes."""


class UnreadableError(StorageUnavailableError):
    """A value is there, but encrypted with a key that this server does not have."""


UNREADABLE = b"k8s:enc:"
"""How every encrypted value begins, as upstream's; JSON begins with a brace."""


def is_unreadable(event: BackendEvent) -> bool:
    """Whether the value of an event could not be decrypted: a watch hands such values on as they are, a read raises."""
    return event.value is not None and event.value.startswith(UNREADABLE)


class Backend(Protocol):
    """Ordered keys, multi-version values, atomic transactions, one ordered stream of changes.

    A key may appear in one operation of a transaction only (ValueError). Deleting a missing key changes nothing.
    """

    exclusive: bool
    """No other process can write, so what this process has been told of is all there is."""

    async def current_revision(self) -> int: ...

    async def get(self, key: str, revision: int = 0) -> KeyValue | None:
        """The value at ``revision`` (0: now). Raises CompactedError, FutureRevisionError."""
        ...

    async def range(self, prefix: str, *, start: str = "", revision: int = 0, limit: int = 0) -> Range:
        """Keys with ``prefix``, from ``start`` inclusive, in byte order, as of ``revision``. Raises as ``get``."""
        ...

    async def commit(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> Commit:
        """All operations at one new revision if every condition holds, else none.

        When this returns, the change is durable; an exclusive backend has it queued for every watch, others soon will.
        Raises StorageUnavailableError, and of its kind OutcomeUnknownError; TooLargeError.
        """
        ...

    def watch(self, prefix: str, after: int) -> AsyncIterator[Sequence[BackendEvent]]:
        """Every change after revision ``after`` in order, none twice, in batches that never split a revision.

        Raises CompactedError from the iterator when ``after`` is older than the last compaction. Ends when closed.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forget what is older than ``revision``; reads and watches from before it then raise CompactedError."""
        ...

    def size(self) -> int | None:
        """Bytes on disk; None when that has no meaning here."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Rewriting(Protocol):
    """A Backend that stores values in a form which may change: encrypted with a new key, protobuf instead of JSON."""

    async def outdated(self, key: str) -> bool:
        """Whether the value should be written again although it is the same, because its form is not the present one."""
        ...


# --------------------------------------------------------------------------- encoded objects


class Entry(Protocol):
    """One object at one revision, as bytes that are shared by every reader.

    ``body`` is complete JSON, ``apiVersion`` and ``kind`` first, then ``metadata`` whose first member is
    ``resourceVersion``. ``item`` is the same without ``apiVersion`` and ``kind``, as lists carry it.
    """

    key: str
    revision: int

    @property
    def body(self) -> bytes: ...

    @property
    def item(self) -> bytes: ...

    def decode(self) -> dict[str, Any]:
        """A fresh dict that the caller may change; its ``metadata.resourceVersion`` is set."""
        ...


@dataclass(frozen=True, slots=True)
class Traits:
    """What selectors look at, extracted once per event by the function that the registry supplies."""

    labels: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)


ExtractTraits = Callable[[dict[str, Any]], Traits]
Matches = Callable[[Traits], bool]
"""A compiled label and field selector; ``None`` stands for everything."""


@dataclass(frozen=True, slots=True)
class Collection:
    """One resource as storage sees it. ``prefix`` comes from ``layout``: ``/registry/<resource>/``.

    ``api_version`` and ``kind`` are those of stored objects (bookmarks carry them). ``indexes`` names fields of Traits
    that clients ask for by equality; ``metadata.name`` and ``metadata.namespace`` need none, keys hold them.
    ``restore`` brings a stored object to what it is taken for today, in place (custom resources: defaults that came later),
    and says whether it had to.
    """

    prefix: str
    api_version: str
    kind: str
    extract: ExtractTraits
    namespaced: bool = True
    indexes: tuple[str, ...] = ()
    restore: Callable[[dict[str, Any]], bool] | None = None


@dataclass(frozen=True, slots=True)
class ListOptions:
    """How to read a collection, already parsed. ``resource_version`` of "" asks for the most recent data, "0" for any."""

    resource_version: str = ""
    resource_version_match: str = ""  # "", "Exact" or "NotOlderThan"
    limit: int = 0
    continue_token: str = ""
    matches: Matches | None = None
    field_equals: tuple[tuple[str, str], ...] = ()  # exact field requirements, for indexes; matches still decides
    selector: str = ""  # a text that is equal only for equal ``matches``, so that equal lists are found again; "" for none
    in_parts: bool = False  # the caller goes through ``ListResult.parts``, so not all need be read before the answer


class Memo(Protocol):
    """What readers made of the entries of a list, for the next reader of the same entries. It may forget at any time."""

    def get(self, name: str) -> Any: ...

    def keep(self, name: str, value: Any, size: int) -> None:
        """``size`` is in bytes; what would be too much is not kept."""
        ...


@dataclass(frozen=True, slots=True)
class ListResult:
    """``rest`` are entries after ``entries`` that are still to be read; it is None unless the caller asked for parts."""

    entries: Sequence[Entry]
    revision: int
    continue_token: str = ""
    remaining: int | None = None
    memo: Memo | None = None
    rest: AsyncIterator[Sequence[Entry]] | None = None
    made: bool = False  # an entry is made whenever it is looked at, so a long list is to be gone through once

    async def parts(self, size: int) -> AsyncIterator[Sequence[Entry]]:
        """All entries, at most ``size`` at a time. Once. Raises what backends raise."""
        for start in range(0, len(self.entries), size):
            yield self.entries[start : start + size]
        if self.rest is not None:
            async for more in self.rest:
                for start in range(0, len(more), size):
                    yield more[start : start + size]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    resource_version: str = ""  # "" and "0": start with synthetic ADDED events
    matches: Matches | None = None
    bookmarks: bool = False
    send_initial_events: bool | None = None  # None: the client did not say, so resource_version decides
    field_equals: tuple[tuple[str, str], ...] = ()  # as in ListOptions: narrows who is asked about an event
    timeout: float = 0  # when the caller will close the watch, in seconds; a bookmark comes shortly before. 0: unknown


class Watch(Protocol):
    """A stream of ready wire frames. ``close`` is idempotent and ends the iteration.

    It also ends after an ERROR frame, and when its reader is too slow; clients then list and watch again.
    """

    def __aiter__(self) -> AsyncIterator["WatchFrame"]: ...

    async def batch(self) -> Sequence["WatchFrame"]:
        """All frames that are ready, waiting for the first; empty at the end. Cheaper than one at a time."""
        ...

    def when_caught_up(self, act: Callable[[], None]) -> None:
        """Call ``act`` once, when the reader has been given everything from before the watch began; maybe at once."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class PushedWatch(Watch, Protocol):
    """A watch that can also say when it has frames, so that nobody has to wait for them."""

    def push_to(self, ready: Callable[[], None] | None) -> bool:
        """Have ``ready`` called whenever the first frame after none is there, and at the end; ``batch`` must not wait then.

        None ends that. False, and nothing is changed, while frames are there: read them first.
        """
        ...

    def take(self) -> Sequence["WatchFrame"]:
        """What ``batch`` would give now; empty when it would wait or has ended."""
        ...


class WatchFrame(Protocol):
    """One event for one watcher. ``line`` is ``{"type":...,"object":...}\\n``; ``chunk`` is the line as a chunk of HTTP/1.1."""

    type: str  # ADDED MODIFIED DELETED BOOKMARK ERROR
    revision: int

    @property
    def line(self) -> bytes: ...

    @property
    def chunk(self) -> bytes: ...

    def form(self, name: str, make: Callable[["WatchFrame"], bytes]) -> bytes:
        """The event in another encoding: made once, shared by all who ask for it by this name."""
        ...

    @property
    def entry(self) -> Entry: ...


class ObjectStore(Protocol):
    """Objects of one API server. ``prefix`` names a resource (and maybe a namespace) and ends in a slash.

    Raises ``apimachinery.errors.StatusError`` only for what clients must see as such (expired continue tokens and
    resource versions, bad ones, unavailable storage); a missing or existing key is ``KeyError`` / ``KeyExistsError``,
    which the registry words for its resource.
    """

    async def create(
        self, key: str, obj: dict[str, Any], *, ttl: int = 0, conditions: Sequence[Condition] = (), also: Sequence[Operation] = ()
    ) -> Entry:
        """Store a new object, with ``also`` in the same transaction. Raises KeyExistsError, ConditionFailedError."""
        ...

    async def get(self, key: str, resource_version: str = "") -> Entry:
        """Raises KeyError when there is none."""
        ...

    async def list(self, prefix: str, options: ListOptions) -> ListResult: ...

    async def update(
        self,
        key: str,
        change: Callable[[dict[str, Any]], "dict[str, Any] | None"],
        *,
        ttl: int = 0,
        plan: Callable[[dict[str, Any], dict[str, Any]], tuple[Sequence[Condition], Sequence[Operation]]] | None = None,
    ) -> Entry:
        """Guaranteed update: ``change`` gets a fresh copy of the stored object and returns the new one.

        It runs again when another writer was faster; it may raise to give up, and returns None for "leave as it is".
        An unchanged encoding is not written. ``plan(old, new)`` adds to the transaction. Raises KeyError.
        """
        ...

    async def delete(
        self, key: str, check: Callable[[dict[str, Any]], None] | None = None, *, also: Sequence[Operation] = ()
    ) -> Entry:
        """Remove the object; ``check`` sees it first and may raise. Returns its last state. Raises KeyError."""
        ...

    async def watch(self, prefix: str, options: WatchOptions) -> Watch: ...


class KeyExistsError(Exception):
    """Create met an existing key."""


class ConditionFailedError(Exception):
    """A condition beside the object's own did not hold: an allocation was taken. ``key`` says which."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key
