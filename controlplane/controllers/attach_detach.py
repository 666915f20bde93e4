"""attach_detach: a VolumeAttachment for every CSI volume on every node whose pods use it, for drivers that attach.

One key per node: what its pods need, what is attached, what the kubelet still has mounted. An external attacher acts on the
VolumeAttachments; ``volumesAttached`` of the node tells the kubelet. A volume is detached only when the kubelet says that it
is no longer in use, or when the node has been unreachable for six minutes, or is tainted as out of service.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from apimachinery import errors, times
from apimachinery.meta import Object, get_condition, is_deleting, key_of, name_of, namespace_of, uid_of
from apimachinery.objects import attachments, nodes, pods, volumes
from apimachinery.resources import CSI_DRIVERS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, VOLUME_ATTACHMENTS
from client.rest import STRATEGIC
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.pod_claims import BY_CLAIM, claims_of, index_by_claim

_BY_NODE, _BY_VOLUME = "attached-node", "attached-volume"
_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_CONFLICT_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """``attach`` maps volumes to the pods that wait; ``report`` is ``volumesAttached``; ``refused`` are held elsewhere."""

    attach: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    detach: Sequence[Object] = ()
    report: Sequence[Mapping[str, str]] = ()
    refused: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    again: float | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """``wanted``: PersistentVolume and its pods on the node, by the volume's name; ``held``: the node's VolumeAttachments and
    what the node calls their volumes, by the same; ``elsewhere``: volumes that are attached to other nodes;
    ``unreachable_for``: seconds since the node was last Ready, None while it is."""

    wanted: Mapping[str, tuple[Object, Sequence[Object]]]
    held: Mapping[str, tuple[Object, str]]
    in_use: frozenset[str]
    elsewhere: frozenset[str] = frozenset()
    unreachable_for: float | None = None
    out_of_service: bool = False
    force_after: float = 360.0


def plan(now: Situation) -> Plan:
    """What to do for one node. Pure."""
    attach: dict[str, Sequence[Object]] = {}
    refused: dict[str, Sequence[Object]] = {}
    for name, (volume, users) in now.wanted.items():
        if name in now.held:
            continue
        if name in now.elsewhere and not volumes.access_modes(volume) & _SHARED:
            refused[name] = users
        else:
            attach[name] = users
    detach, report = [], []
    again: float | None = _CONFLICT_PAUSE if refused else None
    for name, (attachment, called) in now.held.items():
        mounted = called in now.in_use
        keep = name in now.wanted
        if not keep and mounted:
            left = 0.0 if now.out_of_service else None
            if left is None and now.unreachable_for is not None:
                left = now.force_after - now.unreachable_for
            keep = left is None or left > 0
            if left is not None and left > 0:
                again = min(left, again) if again is not None else left
        if keep:
            if attachments.is_attached(attachment):
                report.append({"name": called, "devicePath": ""})
        elif not is_deleting(attachment):
            detach.append(attachment)
    return Plan(attach, detach, sorted(report, key=lambda each: each["name"]), refused, again)


class AttachDetachController:
    name = "persistentvolume-attach-detach-controller"

    def __init__(self, env: Environment, workers: int = 4, force_after: float = 360.0) -> None:
        self._client, self._clock, self._force_after = env.client, env.clock, force_after
        self._recorder = env.recorders("attachdetach-controller")
        self._pods, self._nodes, self._drivers = env.watch(PODS), env.watch(NODES), env.watch(CSI_DRIVERS)
        self._claims, self._volumes = env.watch(PERSISTENT_VOLUME_CLAIMS), env.watch(PERSISTENT_VOLUMES)
        self._attachments = env.watch(VOLUME_ATTACHMENTS)
        self._pods.add_index(BY_CLAIM, index_by_claim)
        self._pods.add_index(_BY_NODE, _node_of_user)
        self._attachments.add_index(_BY_NODE, _attached_node)
        self._attachments.add_index(_BY_VOLUME, _attached_volume)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._pods.add_handler(on_add=self._pod_seen, on_update=lambda old, new: self._pod_seen(new), on_delete=self._pod_seen)
        self._claims.add_handler(on_add=self._claim_seen, on_update=lambda old, new: self._claim_seen(new))
        self._volumes.add_handler(on_add=self._volume_seen)
        self._attachments.add_handler(
            on_add=self._attachment_seen, on_update=self._attachment_changed, on_delete=self._attachment_gone
        )
        self._nodes.add_handler(on_update=self._node_changed, on_delete=lambda node: self._loop.add(name_of(node)))

    async def run(self) -> None:
        await self._loop.run()

    # What makes work

    def _pod_seen(self, pod: Object) -> None:
        if pods.node_name(pod) and next(claims_of(pod), None) is not None:
            self._loop.add(pods.node_name(pod))

    def _claim_seen(self, claim: Object) -> None:
        if volumes.is_bound(claim):
            self._look_at_users(key_of(claim))

    def _volume_seen(self, volume: Object) -> None:
        if key := volumes.claim_key(volume):
            self._look_at_users(key)

    def _look_at_users(self, claim: str) -> None:
        for pod in self._pods.lister.by_index(BY_CLAIM, claim):
            self._pod_seen(pod)

    def _attachment_seen(self, attachment: Object) -> None:
        self._loop.add(str(attachment["spec"].get("nodeName")))

    def _attachment_changed(self, old: Object, new: Object) -> None:
        self._attachment_seen(new)
        if attachments.is_attached(new) and not attachments.is_attached(old):
            self._tell(new, "Normal", "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "{}" ')
        problem = _problem(new)
        if problem and problem != _problem(old):
            self._tell(new, "Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{{}}" : {problem}')

    def _tell(self, attachment: Object, kind: str, reason: str, text: str) -> None:
        volume = str(attachment["spec"]["source"].get("persistentVolumeName"))
        wanted = self._wanted(str(attachment["spec"].get("nodeName"))).get(volume)
        for pod in wanted[1] if wanted is not None else ():
            self._recorder.event(pod, kind, reason, text.replace("{}", volume))

    def _attachment_gone(self, attachment: Object) -> None:
        """Other nodes may wait for it."""
        self._attachment_seen(attachment)
        volume = self._volumes.lister.get(str(attachment["spec"]["source"].get("persistentVolumeName")))
        if volume is not None:
            self._volume_seen(volume)

    def _node_changed(self, old: Object, new: Object) -> None:
        if _in_use(old) != _in_use(new) or nodes.is_ready(old) != nodes.is_ready(new) or nodes.taints(old) != nodes.taints(new):
            self._loop.add(name_of(new))

    # One node

    def _wanted(self, node: str) -> dict[str, tuple[Object, list[Object]]]:
        found: dict[str, tuple[Object, list[Object]]] = {}
        for pod in self._pods.lister.by_index(_BY_NODE, node):
            for key in claims_of(pod):
                claim = self._claims.lister.get_key(key)
                volume = (
                    self._volumes.lister.get(volumes.volume_of(claim)) if claim is not None and volumes.is_bound(claim) else None
                )
                kind, source = volumes.source_of(volume) if volume is not None else ("", {})
                if volume is None or kind != "csi" or not attachments.needs_attaching(self._drivers.lister.get(source["driver"])):
                    continue
                found.setdefault(name_of(volume), (volume, []))[1].append(pod)
        return found

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.lister.get(key)
        held = dict(filter(None, map(self._held, self._attachments.lister.by_index(_BY_NODE, key))))
        wanted = self._wanted(key) if node is not None else {}
        elsewhere = [name for name in wanted if self._attached_elsewhere(name, key)]
        found = plan(
            Situation(
                wanted,
                held,
                _in_use(node),
                frozenset(elsewhere),
                self._unreachable_for(node),
                node is None or any(taint.get("key") == _OUT_OF_SERVICE for taint in nodes.taints(node)),
                self._force_after,
            )
        )
        for name in found.attach:
            await self._attach(wanted[name][0], key)
        for name, users in found.refused.items():
            self._refuse(name, users, key)
        if node is not None and list((node.get("status") or {}).get("volumesAttached") or ()) != list(found.report):
            body = {"status": {"volumesAttached": list(found.report) or None}}
            await self._client.patch(NODES, key, body, STRATEGIC, subresource="status")
        for attachment in found.detach:  # after the kubelet was told
            await self._client.delete(VOLUME_ATTACHMENTS, name_of(attachment), preconditions={"uid": uid_of(attachment)})
        return found.again

    def _attached_elsewhere(self, volume: str, node: str) -> bool:
        return any(each["spec"].get("nodeName") != node for each in self._attachments.lister.by_index(_BY_VOLUME, volume))

    async def _attach(self, volume: Object, node: str) -> None:
        _, source = volumes.source_of(volume)
        made = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": attachments.attachment_name(source["volumeHandle"], source["driver"], node)},
            "spec": {"attacher": source["driver"], "nodeName": node, "source": {"persistentVolumeName": name_of(volume)}},
        }
        try:
            await self._client.create(VOLUME_ATTACHMENTS, made)
        except errors.StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    def _held(self, attachment: Object) -> tuple[str, tuple[Object, str]] | None:
        """Its volume, and what the node calls that. None for what somebody made by a name that is not ours."""
        spec = attachment["spec"]
        name, driver = str(spec["source"].get("persistentVolumeName")), str(spec.get("attacher"))
        volume = self._volumes.lister.get(name)
        if volume is None:
            return (name, (attachment, "")) if name_of(attachment).startswith("csi-") else None
        handle = str(volumes.source_of(volume)[1].get("volumeHandle") or "")
        if name_of(attachment) != attachments.attachment_name(handle, driver, str(spec.get("nodeName"))):
            return None
        return name, (attachment, attachments.unique_name(driver, handle))

    def _refuse(self, volume: str, users: Sequence[Object], node: str) -> None:
        claim = volumes.claim_key(self._volumes.lister.get(volume) or {})
        others = [pod for pod in self._pods.lister.by_index(BY_CLAIM, claim) if pods.node_name(pod) not in ("", node)]
        for pod in users:
            same = [name_of(each) for each in others if namespace_of(each) == namespace_of(pod)]
            text = f'Multi-Attach error for volume "{volume}" '
            if same:
                text += f"Volume is already used by pod(s) {', '.join(same)}"
            else:
                text += "Volume is already exclusively attached to one node and can't be attached to another"
            self._recorder.event(pod, "Warning", "FailedAttachVolume", text)

    def _unreachable_for(self, node: Object | None) -> float | None:
        if node is None or nodes.is_ready(node):
            return None
        since = (get_condition(node, "Ready") or {}).get("lastTransitionTime")
        return (self._clock.now() - times.parse_time(since)).total_seconds() if since else 0.0


def _in_use(node: Object | None) -> frozenset[str]:
    return frozenset(((node or {}).get("status") or {}).get("volumesInUse") or ())


def _problem(attachment: Object) -> str:
    return str(((attachment.get("status") or {}).get("attachError") or {}).get("message") or "")


def _node_of_user(pod: Object) -> Iterable[str]:
    if pods.node_name(pod) and not pods.is_terminal(pod) and next(claims_of(pod), None) is not None:
        yield pods.node_name(pod)


def _attached_node(attachment: Object) -> Iterable[str]:
    yield str(attachment["spec"].get("nodeName") or "")


def _attached_volume(attachment: Object) -> Iterable[str]:
    yield str(attachment["spec"]["source"].get("persistentVolumeName") or "")
