"""What an endpoint knows about the resource it serves; one Scope per resource, made by ``__main__`` and found by ``routing``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from apimachinery.gvk import GroupVersion, GroupVersionKind
from apimachinery.meta import name_of
from apimachinery.patch.versions import OtherVersion, OtherVersions
from apimachinery.schema import Schemas, StructSchema, check
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.apiserver.admission.chain import AdmissionChain
from controlplane.apiserver.admission.interface import CREATE, DELETE, UPDATE, Attributes, Form
from controlplane.apiserver.audit.policy import Level
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.endpoints.forms import conversion, forms_of
from controlplane.apiserver.endpoints.options import WriteOptions
from controlplane.apiserver.filters.authorize import authorize
from controlplane.apiserver.filters.long_running import is_long_running
from controlplane.apiserver.registry.store import Admit, Store
from controlplane.apiserver.registry.strategy import Context, ResourceInfo, Strategy
from controlplane.apiserver.wire.call import Call

Object = dict[str, Any]


@dataclass(frozen=True)
class Scope:
    store: Store
    schemas: Schemas
    admission: AdmissionChain
    authorizer: Authorizer
    siblings: tuple[Strategy, ...] = ()  # the other versions of the kind
    features: Gates = DEFAULTS
    _forms: dict[tuple[str, GroupVersionKind], Sequence[Form]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def strategy(self) -> Strategy:
        return self.store.strategy

    @property
    def info(self) -> ResourceInfo:
        return self.store.info

    @cached_property
    def schema(self) -> StructSchema:
        """Compiled when the first write or patch of the kind needs it."""
        own = self.strategy.own_schema
        return own() if own is not None else self.schemas.of(self.info.gvk)

    def normalize(self, obj: Object) -> check.Findings:
        """See ``schema.check.normalize``."""
        own = self.strategy.normalize
        return own(obj) if own is not None else check.normalize(obj, self.schema)

    @cached_property
    def other_versions(self) -> OtherVersions:
        """Those that do not have the same fields, for managers who wrote them; none that have to be asked for."""
        mine = self.strategy
        return {
            other.info.gvk.api_version: OtherVersion(
                self.schemas.of(other.info.gvk), conversion(mine, other), conversion(other, mine)
            )
            for other in self.siblings
            if not (mine.same_fields and other.same_fields) and mine.convert is None
        }

    def context(self, call: Call, options: WriteOptions, name: str = "") -> Context:
        info = call.info
        return Context(
            call.user,
            info.namespace if self.info.namespaced else "",
            name or info.name,
            info.verb,
            call.now,
            info.subresource,
            options.dry_run,
            options.field_manager,
            call.warnings,
        )

    def attributes(
        self,
        call: Call,
        operation: str,
        obj: Object | None,
        old: Object | None,
        dry_run: bool = False,
        kind: GroupVersionKind | None = None,
    ) -> Attributes:
        """The write as admission sees it; ``kind`` is that of ``obj`` where it is not the resource's own."""
        info, own = call.info, self.info.gvk
        return Attributes(
            operation,
            kind or own,
            self.info.plural,
            info.subresource,
            info.namespace if self.info.namespaced else "",
            info.name,
            obj,
            old,
            call.user,
            dry_run,
            call.query,
            warnings=call.warnings,
            annotations=call.annotations,
            deadline=math.inf if is_long_running(call) else call.started + call.seconds,
            audits_bodies=call.record is not None and call.record.verdict.level >= Level.REQUEST,
            api=None if kind is None else GroupVersion(*own[:2]),
            forms=partial(self.forms, info.subresource, kind or own),
        )

    def forms(self, subresource: str, kind: GroupVersionKind) -> Sequence[Form]:
        """The versions in which ``kind`` is taken by this door of the resource: the own one, then its siblings'."""
        known = self._forms.get((subresource, kind))
        if known is None:
            known = self._forms[subresource, kind] = forms_of(self.strategy, self.siblings, subresource, kind, self.schemas)
        return known

    def validating(self, call: Call, operation: str, dry_run: bool = False) -> Admit:
        """Validating admission as the function that the registry calls at the right moment."""

        async def admit(obj: Object, old: Object | None) -> None:
            if operation == UPDATE and old is None:  # an update or apply of what does not exist makes it
                await self._may_create(call)
                await self.admission.validate(self.attributes(call, CREATE, obj, None, dry_run))
            else:
                attributes = self.attributes(call, operation, obj, old, dry_run)
                attributes.name = attributes.name or name_of(obj)  # by now it has one if the client left that to the server
                await self.admission.validate(attributes)

        return admit

    def deleting(self, call: Call, name: str, namespace: str, options: Object) -> Admit:
        """All of admission for a deletion: mutating plugins have nothing to change, but see what goes and may refuse."""

        async def admit(obj: Object, old: Object | None) -> None:
            attributes = self.attributes(call, DELETE, None, obj, bool(options.get("dryRun")))
            attributes.name, attributes.namespace, attributes.delete_options = name, namespace, options
            await self.admission.mutate(attributes)
            await self.admission.validate(attributes)

        return admit

    async def _may_create(self, call: Call) -> None:
        """Who may change an object may not therefore make one. Raises 403."""
        pending = authorize(self.authorizer, "create")(call)
        if pending is not None:
            await pending
