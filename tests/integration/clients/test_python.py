"""The Python package ``kubernetes``, unmodified: typed and dynamic client, watch, informer, streams, leader election.

The client blocks, so it runs in threads while the server has the loop; its return values are untyped.
"""

import asyncio
import contextlib
import json
import queue
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, informer, stream, utils, watch
from kubernetes.leaderelection import electionconfig
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from component.features import from_flag
from tests.integration.clients.conftest import Cluster, abort_connections
from tests.support.apiserver import running_apiserver

LEADER = electionconfig.Config
NEWER = (  # what v1.37 brought, which the package knows already
    "CertificatesV1Api.list_cluster_trust_bundle",
    "CertificatesV1Api.list_pod_certificate_request_for_all_namespaces",
    "LifecycleV1alpha1Api.list_eviction_for_all_namespaces",
    "LifecycleV1alpha1Api.list_eviction_request_for_all_namespaces",
    "ResourceV1Api.list_device_taint_rule",
    "SchedulingV1alpha3Api.list_composite_pod_group_for_all_namespaces",
    "SchedulingV1alpha3Api.list_pod_group_for_all_namespaces",
    "SchedulingV1alpha3Api.list_workload_for_all_namespaces",
    "SchedulingV1beta1Api.list_pod_group_for_all_namespaces",
    "SchedulingV1beta1Api.list_workload_for_all_namespaces",
    "StoragemigrationV1Api.list_storage_version_migration",
)
EVERYTHING = from_flag({"AllAlpha": "true", "AllBeta": "true"})


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[client.ApiClient]:
    configuration = client.Configuration()
    config.load_kube_config(str(cluster.api.kubeconfig), client_configuration=configuration)
    with client.ApiClient(configuration) as made:
        yield made


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "t"}), data=data)


async def test_typed_objects_come_and_go(api: client.ApiClient) -> None:
    def use() -> None:
        core = client.CoreV1Api(api)
        made = core.create_namespaced_config_map("default", config_map("a", colour="red"))
        assert made.metadata.uid
        made.data["colour"] = "blue"
        assert core.replace_namespaced_config_map("a", "default", made).data == {"colour": "blue"}
        with pytest.raises(client.ApiException) as conflict:
            core.replace_namespaced_config_map("a", "default", made)
        assert (conflict.value.status, json.loads(conflict.value.body)["reason"]) == (409, "Conflict")
        listed = core.list_namespaced_config_map("default", label_selector="app in (t)").items
        assert [item.metadata.name for item in listed] == ["a"]
        assert core.delete_namespaced_config_map("a", "default")["status"] == "Success"
        with pytest.raises(client.ApiException) as absent:
            core.read_namespaced_config_map("a", "default")
        assert absent.value.status == 404
        versions = client.VersionApi(api).get_code()
        assert (versions.major, versions.minor) == ("1", "36")

    await asyncio.to_thread(use)


