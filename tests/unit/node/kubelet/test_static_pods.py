"""Static pods: manifests to pods, edits, and how mirrors follow."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from apimachinery import errors as api_errors
from client.rest import Client
from component.clock import FakeClock
from node.kubelet.mirror import MirrorPods, mirror_of
from node.kubelet.runtime.observed import ObservedPod
from node.kubelet.sources.static_files import StaticFiles, pod_of
from node.kubelet.sources.static_pods import StaticPods, former, is_static
from node.kubelet.sources.static_url import StaticUrl, pods_of

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostNetwork: true
  containers:
  - {name: main, image: busybox, ports: [{containerPort: 80}]}
"""


def _pod(text: str = MANIFEST) -> dict[str, Any]:
    return pod_of(text, Path("/etc/web.yaml"), "node-1", "2026-01-01T00:00:00Z")


def test_a_manifest_becomes_a_pod_of_this_node() -> None:
    made = _pod()
    assert made["metadata"]["name"] == "web-node-1"
    assert made["metadata"]["namespace"] == "default"
    assert made["spec"]["nodeName"] == "node-1"
    (container,) = made["spec"]["containers"]
    assert container["imagePullPolicy"] == "Always"
    assert container["ports"] == [{"protocol": "TCP", "containerPort": 80, "hostPort": 80}]
    assert is_static(made)
    assert made["metadata"]["uid"] == _pod()["metadata"]["uid"]
    assert made["metadata"]["uid"] != _pod(MANIFEST.replace("80", "81"))["metadata"]["uid"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("{", "not YAML", id="yaml"),
        pytest.param("kind: Pod", "not a Pod of v1", id="version"),
        pytest.param("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "spec.containers are needed", id="containers"),
    ],
)
def test_what_is_wrong_is_said(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        _pod(text)


@pytest.mark.parametrize(
    ("spec", "resource"),
    [
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "a"}]}, "secrets"),
        ({"volumes": [{"name": "v", "configMap": {"name": "a"}}]}, "configmaps"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "a"}}]}}]}, "secrets"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]}, "persistentvolumeclaims"),
        ({"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "a"}}]}]}, "configmaps"),
        ({"containers": [{"name": "a", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {}}}]}]}, "secrets"),
    ],
)  # fmt: skip
def test_a_static_pod_refers_to_no_object_of_the_api(spec: dict[str, Any], resource: str) -> None:
    whole = {"containers": [{"name": "a"}], **spec}
    if "secretKeyRef" in str(spec):
        whole["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"] = {"name": "s", "key": "k"}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": whole}
    with pytest.raises(ValueError, match=f"static pods may not reference {resource}"):
        _pod(json.dumps(manifest))


async def _until(clock: FakeClock, true: Callable[[], bool]) -> None:
    """Let virtual time pass, and the threads that read files do their work, until something is true."""
    for _ in range(2000):
        if true():
            return
        await asyncio.sleep(0.001)
        await clock.advance(0.5)
    raise AssertionError("never came true")


async def test_an_edited_file_is_another_pod_that_waits_for_the_first(tmp_path: Path) -> None:
    clock, seen, asked, old_runs = FakeClock(), cast("list[Any]", []), cast("list[str]", []), [True]

    def running(uid: str) -> bool:
        asked.append(uid)
        return old_runs[0]

    pods = StaticPods(lambda pod: seen.append(pod["metadata"]["uid"]), lambda uid: seen.append("removed"), running)
    files = StaticFiles(tmp_path, "node-1", clock, pods)
    (tmp_path / "web.yaml").write_text(MANIFEST)
    (tmp_path / "notes.txt").write_text("not a manifest")
    task = asyncio.ensure_future(files.run())
    await _until(clock, lambda: len(seen) == 1)

    (tmp_path / "web.yaml").write_text(MANIFEST.replace("80", "8080"))
    await _until(clock, lambda: len(seen) == 2)
    before = len(asked)
    await _until(clock, lambda: len(asked) > before + 1)
    assert seen[1:] == ["removed"], "the old pod still runs, however often it is looked at"

    old_runs[0] = False
    await _until(clock, lambda: len(seen) == 3)
    (tmp_path / "web.yaml").unlink()
    await _until(clock, lambda: len(seen) == 4)
    assert seen[3:] == ["removed"]
    task.cancel()
    await asyncio.wait({task})


async def test_what_a_manifest_said_before_a_restart_ends_first(tmp_path: Path) -> None:
    new, old, ours = _pod()["metadata"]["uid"], "0" * 32, "11111111-2222-3333-4444-555555555555"
    runtime = {uid: ObservedPod(uid, "web-node-1", "default") for uid in (new, old, ours)}
    runtime["f" * 32] = ObservedPod("f" * 32, "other-node-1", "default")
    assert former(_pod(), runtime) == [old]
    clock, seen, asked, left = FakeClock(), cast("list[Any]", []), cast("list[Any]", []), [True]

    def replaced(pod: Any) -> bool:
        asked.append(pod)
        return left[0]

    pods = StaticPods(seen.append, seen.append, running=lambda uid: False, replaced=replaced)
    files = StaticFiles(tmp_path, "node-1", clock, pods)
    (tmp_path / "web.yaml").write_text(MANIFEST)
    task = asyncio.ensure_future(files.run())
    await _until(clock, lambda: len(asked) > 1)
    assert (seen, files.looked.is_set()) == ([], False)

    left[0] = False
    await _until(clock, lambda: bool(seen) and files.looked.is_set())
    assert len(seen) == 1
    task.cancel()
    await asyncio.wait({task})


