"""What a kind tells the generic registry: its names, and what is special about its life.

Each module of ``kinds/`` makes one Strategy; ``registry.store`` drives it; ``kinds.catalog`` lists them all. The order of
calls is upstream's: decode, ``default``, mutating admission, ``prepare_*``, ``validate*``, ``canonicalize``, validating
admission, store. Objects are plain dicts; ``default``, ``prepare_*`` and ``canonicalize`` change ``obj`` in place.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from apimachinery.codecs import negotiate
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind, GroupVersionResource
from apimachinery.schema import StructSchema
from apimachinery.schema.check import Findings
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.registry.disabled_fields import NONE, DisabledFields
from controlplane.apiserver.storage.interface import Condition, Operation

Object = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Context:
    """The request a strategy works for. ``warnings`` collects texts for ``Warning:`` headers."""

    user: UserInfo
    namespace: str
    name: str
    verb: str  # create, update, patch, delete, ...
    now: datetime
    subresource: str = ""
    dry_run: bool = False
    field_manager: str = ""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``: ``priority`` 0 is always shown, 1 only with ``-o wide``. ``type``, ``format`` as in Table."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Keys that must be claimed in the very transaction that stores an object (cluster IPs, node ports)."""

    conditions: Sequence[Condition] = ()
    operations: Sequence[Operation] = ()


@dataclass(frozen=True)
class ResourceInfo:
    """The names of a resource, as discovery lists them."""

    gvk: GroupVersionKind
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    deprecation: str = ""  # a warning that every request to the resource carries
    list_kind: str = ""  # of custom resources, which may call their lists as they like

    @property
    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(self.gvk.group, self.gvk.version, self.plural)

    @property
    def collection_kind(self) -> str:
        return self.list_kind or f"{self.gvk.kind}List"


class Replicas(Protocol):
    """Where an object keeps what its ``/scale`` shows. ``set`` returns a changed copy. Raises StatusError."""

    def spec(self, obj: Object) -> int: ...

    def status(self, obj: Object) -> int: ...

    def selector(self, obj: Object) -> str: ...

    def set(self, obj: Object, replicas: int) -> Object: ...


@dataclass(frozen=True)
class Subresource:
    """A write to part of an object, beyond status and scale: ``/binding``, ``/ephemeralcontainers``, ``/finalize``.

    ``change(ctx, stored, body)`` gets a fresh copy of the stored parent and the decoded body, and returns the parent to
    store; it may raise StatusError. ``validate(ctx, new, old)`` sees the changed parent. With ``kind`` equal to the parent's
    the body is the parent and the answer is the stored parent; otherwise the verb is create and the answer a Success Status.
    """

    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]
    change: Callable[[Context, Object, Object], Object]
    validate: Callable[[Context, Object, Object], list[FieldError]] | None = None


