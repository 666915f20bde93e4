"""Tokens that live in Secrets: made on request, believed while they are there, gone with their account."""

import base64
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.resources import SECRETS, SERVICE_ACCOUNTS
from client.rest import Client
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.control_plane import control_plane, eventually

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def who(server: TestServer, token: str) -> str:
    answer = await server.request("POST", WHO, BODY, token=token, headers={"Connection": "close"})
    return str(answer.json["status"]["userInfo"]["username"]) if answer.status == 201 else str(answer.status)


async def make(client: Client, account: str, name: str) -> None:
    annotations = {"kubernetes.io/service-account.name": account}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    kind = "kubernetes.io/service-account-token"
    await client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": meta})


async def data(client: Client, name: str) -> dict[str, Any]:
    try:
        found = await client.get(SECRETS, name, "default")
    except StatusError as error:
        if error.code == 404:
            return {"gone": True}
        raise
    return {key: base64.b64decode(value).decode() for key, value in (found.get("data") or {}).items()}


async def test_a_token_from_its_secret_to_its_end() -> None:
    async with running_apiserver() as server:
        flags = [f"--service-account-private-key-file={server.directory / 'sa.key'}", f"--root-ca-file={server.ca_file}"]
        async with control_plane(server, flags, schedule=False) as client:
            meta = {"name": "robot", "namespace": "default"}
            await client.create(SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
            await make(client, "robot", "t")

            async def filled() -> dict[str, Any] | None:
                found = await data(client, "t")
                return found if "token" in found else None

            made = await eventually(filled)
            assert made["namespace"] == "default"
            assert made["ca.crt"] == server.ca_file.read_text()
            assert await who(server, made["token"]) == "system:serviceaccount:default:robot"
            labels = (await client.get(SECRETS, "t", "default"))["metadata"].get("labels") or {}
            assert len(labels["kubernetes.io/legacy-token-last-used"]) == len("2026-11-30")
            head, body, mark = made["token"].split(".")
            assert await who(server, f"{head}.{body}.{mark[:-8]}AAAAAAAA") == "401"
            await make(client, "robot", "other")
            await client.patch(
                SECRETS,
                "t",
                {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}},
                namespace="default",
            )
            assert await who(server, made["token"]) == "401"
            await client.delete(SERVICE_ACCOUNTS, "robot", "default")

            async def gone() -> bool:
                left = [await data(client, name) for name in ("t", "other")]
                return all("gone" in each for each in left)

            await eventually(gone)


async def test_a_secret_for_nobody_is_removed() -> None:
    async with running_apiserver() as server:
        flags = [f"--service-account-private-key-file={server.directory / 'sa.key'}"]
        async with control_plane(server, flags, schedule=False) as client:
            await make(client, "nobody", "t")

            async def gone() -> bool:
                return "gone" in await data(client, "t")

            await eventually(gone)
