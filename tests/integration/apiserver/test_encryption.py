"""Secrets at rest, by a whole server on SQLite: nothing readable in the file, keys that rotate, plugins that fail."""

import asyncio
import base64
import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from cli.secrets import rewrite_all
from component.errors import OperatorError
from controlplane.apiserver.config import Storage
from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend
from controlplane.apiserver.storage.encryption import transformers
from controlplane.apiserver.storage.encryption.kms import key_hash
from controlplane.apiserver.storage.interface import Put
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.encryption import IDENTITY, cipher, kms, write
from tests.support.kms_plugin import running_plugin

SECRETS = "/api/v1/namespaces/default/secrets"
VALUE = "a value that must never be seen on disk"


def storage(folder: Path, **changes: Any) -> Storage:
    base = Storage("sqlite", folder / "store.db", "NORMAL", folder / "encryption.json")
    return replace(base, **changes)


async def create(server: TestServer, name: str, value: str = VALUE) -> None:
    data = {"value": base64.b64encode(value.encode()).decode()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data, "stringData": {"plain": value}}
    assert (await server.request("POST", SECRETS, body)).status == 201


async def value_of(server: TestServer, name: str) -> str:
    answer = await server.request("GET", f"{SECRETS}/{name}")
    return base64.b64decode(answer.json["data"]["value"]).decode() if answer.status == 200 else str(answer.status)


async def stored(folder: Path, name: str) -> bytes:
    """The bytes of a secret, read from the file of a server that has stopped."""
    backend = await SQLiteBackend.open(folder / "store.db")
    item = await backend.get(f"/registry/secrets/default/{name}")
    await backend.close()
    assert item is not None
    return item.value


def files(folder: Path) -> Iterator[bytes]:
    for path in folder.glob("store.db*"):
        yield path.read_bytes()


@pytest.mark.parametrize("kind", ["aesgcm", "aescbc", "secretbox"])
async def test_no_byte_of_a_secret_is_in_the_file(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "encryption.json", cipher(kind, "one"), IDENTITY)
    encoded = base64.b64encode(VALUE.encode())
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        await create(server, "one")
        assert await value_of(server, "one") == VALUE
        patched = await server.request(
            "PATCH", f"{SECRETS}/one", {"data": {"more": encoded.decode()}}, content_type="application/merge-patch+json"
        )
        assert patched.status == 200
        assert not any(VALUE.encode() in data or encoded in data or b"more" in data for data in files(tmp_path)), "while it runs"
    assert not any(VALUE.encode() in data or encoded in data for data in files(tmp_path)), "after it has stopped"
    assert (await stored(tmp_path, "one")).startswith(f"k8s:enc:{kind}:v1:one:".encode())
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        assert await value_of(server, "one") == VALUE
        listed = await server.request("GET", "/api/v1/secrets")
        assert [item["metadata"]["name"] for item in listed.json["items"]] == ["one"]


async def test_the_same_file_shows_a_secret_without_encryption(tmp_path: Path) -> None:
    """What the test above proves is not that SQLite hides things."""
    async with running_apiserver("sqlite", tmp_path) as server:
        await create(server, "one")
    assert any(base64.b64encode(VALUE.encode()) in data for data in files(tmp_path))


async def test_a_missing_key_stops_the_server_with_the_objects_name(tmp_path: Path) -> None:
    write(tmp_path / "encryption.json", cipher("aesgcm", "one"), IDENTITY)
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        await create(server, "one")
    write(tmp_path / "encryption.json", cipher("aesgcm", "two"), IDENTITY)
    with pytest.raises((OperatorError, BaseExceptionGroup)) as caught:
        async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)):
            pass
    leaves = _leaves(caught.value)
    assert any('unable to transform key "/registry/secrets/default/one": ' in str(leaf) for leaf in leaves)
    assert all(isinstance(leaf, OperatorError) for leaf in leaves), "an operator gets a sentence, no traceback"


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


async def test_without_its_configuration_encrypted_secrets_are_not_handed_out(tmp_path: Path) -> None:
    """A forgotten flag must not turn secrets into ones that do not exist."""
    write(tmp_path / "encryption.json", cipher("secretbox", "one"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        await create(server, "one")
    with pytest.raises((OperatorError, BaseExceptionGroup)) as caught:
        async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path, encryption=None)):
            pass
    assert any("identity transformer tried to read encrypted data" in str(leaf) for leaf in _leaves(caught.value))


