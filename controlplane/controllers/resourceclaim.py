"""resourceclaim: makes the claims that pods want from templates, and takes claims back from pods that no longer run.

A pod's claims are made once and noted in ``status.resourceClaimStatuses``; they belong to the pod. The scheduler allocates and
reserves. When the last pod of ``reservedFor`` is done, the devices are free again: the allocation goes, and a claim that was made
for that pod goes too. Rules and words are upstream's ``pkg/controller/resourceclaim``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import (
    Object,
    annotation,
    clone,
    has_finalizer,
    is_deleting,
    key_of,
    make_key,
    name_of,
    namespace_of,
    owner_reference,
    remove_finalizer,
    uid_of,
)
from apimachinery.objects import claims, pods
from apimachinery.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from client.rest import PatchKind
from component import logs
from controlplane.controllers.controller import Environment, Loop

_BY_CLAIM, _BY_OWNER, _BY_TEMPLATE = "resource-claim", "pod-of-claim", "template"
_MANAGER = "ResourceClaimController"
_BASE_MAX = 57
"""Characters of a name before the hyphen and the five random ones, so that 63 are not exceeded."""
_POD, _CLAIM = "pod:", "claim:"
_log = logs.get(__name__)


class ResourceClaimController:
    name = "resourceclaim-controller"

    def __init__(self, env: Environment, workers: int = 50) -> None:
        self._client = env.client
        self._recorder = env.recorders("resource_claim")
        self._pods = env.watch(PODS)
        self._claims, self._templates = env.watch(RESOURCE_CLAIMS), env.watch(RESOURCE_CLAIM_TEMPLATES)
        self._pods.add_index(_BY_CLAIM, _claims_of)
        self._pods.add_index(_BY_TEMPLATE, _templates_of)
        self._claims.add_index(_BY_OWNER, _owner_of)
        self._made: dict[tuple[str, str], Object] = {}
        """Claims that were made and may not be in the cache yet, by the pod's uid and the name of its entry."""
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._created = None
        if env.metrics is not None:
            text = "Claims made from templates, by result."
            self._created = env.metrics.counter("resourceclaim_controller_creates_total", text, ["status", "admin_access"])
        self._pods.add_handler(
            on_add=self._pod_changed, on_update=lambda old, new: self._pod_changed(new), on_delete=self._pod_gone
        )
        self._claims.add_handler(
            on_add=self._claim_changed, on_update=lambda old, new: self._claim_changed(new), on_delete=self._claim_gone
        )
        self._templates.add_handler(on_add=self._template_added)

    async def run(self) -> None:
        await self._loop.run()

    # What changed

    def _pod_changed(self, pod: Object) -> None:
        if not claims.entries_of(pod) and not claims.extended_claim_of(pod):
            return
        if is_done(pod):
            self._look_at_claims(pod)
        elif not is_deleting(pod):
            self._loop.add(_POD + key_of(pod))

    def _pod_gone(self, pod: Object) -> None:
        for wanted in [key for key in self._made if key[0] == uid_of(pod)]:
            del self._made[wanted]
        self._look_at_claims(pod)

    def _look_at_claims(self, pod: Object) -> None:
        for wanted in claims.claims_of(pod):
            self._loop.add(_CLAIM + make_key(namespace_of(pod), wanted.claim))

    def _claim_changed(self, claim: Object) -> None:
        self._made.pop(_made_for(claim), None)
        self._loop.add(_CLAIM + key_of(claim))

    def _claim_gone(self, claim: Object) -> None:
        """Whoever waits for it gets it anew, if it was made from a template."""
        self._made.pop(_made_for(claim), None)
        for pod in self._pods.lister.by_index(_BY_CLAIM, key_of(claim)):
            self._pod_changed(pod)

    def _template_added(self, template: Object) -> None:
        for pod in self._pods.lister.by_index(_BY_TEMPLATE, key_of(template)):
            self._pod_changed(pod)

    async def reconcile(self, key: str) -> float | None:
        kind, _, where = key.partition(":")
        await (self._look_at_pod(where) if f"{kind}:" == _POD else self._look_at_claim(where))
        return None

    # Pods: make what they want

    async def _look_at_pod(self, key: str) -> None:
        pod = self._pods.lister.get_key(key)
        if pod is None or is_deleting(pod) or is_done(pod):
            return
        new: dict[str, str] = {}
        for entry in claims.entries_of(pod):
            try:
                made = await self._claim_for(pod, entry)
            except Exception as error:
                text = f"PodResourceClaim {entry.get('name')}: {error}"
                self._recorder.event(pod, "Warning", "FailedResourceClaimCreation", text)
                raise
            if made is not None:
                new[entry["name"]] = made
        if new:
            await self._note(pod, new)
        if pods.node_name(pod):
            await self._reserve(pod)

    async def _claim_for(self, pod: Object, entry: Mapping[str, Any]) -> str | None:
        """Make the claim of an entry if there is none; returns its name if the pod does not know it yet."""
        try:
            wanted = claims.claim_of(pod, entry)
        except claims.ClaimMissingError:
            pass
        else:
            if wanted is None or not wanted.own:
                return None
            held = self._claims.lister.get(wanted.claim, namespace_of(pod))
            if held is not None and not claims.not_of_pod(pod, held):
                return None
        where = (uid_of(pod), str(entry["name"]))
        found = self._orphan(pod, str(entry["name"])) or self._made.get(where)
        if found is None:
            found = self._made[where] = await self._make(pod, entry)
        return name_of(found)

    def _orphan(self, pod: Object, entry: str) -> Object | None:
        """A claim that was made for the entry, while the pod could not be told."""
        for claim in self._claims.lister.by_index(_BY_OWNER, uid_of(pod)):
            if annotation(claim, claims.POD_CLAIM_ANNOTATION) == entry:
                return claim
        return None

    async def _make(self, pod: Object, entry: Mapping[str, Any]) -> Object:
        name = entry["resourceClaimTemplateName"]
        template = self._templates.lister.get(name, namespace_of(pod))
        if template is None:
            raise LookupError(f'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found')
        made = claim_from(pod, str(entry["name"]), template)
        admin = str(claims.needs_admin(made["spec"])).lower()
        try:
            created = await self._client.create(RESOURCE_CLAIMS, made)
        except StatusError:
            self._count("failure", admin)
            raise
        self._count("success", admin)
        _log.v(2, "Made a claim", pod=key_of(pod), claim=name_of(created))
        return created

    def _count(self, status: str, admin: str) -> None:
        if self._created is not None:
            self._created.labels(status, admin).inc()

    async def _note(self, pod: Object, new: Mapping[str, str]) -> None:
        """Tell the pod, and with it the scheduler, the names."""
        listed = [{"name": entry, "resourceClaimName": claim} for entry, claim in new.items()]
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"resourceClaimStatuses": listed}}
        await self._client.patch(
            PODS,
            name_of(pod),
            body,
            PatchKind.STRATEGIC,
            namespace_of(pod),
            subresource="status",
            field_manager=_MANAGER,
        )

    async def _reserve(self, pod: Object) -> None:
        """A pod that came to its node without the scheduler may use what is allocated already."""
        for wanted in claims.claims_of(pod):
            claim = self._claims.lister.get(wanted.claim, namespace_of(pod))
            if claim is None or (wanted.own and claims.not_of_pod(pod, claim)):
                continue
            allocated = claims.allocation_of(claim) is not None
            if allocated and not claims.is_reserved_for(pod, claim) and claims.can_be_reserved(claim):
                changed = clone(claim)
                changed["status"]["reservedFor"] = [*claims.consumers_of(claim), claims.consumer(pod)]
                await self._client.update_status(RESOURCE_CLAIMS, changed)

    # Claims: take back what is not used any more

    async def _look_at_claim(self, key: str) -> None:
        claim = self._claims.lister.get_key(key)
        if claim is None:
            return
        valid = [each for each in claims.consumers_of(claim) if await self._is_valid(claim, each)]
        held = has_finalizer(claim, claims.FINALIZER)
        if len(valid) < len(claims.consumers_of(claim)):
            changed = clone(claim)
            changed["status"]["reservedFor"] = valid
            if not valid and held:
                _free(changed)
            await self._let_go(await self._client.update_status(RESOURCE_CLAIMS, changed))
        elif held and is_deleting(claim) and not valid:
            changed = clone(claim)
            if claims.allocation_of(claim) is not None:
                _free(changed)
                changed = await self._client.update_status(RESOURCE_CLAIMS, changed)
            await self._let_go(changed)
        if not valid:
            await self._delete_unused(claim)

    async def _let_go(self, claim: Object) -> None:
        if claims.allocation_of(claim) is None and remove_finalizer(claim, claims.FINALIZER):
            await self._client.update(RESOURCE_CLAIMS, claim)

    async def _is_valid(self, claim: Object, consumer: Mapping[str, Any]) -> bool:
        """Whether a consumer may still run. Of one that the cache does not know the server is asked: it may be new."""
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            raise ValueError(f"unsupported ReservedFor entry: {dict(consumer)}")
        name, namespace = consumer.get("name", ""), namespace_of(claim)
        pod = self._pods.lister.get(name, namespace)
        if pod is None:
            try:
                pod = await self._client.get(PODS, name, namespace)
            except StatusError as error:
                if error.code == 404:
                    return False
                raise
        return uid_of(pod) == consumer.get("uid") and not is_done(pod)

    async def _delete_unused(self, claim: Object) -> None:
        """A claim made for a pod that will not need it; the garbage collector has those whose pods are gone."""
        name, uid = claims.owning_pod(claim)
        if not name or is_deleting(claim):
            return
        pod = self._pods.lister.get(name, namespace_of(claim))
        if pod is None or (uid_of(pod) == uid and not is_done(pod)):
            return
        try:
            await self._client.delete(RESOURCE_CLAIMS, name_of(claim), namespace_of(claim), preconditions={"uid": uid_of(claim)})
        except StatusError as error:
            if error.code != 404:
                raise