def _listed(*names: str) -> bytes:
    items = [{"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}} for name in names]
    return json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}).encode()


def test_a_url_gives_one_pod_or_a_list() -> None:
    def names(data: bytes) -> list[str]:
        return [pod["metadata"]["name"] for pod in pods_of(data, "http://a/b", "node-1", "now").values()]

    assert names(MANIFEST.encode()) == ["web-node-1"]
    assert names(_listed("a", "b")) == ["a-node-1", "b-node-1"]
    assert names(_listed()) == []
    (made,) = pods_of(MANIFEST.encode(), "http://a/b", "node-1", "now").values()
    assert made["metadata"]["annotations"]["kubernetes.io/config.source"] == "http"
    assert is_static(made)
    with pytest.raises(ValueError, match="not a Pod of v1"):
        pods_of(b"{}", "http://a/b", "node-1", "now")


async def test_pods_follow_what_a_url_says() -> None:
    clock, seen, asked = FakeClock(), cast("list[Any]", []), cast("list[str]", [])
    both, one = (200, _listed("a", "b")), (200, _listed("b"))
    answers: list[tuple[int, bytes]] = [(500, b"x"), both, (404, b""), (200, b"{"), one, (200, b"")]

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(",".join(request.headers.getall("X-Key", [])))
        status, body = answers.pop(0) if answers else (503, b"")
        return web.Response(status=status, body=body)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/pods"
    pods = StaticPods(lambda pod: seen.append(pod["metadata"]["name"]), lambda uid: seen.append("removed"), lambda uid: False)
    source = StaticUrl(url, {"X-Key": ("1", "2")}, "node-1", clock, pods, 20)
    task = asyncio.ensure_future(source.run())
    await _until(clock, lambda: len(asked) == 1)
    assert not source.looked.is_set(), "nobody knows yet which pods there are"
    await _until(clock, source.looked.is_set)
    assert seen == ["a-node-1", "b-node-1"]
    await _until(clock, lambda: len(asked) == 5)
    await _until(clock, lambda: len(seen) == 3)
    assert seen[2:] == ["removed"]
    await _until(clock, lambda: len(seen) == 4)
    assert seen[3:] == ["removed"], "an empty answer lists none"
    assert set(asked) == {"1,2"}
    task.cancel()
    await asyncio.wait({task})
    await runner.cleanup()


class _Api:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.uid = 0

    async def create(self, gvr: object, obj: dict[str, Any]) -> dict[str, Any]:
        self.uid += 1
        self.calls.append(("create", obj["metadata"]["name"]))
        return {**obj, "metadata": {**obj["metadata"], "uid": f"m{self.uid}"}}

    async def delete(self, gvr: object, name: str, namespace: str, *, grace: int, preconditions: dict[str, str]) -> None:
        self.calls.append(("delete", preconditions["uid"]))

    async def get(self, gvr: object, name: str) -> dict[str, Any]:
        raise api_errors.not_found("nodes", name)


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_mirrors_follow_static_pods() -> None:
    api, resent = _Api(), cast("list[str]", [])
    mirrors = MirrorPods(cast("Client", api), FakeClock(), "node-1")
    mirrors.resend = lambda pod, held: resent.append(pod["metadata"]["name"])
    task = asyncio.ensure_future(mirrors.run())
    first = _pod()
    mirrors.static_changed(first)
    await _settle()
    assert api.calls == [("create", "web-node-1")]
    assert resent == ["web-node-1"]
    target = mirrors.reported_as(first)
    assert target is not None
    assert target["metadata"]["uid"] == "m1"

    mirrors.mirror_changed({**target, "metadata": {**target["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    await _settle()
    assert api.calls[1:] == [("delete", "m1"), ("create", "web-node-1")], "somebody deleted it: it comes back"

    second = _pod(MANIFEST.replace("80", "81"))
    mirrors.static_changed(second)
    await _settle()
    assert api.calls[3:] == [("delete", "m2"), ("create", "web-node-1")]
    mirrors.static_removed(second)
    await _settle()
    assert api.calls[5:] == [("delete", "m3")]
    task.cancel()
    await asyncio.wait({task})


def test_a_pod_of_the_api_is_reported_as_itself() -> None:
    mirrors = MirrorPods(cast("Client", _Api()), FakeClock(), "node-1")
    plain = {"metadata": {"name": "a", "namespace": "default", "uid": "1"}}
    assert mirrors.reported_as(plain) is plain
    assert mirrors.reported_as(_pod()) is None


def test_a_mirror_carries_the_hash_not_the_uid() -> None:
    static = _pod()
    made = mirror_of(static, None)
    assert "uid" not in made["metadata"]
    assert made["metadata"]["annotations"]["kubernetes.io/config.mirror"] == static["metadata"]["uid"]
