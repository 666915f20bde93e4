"""What a migration of custom resources tells their definition: the condition StorageMigrating, and what is still stored.

``status.storedVersions`` loses the versions that were migrated away from, so that they can be taken out of the definition. It
does not if the definition changed meanwhile: its storage version may have been another for a while.
"""

from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, generation, get_condition, name_of, resource_version
from apimachinery.times import format_time
from client.rest import APPLY, Client
from component.clock import Clock

CUSTOM_RESOURCE_DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
MIGRATING = "StorageMigrating"
_MANAGER = "migration-runner-controller"


class Definitions:
    """Both methods do nothing for a resource without definition, and raise StatusError; a conflict is worth another try."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def begin(self, resource: str, migration: str) -> None:
        definition = await self._get(resource)
        if definition is not None:
            await self._apply(
                definition, self._condition(definition, "True", "MigrationRunning", f"Migration {migration} is running")
            )

    async def end(self, resource: str, *, succeeded: bool) -> None:
        definition = await self._get(resource)
        if definition is None:
            return
        condition = get_condition(definition, MIGRATING)
        same = condition is not None and condition.get("observedGeneration") == generation(definition)
        if not succeeded:
            await self._apply(definition, self._condition(definition, "False", "MigrationFailed", "The migration has failed"))
            return
        outcome = "and the stored versions have been updated"
        if not same:
            outcome = "but the stored versions have not been updated due to a generation mismatch"
        text = f"The migration has succeeded {outcome}"
        status = self._condition(definition, "False", "MigrationSucceeded", text)
        if same:
            status["storedVersions"] = [each["name"] for each in definition["spec"]["versions"] if each.get("storage")]
        await self._apply(definition, status)

    async def _get(self, resource: str) -> Object | None:
        if "." not in resource:
            return None
        try:
            return await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, resource)
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    def _condition(self, definition: Object, status: str, reason: str, message: str) -> dict[str, Any]:
        condition = {
            "type": MIGRATING,
            "status": status,
            "lastTransitionTime": format_time(self._clock.now()),
            "reason": reason,
            "message": message,
            "observedGeneration": generation(definition),
        }
        return {"conditions": [condition]}

    async def _apply(self, definition: Object, status: dict[str, Any]) -> None:
        """Only over the definition that was looked at."""
        name = name_of(definition)
        body = {
            "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "resourceVersion": resource_version(definition)},
            "status": status,
        }
        await self._client.patch(
            CUSTOM_RESOURCE_DEFINITIONS, name, body, APPLY, subresource="status", field_manager=_MANAGER, force=True
        )
