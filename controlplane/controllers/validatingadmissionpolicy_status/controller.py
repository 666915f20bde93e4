"""validatingadmissionpolicy-status: each generation of a ValidatingAdmissionPolicy is checked against the types it is about.

The warnings stand in ``status.typeChecking``; nothing depends on them but the eyes of people. A policy whose types cannot be
had yet is not looked at again, as upstream.
"""

from apimachinery.meta import Object
from apimachinery.resources import VALIDATING_ADMISSION_POLICIES
from client.rest import APPLY
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.validatingadmissionpolicy_status.schemas import Schemas
from controlplane.controllers.validatingadmissionpolicy_status.types import param_kind, types_to_check


class ValidatingAdmissionPolicyStatusController:
    name = "validatingadmissionpolicy-status-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client, self._schemas = env.client, Schemas(env.client)
        self._policies = env.watch(VALIDATING_ADMISSION_POLICIES)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._policies.add_handler(on_add=self._loop.add_object, on_update=lambda old, new: self._loop.add_object(new))

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        policy = self._policies.lister.get_key(key)
        if policy is None:
            return None
        generation = policy["metadata"].get("generation") or 0
        if generation <= ((policy.get("status") or {}).get("observedGeneration") or 0):
            return None
        body = {
            "apiVersion": VALIDATING_ADMISSION_POLICIES.api_version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": key},
            "status": {"observedGeneration": generation, "typeChecking": await self._check(policy)},
        }
        await self._client.patch(
            VALIDATING_ADMISSION_POLICIES, key, body, APPLY, subresource="status", field_manager=self.name, force=True
        )
        return None

    async def _check(self, policy: Object) -> Object:
        """The language's library takes its 20 MB only where there are policies."""
        from controlplane.controllers.validatingadmissionpolicy_status.type_checking import warnings_of

        objects = await self._schemas.of_resources(types_to_check(policy["spec"]))
        param = param_kind(policy["spec"])
        params = await self._schemas.of_kind(param) if param is not None else None
        warnings = warnings_of(policy["spec"], objects, params)
        return {"expressionWarnings": warnings} if warnings else {}
