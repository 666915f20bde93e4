"""csr_signing: the cluster's four signers. An approved request gets its certificate, or a condition that says why it never will.

Who may have a certificate was decided by approval; here only its form counts (``lib.certificate_requests.check``), as upstream's
``signer/signer.go`` has it.
"""

import asyncio
import base64
from collections.abc import Mapping
from datetime import timedelta

from apimachinery.meta import Object, clone, name_of
from apimachinery.resources import CERTIFICATE_SIGNING_REQUESTS
from apimachinery.times import format_time
from component import logs
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib import certificate_requests as requests
from controlplane.controllers.lib.certificate_authority import CertificateAuthority, granted
from controlplane.controllers.lib.certificate_requests import UnacceptableError

_log = logs.get(__name__)
SIGNERS = {
    requests.KUBELET_SERVING_SIGNER: "kubelet-serving",
    requests.KUBELET_CLIENT_SIGNER: "kubelet-client",
    requests.CLIENT_SIGNER: "kube-apiserver-client",
    requests.LEGACY_SIGNER: "legacy-unknown",
}
"""Signer name to the word that upstream's ``--cluster-signing-*-cert-file`` flags have for it."""


class CSRSigningController:
    """One loop over approved requests; ``authorities`` holds those signers that have a key here."""

    name = "certificatesigningrequest-signing-controller"

    def __init__(
        self, env: Environment, authorities: Mapping[str, CertificateAuthority], lifetime: timedelta, workers: int = 5
    ) -> None:
        self._client, self._clock = env.client, env.clock
        self._authorities, self._lifetime = authorities, lifetime
        self._requests = env.watch(CERTIFICATE_SIGNING_REQUESTS)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._requests.add_handler(on_add=self._loop.add_object, on_update=lambda old, new: self._loop.add_object(new))

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        request = self._requests.lister.get_key(key)
        if request is None:
            return None
        signer = requests.signer_of(request)
        authority = self._authorities.get(signer)
        if authority is None or not requests.is_to_be_signed(request, signer):
            return None
        try:
            subject = requests.subject_of(request)
        except ValueError as error:
            _log.warning("The certificate request cannot be read", request=key, err=error)
            return None
        usages = requests.usages_of(request)
        try:
            requests.check(signer, subject, usages)
        except UnacceptableError as problem:
            await self._fail(request, str(problem))
            return None
        lifetime = granted(request["spec"].get("expirationSeconds"), self._lifetime)
        # a signature takes milliseconds with RSA, and the pair may have to be read again
        pem = requests.pem_of(request)
        signed = await asyncio.to_thread(authority.sign, pem, usages, lifetime, self._clock.now())
        changed = clone(request)
        changed["status"] = {**(changed.get("status") or {}), "certificate": base64.b64encode(signed).decode()}
        await self._client.update_status(CERTIFICATE_SIGNING_REQUESTS, changed)
        _log.v(1, "Signed a certificate", request=name_of(request), signer=signer)
        return None

    async def _fail(self, request: Object, message: str) -> None:
        now = format_time(self._clock.now())
        condition = {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        await self._client.update_status(CERTIFICATE_SIGNING_REQUESTS, requests.with_condition(clone(request), condition))