async def test_an_unchanged_write_moves_an_object_to_the_first_key(tmp_path: Path) -> None:
    """As upstream: `kubectl get secrets -o json | kubectl replace -f -` is how keys are rotated."""
    write(tmp_path / "encryption.json", cipher("aesgcm", "old"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        await create(server, "one")
    write(tmp_path / "encryption.json", cipher("secretbox", "new"), cipher("aesgcm", "old"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        before = (await server.request("GET", f"{SECRETS}/one")).json
        replaced = (await server.request("PUT", f"{SECRETS}/one", before)).json
        assert replaced["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
        again = (await server.request("PUT", f"{SECRETS}/one", replaced)).json
        assert again["metadata"]["resourceVersion"] == replaced["metadata"]["resourceVersion"], "once is enough"
        assert again["data"] == before["data"]
    assert (await stored(tmp_path, "one")).startswith(b"k8s:enc:secretbox:v1:new:")
    write(tmp_path / "encryption.json", cipher("secretbox", "new"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        assert await value_of(server, "one") == VALUE


async def test_a_key_may_go_when_only_history_needs_it(tmp_path: Path) -> None:
    """A start reads a little of the past; what is true now is all that must be readable."""
    write(tmp_path / "encryption.json", cipher("aesgcm", "old"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        await create(server, "one")
        for number in range(1_100):  # so that the part of history that is read again begins with the secret there
            await server.running.backend.commit((), (Put(f"/registry/elsewhere/{number}", b"{}"),))
    write(tmp_path / "encryption.json", cipher("aesgcm", "new", "old"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        await server.request("PUT", f"{SECRETS}/one", (await server.request("GET", f"{SECRETS}/one")).json)
    write(tmp_path / "encryption.json", cipher("aesgcm", "new"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        assert await value_of(server, "one") == VALUE


async def test_a_changed_file_is_taken_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = write(tmp_path / "encryption.json", cipher("aesgcm", "old"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path, encryption_reload=True)) as server:
        encryption = server.running.encryption
        assert encryption is not None
        await create(server, "one")
        path.write_text("{}")
        assert not await encryption.reload_if_changed()
        await create(server, "two")
        write(path, cipher("secretbox", "new"), cipher("aesgcm", "old"))
        assert await encryption.reload_if_changed()
        assert not await encryption.reload_if_changed()
        await create(server, "three")
        metrics = (await server.request("GET", "/metrics")).body.decode()
        prefix = "apiserver_encryption_config_controller"
        for status in ("success", "failure"):
            assert re.search(f'{prefix}_automatic_reloads_total{{apiserver_id_hash="sha256:.*",status="{status}"}} 1.0', metrics)
        assert [await value_of(server, name) for name in ("one", "two", "three")] == [VALUE] * 3
    assert (await stored(tmp_path, "two")).startswith(b"k8s:enc:aesgcm:v1:old:")
    assert (await stored(tmp_path, "three")).startswith(b"k8s:enc:secretbox:v1:new:")


async def test_a_kms_plugin_guards_secrets(tmp_path: Path) -> None:
    socket = tmp_path / "kms.sock"
    write(tmp_path / "encryption.json", kms(socket), IDENTITY, resources=["secrets", "configmaps"])
    async with running_plugin(socket) as plugin:
        async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
            for name in ("one", "two"):
                await create(server, name)
            assert plugin.calls["Encrypt"] == 1
            assert (await server.request("GET", "/healthz/kms-providers")).status == 200
        assert (await stored(tmp_path, "one")).startswith(b"k8s:enc:kms:v2:plugin:")
        assert not any(VALUE.encode() in data for data in files(tmp_path))
        plugin.rotate("key-2")
        async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
            assert await value_of(server, "one") == VALUE
            assert plugin.calls["Decrypt"] == 1, "one seed, one call"
            before = (await server.request("GET", f"{SECRETS}/one")).json
            await server.request("PUT", f"{SECRETS}/one", before)
            metrics = (await server.request("GET", "/metrics")).body.decode()
        prefix, named = "apiserver_envelope_encryption_", 'provider_name="plugin"'
        for method in ("Status", "Encrypt", "Decrypt"):
            called = f'grpc_status_code="OK",method_name="/v2.KeyManagementService/{method}",{named}'
            assert f"{prefix}kms_operations_latency_seconds_count{{{called}}}" in metrics
        assert f"{prefix}dek_source_cache_size{{{named}}} 2.0" in metrics
        assert "apiserver_storage_envelope_transformation_cache_misses_total 1.0" in metrics
        key = f'apiserver_id_hash="sha256:[0-9a-f]+",key_id_hash="{key_hash("key-2")}",{named},transformation_type="to_storage"'
        assert re.search(f"{prefix}key_id_hash_total{{{key}}} 1.0", metrics)
        assert b"key-2" in await stored(tmp_path, "one")
        assert b"key-1" in await stored(tmp_path, "two")


async def test_rewrite_takes_every_plain_byte_from_the_file(tmp_path: Path) -> None:
    """A cluster that had no encryption gets it: `secrets rewrite`, and what is compacted is overwritten."""
    async with running_apiserver("sqlite", tmp_path) as server:
        for number in range(30):
            await create(server, f"s{number}")
    write(tmp_path / "encryption.json", cipher("secretbox", "one"), IDENTITY)
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        await create(server, "encrypted-already")
        counts = await rewrite_all(server.kubeconfig, ["secrets"], quiet=True)
        assert (counts["secrets"].seen, counts["secrets"].rewritten, counts["secrets"].failures) == (31, 30, [])
        again = await rewrite_all(server.kubeconfig, ["*."], quiet=True)
        assert again["secrets"].rewritten == 0, "it goes on where it was"
        assert "configmaps" in again
        await server.running.backend.compact(await server.running.backend.current_revision())
        assert await value_of(server, "s7") == VALUE
    encoded = base64.b64encode(VALUE.encode())
    assert not any(VALUE.encode() in data or encoded in data for data in files(tmp_path))


async def test_rewrite_goes_on_after_an_interruption(tmp_path: Path) -> None:
    write(tmp_path / "encryption.json", cipher("aesgcm", "old"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        for number in range(40):
            await create(server, f"s{number}")
    write(tmp_path / "encryption.json", cipher("aesgcm", "new", "old"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        running = asyncio.ensure_future(rewrite_all(server.kubeconfig, ["secrets"], quiet=True))
        first = await server.running.backend.current_revision()
        async for _ in server.running.backend.watch("/registry/secrets/", first):
            break
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        counts = await rewrite_all(server.kubeconfig, ["secrets"], quiet=True)
        assert counts["secrets"].seen == 40
        assert 0 < counts["secrets"].rewritten < 40
    write(tmp_path / "encryption.json", cipher("aesgcm", "new"))
    async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        assert await value_of(server, "s39") == VALUE


async def test_an_unknown_resource_is_named(tmp_path: Path) -> None:
    async with running_apiserver() as server:
        with pytest.raises(click.ClickException, match="doesn't have a resource 'sekrets'"):
            await rewrite_all(server.kubeconfig, ["sekrets"], quiet=True)


async def test_a_plugin_that_starts_later_than_the_server_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers, "PRIME_PAUSE", 0.05)
    monkeypatch.setattr("controlplane.apiserver.storage.encryption.kms.FAILED_SECONDS", 0.0)
    socket = tmp_path / "kms.sock"
    write(tmp_path / "encryption.json", kms(socket))
    async with contextlib.AsyncExitStack() as stack:

        async def later() -> None:
            await asyncio.sleep(0.5)
            await stack.enter_async_context(running_plugin(socket))

        starting = asyncio.ensure_future(later())
        async with running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
            assert starting.done()
            await create(server, "one")
            assert await value_of(server, "one") == VALUE


async def test_without_its_plugin_a_server_with_secrets_waits_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However long: nobody may be served as if there were no Secrets."""
    socket = tmp_path / "kms.sock"
    write(tmp_path / "encryption.json", kms(socket))
    async with running_plugin(socket) as plugin, running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)) as server:
        await create(server, "one")
    monkeypatch.setattr(transformers, "PRIME_SECONDS", 0.0)
    monkeypatch.setattr("controlplane.apiserver.storage.encryption.kms.FAILED_SECONDS", 0.0)
    async with contextlib.AsyncExitStack() as stack:
        starting = asyncio.ensure_future(
            stack.enter_async_context(running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)))
        )
        await asyncio.sleep(1.5)
        assert not starting.done()
        assert any("waiting for a key" in record.getMessage() for record in caplog.records)
        await stack.enter_async_context(running_plugin(socket, plugin))
        async with asyncio.timeout(30):
            server = await starting
        assert await value_of(server, "one") == VALUE


async def test_a_plugin_that_goes_away_is_unhealthy_and_secrets_can_still_be_read(tmp_path: Path) -> None:
    socket = tmp_path / "kms.sock"
    write(tmp_path / "encryption.json", kms(socket))
    async with contextlib.AsyncExitStack() as stack:
        plugin = await stack.enter_async_context(running_plugin(socket))
        server = await stack.enter_async_context(running_apiserver("sqlite", tmp_path, storage=storage(tmp_path)))
        await create(server, "one")
        plugin.healthz = "sealed"
        encryption = server.running.encryption
        assert encryption is not None
        encryption._providers.plugins[0]._answered = float("-inf")  # it is time to look again
        told = await server.request("GET", "/healthz/kms-providers")
        assert told.status == 500
        assert "got unexpected healthz status: sealed" in told.body.decode()
        assert await value_of(server, "one") == VALUE
        await create(server, "two")  # for three minutes
