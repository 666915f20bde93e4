"""Every resource encrypted (``*.*``) over etcd: rotation of everything, and two servers that know different keys."""

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.secrets import rewrite_all
from controlplane.apiserver.config import Storage
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.control_plane import eventually
from tests.support.encryption import IDENTITY, cipher, kms, write
from tests.support.etcd import Etcd, running_etcd
from tests.support.kms_plugin import Plugin, running_plugin

ADDRESS = {"advertise_address": "192.0.2.1"}  # a loopback address would make endpoints that nobody may write again
SERVICES, SECRETS = "/api/v1/namespaces/default/services", "/api/v1/namespaces/default/secrets"


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    (tmp_path / "etcd").mkdir()
    with running_etcd(tmp_path / "etcd") as running:
        yield running


def storage(etcd: Etcd, config: Path, reload: bool = False) -> Storage:
    return Storage("etcd3", etcd=etcd.config(), encryption=config, encryption_reload=reload)


async def fill(server: TestServer) -> None:
    port = {"port": 80, "nodePort": 30123}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [port]}}
    assert (await server.request("POST", SERVICES, service)).status == 201
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
    assert (await server.request("POST", SECRETS, secret)).status == 201


def prefixes(etcd: Etcd) -> dict[str, str]:
    """How each value begins, by key: ``k8s:enc:aesgcm:v1:one`` or the first byte."""
    found = {}
    listed = json.loads(etcd.ctl("get", "--prefix", "/registry/", "-w", "json"))["kvs"]
    for key, value in ((base64.b64decode(one["key"]).decode(), base64.b64decode(one["value"])) for one in listed):
        head = value[:40].split(b":")
        found[key] = b":".join(head[:5]).decode() if value.startswith(b"k8s:enc:") else chr(value[0])
    return found


async def test_everything_but_bookkeeping_is_encrypted_and_moves_to_a_new_key(
    etcd: Etcd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = write(tmp_path / "encryption.json", cipher("aesgcm", "one"), IDENTITY, resources=["*.*"])
    async with running_apiserver(directory=tmp_path, storage=storage(etcd, config), serving=ADDRESS) as server:
        await fill(server)
    found = prefixes(etcd)
    assert found["/registry/secrets/default/s"] == found["/registry/services/specs/default/s"] == "k8s:enc:aesgcm:v1:one"
    plain = {key.split("/")[2] for key, value in found.items() if not value.startswith("k8s:enc:")}
    assert plain <= {"ranges", "masterleases", "pybernetes.io"}

    write(config, cipher("secretbox", "two"), cipher("aesgcm", "one"), resources=["*.*"])
    async with running_apiserver(directory=tmp_path, storage=storage(etcd, config), serving=ADDRESS) as server:
        counts = await rewrite_all(server.kubeconfig, ["*.*"], quiet=True)
        assert sum(count.rewritten for count in counts.values()) > 50
        assert not [failure for count in counts.values() for failure in count.failures]
    assert {value for value in prefixes(etcd).values() if value.startswith("k8s:")} == {"k8s:enc:secretbox:v1:two"}

    write(config, cipher("secretbox", "two"), resources=["*.*"])
    async with running_apiserver(directory=tmp_path, storage=storage(etcd, config), serving=ADDRESS) as server:
        again = await server.request("GET", f"{SERVICES}/s")
        assert again.json["spec"]["ports"][0]["nodePort"] == 30123
        taken = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "t"}}
        taken["spec"] = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]}  # type: ignore[assignment]
        assert (await server.request("POST", SERVICES, taken)).status == 422, "the claim is still known"
    problems = [record.getMessage() for record in caplog.records if "no key for it" in record.getMessage()]
    assert not problems


async def test_what_another_server_writes_with_an_unknown_key_is_kept_as_it_was(etcd: Etcd, tmp_path: Path) -> None:
    """Rotation done in the wrong order: nobody may be told that a Secret was deleted; with the key it is read again."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    old = write(folders[0] / "encryption.json", cipher("aesgcm", "old"))
    new = write(folders[1] / "encryption.json", cipher("aesgcm", "new", "old"))
    async with (
        running_apiserver(directory=folders[0], storage=storage(etcd, old, reload=True)) as first,
        running_apiserver(directory=folders[1], storage=storage(etcd, new)) as second,
    ):
        await fill(first)
        patch = {"stringData": {"k": "changed"}}
        answer = await second.request("PATCH", f"{SECRETS}/s", patch, content_type="application/merge-patch+json")
        assert answer.status == 200
        known = await first.request("GET", f"{SECRETS}/s")
        assert known.status == 200, "the last state that could be read"
        written = await first.request("PATCH", f"{SECRETS}/s", patch, content_type="application/merge-patch+json")
        assert written.status == 503
        assert 'unable to transform key "/registry/secrets/default/s": no matching key was found' in written.json["message"]
        write(old, cipher("aesgcm", "new", "old"))
        assert first.running.encryption is not None
        assert await first.running.encryption.reload_if_changed()
        written = await first.request("PATCH", f"{SECRETS}/s", patch, content_type="application/merge-patch+json")
        assert written.status == 200


async def test_a_plugin_that_is_away_keeps_nothing_else_from_being_followed(etcd: Etcd, tmp_path: Path) -> None:
    """Another server's seed is unknown here until the plugin has decrypted it; leases and all the rest must not wait for that."""
    folders = [tmp_path / "a", tmp_path / "b"]
    configs = []
    for folder in folders:
        folder.mkdir()
        configs.append(write(folder / "encryption.json", kms(folder / "kms.sock")))
    async with contextlib.AsyncExitStack() as stack:
        shared = await stack.enter_async_context(running_plugin(folders[1] / "kms.sock"))
        near = contextlib.AsyncExitStack()
        mine = await near.enter_async_context(
            running_plugin(folders[0] / "kms.sock", Plugin(folders[0], shared.keys, shared.current))
        )
        first = await stack.enter_async_context(running_apiserver(directory=folders[0], storage=storage(etcd, configs[0])))
        second = await stack.enter_async_context(running_apiserver(directory=folders[1], storage=storage(etcd, configs[1])))
        await near.aclose()
        await fill(second)
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
        assert (await first.request("POST", "/api/v1/namespaces/default/configmaps", made)).status == 201
        assert (await first.request("GET", f"{SERVICES}/s")).status == 200
        assert (await first.request("GET", f"{SECRETS}/s")).status == 404, "it never heard of it"
        await stack.enter_async_context(running_plugin(folders[0] / "kms.sock", mine))
        encryption = first.running.encryption
        assert encryption is not None

        async def known() -> bool:
            await encryption.look(False)
            return (await first.request("GET", f"{SECRETS}/s")).status == 200

        await eventually(known, within=30)
