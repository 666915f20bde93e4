"""Migrations on the real API server: what was stored under another key or in another version is written again, once."""

from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, condition_status, get_condition, name_of, resource_version
from apimachinery.resources import CONFIG_MAPS, SECRETS, STORAGE_VERSION_MIGRATIONS
from client.kubeconfig import load
from client.rest import Client
from component.features import from_flag
from controlplane.apiserver.config import Storage
from controlplane.controllers.storageversionmigrator.definitions import CUSTOM_RESOURCE_DEFINITIONS
from tests.integration.apiserver.test_encryption import stored
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually
from tests.support.custom import GROUP, definition, version
from tests.support.encryption import cipher, write

_FLAGS = ("--feature-gates=StorageVersionMigrator=true",)
_ON: dict[str, Any] = {
    "features": from_flag({"StorageVersionMigrator": "true"}),
    "runtime_config": {"storagemigration.k8s.io/v1beta1": "true"},
}
_POLICIES = GroupVersionResource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")
_BINDINGS = GroupVersionResource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings")
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["UPDATE"]}
_POLICY: Object = {
    "metadata": {"name": "no"},
    "spec": {"matchConstraints": {"resourceRules": [_RULE]}, "validations": [{"expression": "false", "reason": "Invalid"}]},
}
_BINDING: Object = {"metadata": {"name": "no"}, "spec": {"policyName": "no", "validationActions": ["Deny"]}}
_CONTROLLERS = "svm,serviceaccount,namespace"


async def migrate(client: Client, resource: str, group: str = "", name: str = "") -> Object:
    """Make a migration and wait until it is over; returns it."""
    made = {"metadata": {"name": name or resource}, "spec": {"resource": {"group": group, "resource": resource}}}
    await client.create(STORAGE_VERSION_MIGRATIONS, made)

    async def over() -> Object | None:
        held = await client.get(STORAGE_VERSION_MIGRATIONS, name or resource)
        return held if "True" in (condition_status(held, "Succeeded"), condition_status(held, "Failed")) else None

    return dict(await eventually(over))


async def versions(client: Client, gvr: GroupVersionResource, namespace: str | None = None) -> dict[str, str]:
    return {name_of(each): resource_version(each) for each in (await client.list(gvr, namespace))["items"]}


async def test_secrets_move_to_the_first_key(tmp_path: Path) -> None:
    storage = Storage("sqlite", tmp_path / "store.db", "NORMAL", tmp_path / "encryption.json")
    write(tmp_path / "encryption.json", cipher("aesgcm", "old"))
    async with running_apiserver("sqlite", tmp_path, storage=storage) as server, Client(load(server.kubeconfig)) as client:
        for name in ("one", "two"):
            await client.create(SECRETS, {"metadata": {"name": name}, "stringData": {"a": "b"}}, "default")
    write(tmp_path / "encryption.json", cipher("aesgcm", "new", "old"))
    async with (
        running_apiserver("sqlite", tmp_path, storage=storage, **_ON) as server,
        control_plane(server, _FLAGS, schedule=False, controllers=_CONTROLLERS) as client,
    ):
        await client.create(SECRETS, {"metadata": {"name": "three"}, "stringData": {"a": "b"}}, "default")
        before = await client.get(SECRETS, "three", "default")
        found = await migrate(client, "secrets")
        assert condition_status(found, "Succeeded") == "True", found
        assert (get_condition(found, "Running") or {})["status"] == "False"
        assert int(found["status"]["resourceVersion"]) >= int(resource_version(before))
        assert (await client.get(SECRETS, "three", "default")) == before, "it was under the new key already"
        one = await client.get(SECRETS, "one", "default")
        assert one["data"] == {"a": "Yg=="}
        assert all(each["manager"] != "storage-version-migrator-controller" for each in one["metadata"]["managedFields"])
    for name in ("one", "two", "three"):
        assert (await stored(tmp_path, name)).startswith(b"k8s:enc:aesgcm:v1:new:")


async def test_custom_resources_move_to_the_storage_version() -> None:
    async with (
        running_apiserver(**_ON) as server,
        control_plane(server, _FLAGS, schedule=False, controllers=_CONTROLLERS) as client,
    ):
        both = [version("v1"), version("v2", storage=False)]
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition("widgets", "Widget", *both))
        widgets = GroupVersionResource(GROUP, "v1", "widgets")

        async def make(name: str) -> bool:
            obj = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}}
            try:
                await client.create(widgets, obj, "default")
            except StatusError:  # not served yet
                return False
            return True

        await eventually(lambda: make("old"))
        both = [version("v1", storage=False), version("v2")]
        name = f"widgets.{GROUP}"
        held = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        await client.update(CUSTOM_RESOURCE_DEFINITIONS, {**held, "spec": definition("widgets", "Widget", *both)["spec"]})

        async def moved() -> bool:
            return bool((await client.get(CUSTOM_RESOURCE_DEFINITIONS, name))["status"]["storedVersions"] == ["v1", "v2"])

        await eventually(moved)
        before = await versions(client, widgets)
        found = await migrate(client, "widgets", GROUP)
        assert condition_status(found, "Succeeded") == "True", found
        after = await versions(client, widgets)
        assert int(after["old"]) > int(before["old"])
        held = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        assert held["status"]["storedVersions"] == ["v2"]
        condition = get_condition(held, "StorageMigrating") or {}
        assert (condition["status"], condition["reason"]) == ("False", "MigrationSucceeded")
        assert condition["message"] == "The migration has succeeded and the stored versions have been updated"
        # a second one finds nothing to do
        assert condition_status(await migrate(client, "widgets", GROUP, "again"), "Succeeded") == "True"
        assert await versions(client, widgets) == after


async def test_what_takes_no_writes_fails() -> None:
    """Here: an admission policy's word, standing for whatever refuses an object as it is."""
    async with (
        running_apiserver(**_ON) as server,
        control_plane(server, _FLAGS, schedule=False, controllers=_CONTROLLERS) as client,
    ):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "held"}}, "default")
        await client.create(_POLICIES, _POLICY)
        await client.create(_BINDINGS, _BINDING)

        async def refused() -> bool:
            try:
                await client.patch(CONFIG_MAPS, "held", {}, namespace="default")
            except StatusError as error:
                return error.code == 422
            return False

        await eventually(refused)
        found = await migrate(client, "configmaps")
        condition = get_condition(found, "Failed") or {}
        assert condition["status"] == "True"
        assert condition["message"].startswith("migration encountered unhandled error: configmaps ")
        assert condition_status(found, "Running") == "False"