class Strategy:
    """The defaults of every kind. A kind overrides what is special about it; instances hold no per-request state."""

    info: ResourceInfo
    columns: tuple[Column, ...] = (
        Column("Name", format="name", description="Name must be unique within a namespace."),
        Column("Age", description="CreationTimestamp is a timestamp representing the server time when this object was created."),
    )
    has_status = False  # serves /status, and spec writes keep the stored status
    has_scale = False
    has_generation = False  # metadata.generation counts changes of the spec
    allow_create_on_update = False
    allow_unconditional_update = True
    orphan_by_default = False  # a DELETE without propagationPolicy leaves dependents alone (replication controllers, jobs)
    returns_deleted = False  # DELETE answers with the removed object (pods, services...) and not with a Status
    ttl = 0  # seconds; events live an hour
    subresources: tuple[Subresource, ...] = ()
    gates: tuple[str, ...] = ()  # feature gates that the whole kind belongs to
    disabled_fields: DisabledFields = NONE  # fields whose feature is off
    stored_as: ResourceInfo | None = (
        None  # another resource whose stored objects these are (events.k8s.io Events are core Events)
    )
    same_fields = True  # this version has the fields of the stored one, by the same names
    name_is_valid: Callable[[str], list[str]] | None = None  # messages; None is the DNS-1123 subdomain rule
    any_finalizer = False  # finalizers need no domain in their names
    # Custom resources bring what others have from the release's schemas: the schema that server-side apply works with, how an
    # object is brought to its normal form, the patches that may be sent, and the encodings that there are.
    own_schema: Callable[[], StructSchema] | None = None
    normalize: Callable[[Object], Findings] | None = None
    patches: tuple[str, ...] = negotiate.PATCHES
    encodings: tuple[str, ...] = negotiate.BODIES  # of objects, in requests and answers
    convert: Callable[[Object, str], Awaitable[Object]] | None = None  # to another version, which may have to be asked for
    replicas: Replicas | None = None  # where they are, when that is not ``spec.replicas``

    def default(self, obj: Object) -> None:
        """Fill in what upstream's defaulting functions fill in (also of embedded pod templates)."""

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        """Drop what clients may not set. The registry itself handles metadata, and status when ``has_status``."""

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        """Everything wrong with a new object beyond its schema and its metadata, which are checked before."""
        return []

    def prepare_for_update(self, ctx: Context, obj: Object, old: Object) -> None: ...

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        """Everything wrong with this change; ``obj`` has passed no other check of the kind."""
        return []

    def prepare_for_status_update(self, ctx: Context, obj: Object, old: Object) -> None:
        """Called for writes to /status after the registry has put back everything but ``status`` (and metadata it keeps)."""

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return []

    def canonicalize(self, obj: Object) -> None:
        """A last normal form before storage."""

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        return []

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Field selector values beyond ``metadata.name`` and ``metadata.namespace``, which every kind has."""
        return {}

    selectable_names: frozenset[str] = frozenset()  # the keys selectable_fields can give; others are a 400
    # Keys that clients use for such fields where this version has other names for them than the stored form has.
    selectable_aliases: Mapping[str, str] = {}

    def spec_changed(self, obj: Object, old: Object) -> bool:
        """Whether ``metadata.generation`` grows: anything but metadata and status differs."""
        skip = ("metadata", "status", "apiVersion", "kind")
        keys = obj.keys() | old.keys()
        return any(obj.get(key) != old.get(key) for key in keys if key not in skip)

    def begin_delete(self, ctx: Context, obj: Object, options: Object) -> bool:
        """Graceful deletion: True if the object is marked first, False for removal at once when no finalizers are left.

        The registry sets ``metadata.deletionTimestamp`` from ``options["gracePeriodSeconds"]``, which this may change.
        """
        return False

    def finalizers_for_delete(self, obj: Object, options: Object) -> None:
        """Chance to add kind-specific finalizers (namespaces use ``spec.finalizers``)."""

    def may_remove(self, obj: Object) -> bool:
        """Whether an object that is being deleted, with no metadata finalizers and no grace left, may leave the store."""
        return True

    def to_stored(self, obj: Object) -> Object:
        """Convert to the form of ``stored_as``; only called when that is set."""
        return obj

    def from_stored(self, obj: Object) -> Object:
        """The inverse of ``to_stored``."""
        return obj

    async def allocate(self, ctx: Context, obj: Object, old: Object | None) -> Allocation:
        """Claim keys beside the object; may fill fields of ``obj``. Called again after a lost race. ``old`` None on create."""
        return Allocation()

    def release(self, obj: Object) -> Sequence[Operation]:
        """Keys to free in the transaction that removes ``obj``."""
        return ()

    def row(self, obj: Object, now: datetime) -> list[Any]:
        """The cells of one row, one for each column."""
        from controlplane.apiserver.registry.printing import age

        return [obj["metadata"]["name"], age(obj["metadata"].get("creationTimestamp"), now)]

    def row_conditions(self, obj: Object) -> Sequence[Object]:
        """What a Table says about a whole row: ``Completed`` for what has run to its end."""
        return ()