async def test_every_kind_of_typed_object_is_understood(api: client.ApiClient) -> None:
    """What the server fills in must fit the client's own model of each kind, which refuses what it does not know."""

    def use() -> None:
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        deployment = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        made = client.AppsV1Api(api).create_namespaced_deployment("default", deployment)
        assert made.spec.strategy.rolling_update.max_surge == "25%"
        assert made.spec.template.spec.containers[0].image_pull_policy == "Always"
        core = client.CoreV1Api(api)
        service = core.create_namespaced_service("default", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
        assert service.spec.cluster_ip.startswith("10.")
        scale = client.AppsV1Api(api).patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
        assert (scale.spec.replicas, scale.status.selector) == (3, "app=web")
        token = core.create_namespaced_service_account_token("default", "default", {"spec": {"audiences": ["me"]}})
        assert token.status.token.count(".") == 2
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        assert client.AuthorizationV1Api(api).create_self_subject_access_review(review).status.allowed is True
        page = core.list_namespace(limit=1)
        rest = core.list_namespace(limit=500, _continue=page.metadata._continue)
        assert page.metadata.remaining_item_count == len(rest.items)

    await asyncio.to_thread(use)


APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": "1"}}


@pytest.mark.parametrize(
    ("content_type", "body", "after"),
    [
        ("application/json-patch+json", [{"op": "replace", "path": "/data/colour", "value": "blue"}], {"colour": "blue"}),
        ("application/merge-patch+json", {"data": {"colour": None, "size": "1"}}, {"size": "1"}),
        ("application/strategic-merge-patch+json", {"data": {"size": "1"}}, {"colour": "red", "size": "1"}),
        (
            "application/apply-patch+yaml",
            APPLIED,
            {"colour": "red", "size": "1"},
        ),
    ],
    ids=["json", "merge", "strategic", "apply"],
)
async def test_every_kind_of_patch(api: client.ApiClient, content_type: str, body: Any, after: dict[str, str]) -> None:
    def use() -> None:
        core = client.CoreV1Api(api)
        core.create_namespaced_config_map("default", config_map("a", colour="red"))
        maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
        manager = {"field_manager": "me"} if "apply" in content_type else {}
        patched = maps.patch(body=body, name="a", namespace="default", content_type=content_type, **manager)
        assert patched.data.to_dict() == after
        typed = core.patch_namespaced_config_map("a", "default", body, _content_type=content_type, **manager)
        assert typed.data == after

    await asyncio.to_thread(use)


async def test_dynamic_client(api: client.ApiClient) -> None:
    def use() -> None:
        resources = dynamic.DynamicClient(api).resources
        assert resources.get(kind="Deployment", api_version="apps/v1").name == "deployments"
        assert {item.kind for item in resources.search(short_names=["cm"])} == {"ConfigMap", "ConfigMapList"}
        maps = resources.get(api_version="v1", kind="ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"colour": "red"}}
        assert maps.server_side_apply(body=body, namespace="default", field_manager="one").metadata.name == "a"
        with pytest.raises(dynamic.exceptions.ConflictError):
            maps.server_side_apply(body={**body, "data": {"colour": "blue"}}, namespace="default", field_manager="two")
        forced = maps.server_side_apply(
            body={**body, "data": {"colour": "blue"}}, namespace="default", field_manager="two", force_conflicts=True
        )
        assert forced.data.colour == "blue"
        scale = resources.get(api_version="v1", kind="ReplicationController").subresources["scale"]
        assert scale.kind == "Scale"
        with pytest.raises(dynamic.exceptions.NotFoundError):
            scale.get(name="none", namespace="default")
        for event in maps.watch(namespace="default", name="a", timeout=5):
            assert (event["type"], event["object"].data.colour) == ("ADDED", "blue")
            break
        maps.delete(name="a", namespace="default")
        assert maps.get(namespace="default").items == []

    await asyncio.to_thread(use)


async def test_watch(api: client.ApiClient) -> None:
    def use() -> None:
        core = client.CoreV1Api(api)
        since = core.list_namespaced_config_map("default").metadata.resource_version
        core.create_namespaced_config_map("default", config_map("a", colour="red"))
        core.patch_namespaced_config_map("a", "default", {"data": {"colour": "blue"}})
        core.delete_namespaced_config_map("a", "default")
        watcher = watch.Watch()
        seen = []
        for event in watcher.stream(core.list_namespaced_config_map, "default", resource_version=since, timeout_seconds=10):
            seen.append((event["type"], event["object"].data["colour"]))
            if len(seen) == 3:
                watcher.stop()
        assert seen == [("ADDED", "red"), ("MODIFIED", "blue"), ("DELETED", "blue")]
        lines = watch.Watch().stream(core.list_namespace, send_initial_events=True, allow_watch_bookmarks=True,
                                     resource_version_match="NotOlderThan", timeout_seconds=1)  # fmt: skip
        assert {"ADDED", "BOOKMARK"} >= {event["type"] for event in lines} >= {"ADDED"}

    await asyncio.to_thread(use)


async def test_informer(api: client.ApiClient) -> None:
    def use() -> None:
        core = client.CoreV1Api(api)
        events: queue.Queue[tuple[str, str]] = queue.Queue()
        watched = informer.SharedInformer(list_func=core.list_namespaced_config_map, namespace="default")
        for kind in (informer.ADDED, informer.MODIFIED, informer.DELETED):
            watched.add_event_handler(kind, lambda item, kind=kind: events.put((kind, item.metadata.name)))
        watched.start()
        try:
            core.create_namespaced_config_map("default", config_map("a", colour="red"))
            assert events.get(timeout=10) == ("ADDED", "a")
            assert watched.cache.get_by_key("default/a").data == {"colour": "red"}
            core.delete_namespaced_config_map("a", "default")
            assert events.get(timeout=10) == ("DELETED", "a")
        finally:
            watched.stop()

    await asyncio.to_thread(use)


async def test_exec_by_websocket(api: client.ApiClient) -> None:
    def use() -> None:
        with streaming(api) as core:
            opened = stream.stream(
                core.connect_get_namespaced_pod_exec,
                "p", "default", command=["cat"], stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False,
            )  # fmt: skip
            opened.write_stdin("hello\n")
            assert opened.readline_stdout(timeout=10) == "hello"
            opened.close()
            failed = stream.stream(
                core.connect_get_namespaced_pod_exec,
                "p", "default", command=["fail"], stdin=False, stdout=True, stderr=True, tty=False, _preload_content=False,
            )  # fmt: skip
            failed.run_forever(timeout=10)
            assert failed.read_stderr() == "oh no\n"
            assert failed.returncode == 3
            failed.sock.shutdown()  # whose close() leaves alone what the other side has ended
            flood = stream.stream(
                core.connect_get_namespaced_pod_exec,
                "p", "default", command=["flood"], stdin=False, stdout=True, stderr=True, _preload_content=False,
            )  # fmt: skip
            flood.run_forever(timeout=20)
            assert len(flood.read_all()) == 10_000_000
            flood.sock.shutdown()
            with pytest.raises(client.ApiException) as refused:
                stream.stream(core.connect_get_namespaced_pod_exec, "absent", "default", command=["cat"], stdout=True)
            assert "404" in f"{refused.value}"

    await asyncio.to_thread(use)


async def test_port_forward(api: client.ApiClient) -> None:
    def use() -> None:
        core = client.CoreV1Api(api)
        core.patch_namespaced_pod_status("p", "default", {"status": {"phase": "Running"}})
        with streaming(api) as core:
            forward = stream.portforward(core.connect_get_namespaced_pod_portforward, "p", "default", ports="80")
            socket = forward.socket(80)
            socket.settimeout(10)
            socket.sendall(b"one")
            assert socket.recv(100) == b"80:one"
            socket.close()
            forward.close()

    await asyncio.to_thread(use)


@contextlib.contextmanager
def streaming(api: client.ApiClient) -> Iterator[client.CoreV1Api]:
    """stream() turns the client that it is given into one that only streams: a client of its own."""
    with client.ApiClient(api.configuration) as own:
        yield client.CoreV1Api(own)


async def test_create_from_yaml(api: client.ApiClient, manifests: str) -> None:
    def use() -> None:
        utils.create_from_yaml(api, manifests, namespace="default")
        core = client.CoreV1Api(api)
        assert core.read_namespaced_config_map("settings", "default").data == {"colour": "red"}
        assert core.read_namespaced_secret("hidden", "default").data == {"word": "c2VzYW1l"}
        assert client.AppsV1Api(api).read_namespaced_deployment("web", "default").spec.replicas == 1
        assert client.RbacAuthorizationV1Api(api).read_cluster_role("reader").rules[0].verbs == ["get"]
        with pytest.raises(utils.FailToCreateError) as again:
            utils.create_from_yaml(api, manifests, namespace="default")
        assert [error.status for error in again.value.api_exceptions] == [409, 409, 409, 409]

    await asyncio.to_thread(use)


async def test_every_list_call_of_the_client_finds_its_resource_and_understands_the_answer(tmp_path: Path) -> None:
    """Every API class, in every version the package knows, against a server with everything on."""
    async with running_apiserver(directory=tmp_path, runtime_config={"api/all": "true"}, features=EVERYTHING) as server:
        configuration = client.Configuration()
        config.load_kube_config(str(server.kubeconfig), client_configuration=configuration)

        def use() -> list[str]:
            with client.ApiClient(configuration) as made:
                calls = list(list_calls(made))
                assert len(calls) > 80
                return [problem for call in calls if (problem := problem_of(call))]

        assert set(await asyncio.to_thread(use)) == {f"{call}: 404" for call in NEWER}
        await abort_connections()


def list_calls(api: client.ApiClient) -> Iterator[Callable[..., Any]]:
    classes = [getattr(client, name) for name in client.__all__ if re.fullmatch(r"\w+V\d\w*Api", name)]
    for each in classes:
        for name in dir(each):
            if re.fullmatch(r"list_(?!namespaced)\w+(?<!_with_http_info)(?<!_without_preload_content)", name):
                yield getattr(each(api), name)


def problem_of(call: Callable[..., Any]) -> str:
    try:
        return "" if isinstance(call(limit=5).items, list) else f"{call.__qualname__}: no list"
    except client.ApiException as refused:
        return f"{call.__qualname__}: {refused.status}"


@pytest.mark.slow
async def test_leader_election(api: client.ApiClient) -> None:
    """One of two candidates leads; when somebody else writes himself into the lease, the leader stops leading."""
    started: queue.Queue[str] = queue.Queue()
    stopped: queue.Queue[str] = queue.Queue()

    def candidate(name: str) -> threading.Thread:
        lock = LeaseLock("lead", "default", name)
        lock.api_instance = client.CoordinationV1Api(api)
        durations = {"lease_duration": 4, "renew_deadline": 2, "retry_period": 1}
        callbacks = {"onstarted_leading": lambda: started.put(name), "onstopped_leading": lambda: stopped.put(name)}
        thread = threading.Thread(target=LeaderElection(LEADER(lock, **durations, **callbacks)).run, daemon=True)
        thread.start()
        return thread

    def use() -> None:
        leases = client.CoordinationV1Api(api)
        first = candidate("one")
        assert started.get(timeout=10) == "one"
        lease = leases.read_namespaced_lease("lead", "default")
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("one", 4)
        deadline = time.monotonic() + 10
        while leases.read_namespaced_lease("lead", "default").spec.renew_time == lease.spec.renew_time:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        leases.patch_namespaced_lease("lead", "default", {"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 60}})
        assert stopped.get(timeout=10) == "one"
        first.join(timeout=10)

    await asyncio.to_thread(use)
