"""Controllers within the bounds of their roles, and the roles that aggregate."""

import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.resources import CLUSTER_ROLES, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from client.kubeconfig import load
from client.rest import MERGE, Client
from controlplane.controllers.lib.accounts import Accounts
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

REVIEWS = GroupVersionResource("authentication.k8s.io", "v1", "selfsubjectreviews")
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def test_a_controller_speaks_as_its_account_and_may_no_more_than_that() -> None:
    async with (
        running_apiserver() as server,
        Client(load(server.kubeconfig_for("controller-manager-token"))) as manager,
        Accounts(manager) as accounts,
    ):
        publisher = accounts.client("root-ca-cert-publisher")
        assert publisher.config.source is None  # what would be read again is the manager's kubeconfig, and its certificate
        about = (await publisher.create(REVIEWS, REVIEW))["status"]["userInfo"]
        assert about["username"] == "system:serviceaccount:kube-system:root-ca-cert-publisher"
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
        await publisher.create(CONFIG_MAPS, made)
        for refused in (publisher.list(SECRETS), publisher.delete(CONFIG_MAPS, "c", "default")):
            with pytest.raises(StatusError) as caught:
                await refused
            assert caught.value.code == 403


async def test_an_account_that_was_deleted_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.apiserver.filters.authenticate.TOKEN_TTL", 0.05)
    async with (
        running_apiserver() as server,
        Client(load(server.kubeconfig)) as admin,
        Client(load(server.kubeconfig_for("controller-manager-token"))) as manager,
        Accounts(manager) as accounts,
    ):
        client = accounts.client("job-controller")
        first = (await client.create(REVIEWS, REVIEW))["status"]["userInfo"]["uid"]
        await admin.delete(SERVICE_ACCOUNTS, "job-controller", "kube-system")

        async def another() -> bool:  # what a connection has shown is believed for some seconds
            return bool((await client.create(REVIEWS, REVIEW))["status"]["userInfo"]["uid"] != first)

        await eventually(another, within=15)


async def test_an_aggregated_role_gathers_what_is_labelled_for_it() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False) as client:

        async def resources(name: str) -> set[str]:
            rules = (await client.get(CLUSTER_ROLES, name)).get("rules") or []
            return {resource for rule in rules for resource in rule.get("resources") or ()}

        async def view_has(resource: str) -> bool:
            return resource in await resources("view")

        await eventually(lambda: view_has("pods"))
        assert "secrets" not in await resources("view")
        label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        rules = [{"apiGroups": ["stable.example.com"], "resources": ["crontabs"], "verbs": ["get"]}]
        made = {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": "ClusterRole",
            "metadata": {"name": "crontabs", "labels": label},
            "rules": rules,
        }
        await client.create(CLUSTER_ROLES, made)
        await eventually(lambda: view_has("crontabs"))

        async def edit_has() -> bool:  # through view, which is labelled for it
            return "crontabs" in await resources("edit")

        await eventually(edit_has)
        await client.patch(CLUSTER_ROLES, "crontabs", {"metadata": {"labels": None}}, MERGE)

        async def gone() -> bool:
            return not await view_has("crontabs")

        await eventually(gone)


async def test_cluster_info_is_signed_by_each_token() -> None:
    flags = ["--controllers=*,bootstrapsigner,tokencleaner"]
    async with running_apiserver() as server, control_plane(server, flags, schedule=False) as client:
        data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"}
        meta = {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}
        token = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "bootstrap.kubernetes.io/token",
            "metadata": meta,
            "stringData": data,
        }
        info = {"name": "cluster-info", "namespace": "kube-public"}
        await client.create(SECRETS, token)
        await client.create(
            CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": info, "data": {"kubeconfig": "kind: Config"}}
        )

        async def signed() -> bool:
            return "jws-kubeconfig-abcdef" in (await client.get(CONFIG_MAPS, "cluster-info", "kube-public"))["data"]

        await eventually(signed)
        await client.delete(SECRETS, "bootstrap-token-abcdef", "kube-system")

        async def unsigned() -> bool:
            return not await signed()

        await eventually(unsigned)
