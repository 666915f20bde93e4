"""csr_approving: approves the client certificates of kubelets whose authors may have them, asked by SubjectAccessReview.

Two questions, upstream's (``approver/sarapprove.go``): a node that renews its own certificate needs ``selfnodeclient``,
anybody who asks for a node needs ``nodeclient``. Requests for other certificates are left to people. ``csr_signing`` comes next.
"""

from apimachinery.meta import Object, clone, name_of
from apimachinery.resources import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from apimachinery.times import format_time
from component import logs
from controlplane.controllers.controller import Environment, Loop, NotYetError
from controlplane.controllers.lib import certificate_requests as requests
from controlplane.controllers.lib.certificate_requests import KUBELET_CLIENT_SIGNER, Subject, UnacceptableError

_log = logs.get(__name__)
_MESSAGES = {
    "selfnodeclient": "Auto approving self kubelet client certificate after SubjectAccessReview.",
    "nodeclient": "Auto approving kubelet client certificate after SubjectAccessReview.",
}


def recognised(request: Object, subject: Subject) -> list[str]:
    """The permissions each of which would suffice, the narrower one first; none for anything but a kubelet's client."""
    if requests.signer_of(request) != KUBELET_CLIENT_SIGNER:
        return []
    try:
        requests.check_kubelet_client(subject, requests.usages_of(request))
    except UnacceptableError:
        return []
    own = request["spec"].get("username") == subject.common_name
    return ["selfnodeclient", "nodeclient"] if own else ["nodeclient"]


class CSRApprovingController:
    """One loop over undecided requests."""

    name = "certificatesigningrequest-approving-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client, self._clock = env.client, env.clock
        self._requests = env.watch(CERTIFICATE_SIGNING_REQUESTS)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._requests.add_handler(on_add=self._loop.add_object, on_update=lambda old, new: self._loop.add_object(new))

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        """Raises NotYetError when nobody allows it: a binding may come later."""
        request = self._requests.lister.get_key(key)
        if request is None or requests.certificate_of(request) or requests.is_decided(request):
            return None
        try:
            subject = requests.subject_of(request)
        except ValueError as error:
            _log.warning("The certificate request cannot be read", request=key, err=error)
            return None
        tried = recognised(request, subject)
        for permission in tried:
            if await self._allowed(request, permission):
                await self._approve(request, _MESSAGES[permission])
                return None
        if tried:
            words = f"recognized csr {name_of(request)!r} as {tried} but subject access review was not approved"
            raise NotYetError(words)
        return None

    async def _allowed(self, request: Object, permission: str) -> bool:
        asker = {name: request["spec"][name] for name in ("uid", "groups", "extra") if request["spec"].get(name)}
        what = {
            "group": "certificates.k8s.io",
            "version": "*",
            "resource": "certificatesigningrequests",
            "subresource": permission,
            "verb": "create",
        }
        review = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": "SubjectAccessReview",
            "spec": {"user": request["spec"].get("username") or "", **asker, "resourceAttributes": what},
        }
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _approve(self, request: Object, message: str) -> None:
        now = format_time(self._clock.now())
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "AutoApproved",
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        changed = requests.with_condition(clone(request), condition)
        await self._client.update(CERTIFICATE_SIGNING_REQUESTS, changed, subresource="approval")