def is_done(pod: Object) -> bool:
    """Whether none of its containers runs, or ever will."""
    return pods.is_terminal(pod) or (is_deleting(pod) and not pods.node_name(pod))


def claim_from(pod: Object, entry: str, template: Object) -> Object:
    """The claim that a template describes, for one entry of a pod. Pure."""
    described = clone(template["spec"])
    metadata = described.get("metadata") or {}
    made = {
        "generateName": base_name(name_of(pod), entry),
        "namespace": namespace_of(pod),
        "ownerReferences": [owner_reference(pod, "v1", "Pod")],
        "annotations": {**(metadata.get("annotations") or {}), claims.POD_CLAIM_ANNOTATION: entry},
    }
    if metadata.get("labels"):
        made["labels"] = metadata["labels"]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": made, "spec": described["spec"]}


def base_name(pod: str, entry: str) -> str:
    """What a made claim's name begins with; of names that are too long both parts are cut, in proportion."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _BASE_MAX:
        return whole
    return f"{pod[: len(pod) * _BASE_MAX // len(whole)]}-{entry[: len(entry) * _BASE_MAX // len(whole)]}"


def _free(claim: Object) -> None:
    """Nothing is allocated any more, so that there is nothing to tell about devices either."""
    for field in ("allocation", "devices"):
        claim["status"].pop(field, None)


def _made_for(claim: Object) -> tuple[str, str]:
    """The pod's uid, and the name of its entry."""
    return claims.owning_pod(claim)[1], annotation(claim, claims.POD_CLAIM_ANNOTATION) or ""


def _claims_of(pod: Object) -> Iterable[str]:
    return [make_key(namespace_of(pod), wanted.claim) for wanted in claims.claims_of(pod)]


def _templates_of(pod: Object) -> Iterable[str]:
    named = (entry.get("resourceClaimTemplateName") for entry in claims.entries_of(pod))
    return [make_key(namespace_of(pod), name) for name in named if name]


def _owner_of(claim: Object) -> Iterable[str]:
    _, uid = claims.owning_pod(claim)
    return [uid] if uid else []
