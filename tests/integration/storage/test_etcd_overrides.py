"""Events in an etcd of their own: each resource is where it was said to be, and works as it did."""

from pathlib import Path

from controlplane.apiserver.config import Storage
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.etcd import Etcd, running_etcd

NAMESPACED = "/api/v1/namespaces/default"


def keys(etcd: Etcd, prefix: str) -> set[str]:
    return set(etcd.ctl("get", prefix, "--prefix", "--keys-only").split())


async def make_both(server: TestServer, name: str) -> None:
    event = {"metadata": {"name": name}, "involvedObject": {"namespace": "default", "kind": "Pod", "name": "p"}}
    for resource, body in (("events", event), ("configmaps", {"metadata": {"name": name}})):
        made = await server.request("POST", f"{NAMESPACED}/{resource}", body)
        assert made.status == 201, made.body


async def test_each_resource_is_where_it_was_said_to_be(tmp_path: Path) -> None:
    for name in ("main", "events", "ours", "ours2"):
        (tmp_path / name).mkdir()
    with running_etcd(tmp_path / "main") as main, running_etcd(tmp_path / "events") as apart:
        for number in range(5):  # their revisions have nothing to do with one another
            apart.ctl("put", "/elsewhere", str(number))
        storage = Storage("etcd3", etcd=main.config(), overrides={"events": apart.config()})
        async with running_apiserver("etcd3", tmp_path / "ours", storage=storage) as server:
            await make_both(server, "one")
            assert keys(apart, "/registry/") == {"/registry/events/default/one"}
            assert not keys(main, "/registry/events/")
            assert keys(main, "/registry/configmaps/default/one")
            listed = (await server.request("GET", f"{NAMESPACED}/events")).json
            assert [each["metadata"]["name"] for each in listed["items"]] == ["one"]
            await make_both(server, "two")
            after = listed["metadata"]["resourceVersion"]
            path = f"{NAMESPACED}/events?watch=1&resourceVersion={after}&timeoutSeconds=1"
            assert b'"name":"two"' in (await server.request("GET", path)).body
            view = (await server.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")).json
            assert len(view["items"]) == 2, "the other version of the same objects"
            gone = await server.request("DELETE", f"{NAMESPACED}/events/one")
            assert gone.status == 200
            assert keys(apart, "/registry/events/default/") == {"/registry/events/default/two"}
            assert (await server.request("GET", "/readyz")).status == 200
        async with running_apiserver("etcd3", tmp_path / "ours2", storage=storage) as again:
            listed = (await again.request("GET", f"{NAMESPACED}/events")).json
            assert [each["metadata"]["name"] for each in listed["items"]] == ["two"]
