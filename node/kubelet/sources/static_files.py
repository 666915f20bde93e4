"""Static pods: manifests in a folder of this node, run without asking the API server.

``kubelet.py`` runs :class:`StaticFiles`; it feeds the pod manager like the API source does. Names, uids and annotations are
upstream's: the pod is called ``<name>-<node>``, its uid is a hash, so that an edited file is another pod.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from apimachinery.meta import key_of, uid_of
from apimachinery.times import format_time
from component import logs
from component.clock import Clock
from node.kubelet.runtime.observed import ObservedPod

SOURCE_ANNOTATION = "kubernetes.io/config.source"
HASH_ANNOTATION = "kubernetes.io/config.hash"
SEEN_ANNOTATION = "kubernetes.io/config.seen"
_SUFFIXES = (".yaml", ".yml", ".json")
_STATIC_UID = re.compile("[0-9a-f]{32}")
_log = logs.get(__name__)

Pod = dict[str, Any]


def is_static(pod: Mapping[str, Any]) -> bool:
    """The pod comes from this node, not from the API."""
    source = (pod["metadata"].get("annotations") or {}).get(SOURCE_ANNOTATION)
    return source is not None and source != "api"


def former(pod: Pod, observed: Mapping[str, ObservedPod]) -> list[str]:
    """Uids of static pods in the runtime that bear the name of ``pod`` and are others. Pure."""
    key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    named = [uid for uid, each in observed.items() if (each.namespace, each.name) == key and uid != uid_of(pod)]
    return [uid for uid in named if _STATIC_UID.fullmatch(uid)]


class StaticFiles:
    """Reads a folder (or one file) whenever something in it changed. ``update`` and ``remove`` are the pod manager's;
    ``running(uid)`` says that something of a removed pod is still there: its successor, which may want the same ports and
    directories, waits for its end. ``replaced(pod)`` is asked for the same before a pod is started for the first time: what
    its manifest said while no kubelet ran may run still."""

    def __init__(
        self,
        path: Path,
        node_name: str,
        clock: Clock,
        update: Callable[[Pod], object],
        remove: Callable[[str], object],
        running: Callable[[str], bool],
        replaced: Callable[[Pod], bool] = lambda pod: False,
        period: float = 1.0,
    ) -> None:
        self._path = path
        self._node_name = node_name
        self._clock = clock
        self._update = update
        self._remove = remove
        self._running = running
        self._replaced = replaced
        self._period = period
        self._stamp: tuple[tuple[str, int, int], ...] | None = None
        self._pods: dict[str, Pod] = {}
        self._ending: dict[str, str] = {}  # uid to key, of pods whose manifest is gone
        self._waiting: dict[str, Pod] = {}
        self.looked = asyncio.Event()
        """Set once it is known which pods there are: before that, none that runs may be taken for unwanted."""

    async def run(self) -> None:
        """Look at the files' time stamps every ``period`` seconds, until cancelled."""
        while True:
            stamp = await asyncio.to_thread(self._look)
            if stamp != self._stamp:
                self._stamp = stamp
                self._take(await asyncio.to_thread(self._read))
            self._start_waiting()
            if not self._waiting:
                self.looked.set()
            await self._clock.sleep(self._period)

    def _files(self) -> list[Path]:
        if self._path.is_dir():
            listed = sorted(entry for entry in self._path.iterdir() if not entry.name.startswith("."))
            return [entry for entry in listed if entry.is_file() and entry.suffix in _SUFFIXES]
        return [self._path] if self._path.is_file() else []

    def _look(self) -> tuple[tuple[str, int, int], ...]:
        return tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in self._files())

    def _read(self) -> dict[str, Pod]:
        found: dict[str, Pod] = {}
        for file in self._files():
            try:
                pod = static_pod(file.read_text(), file, self._node_name, format_time(self._clock.now()))
            except (OSError, ValueError) as error:
                _log.error("Cannot use a static pod's manifest", file=str(file), err=error)
                continue
            found[uid_of(pod)] = pod
        return found

    def _take(self, found: dict[str, Pod]) -> None:
        for uid in [uid for uid in self._pods if uid not in found]:
            self._ending[uid] = key_of(self._pods[uid])
            self._remove(uid)
        self._waiting = {uid: pod for uid, pod in found.items() if uid in self._waiting or uid not in self._pods}
        self._pods = found

    def _start_waiting(self) -> None:
        self._ending = {uid: key for uid, key in self._ending.items() if self._running(uid)}
        for uid, pod in list(self._waiting.items()):
            if key_of(pod) not in self._ending.values() and not self._replaced(pod):
                del self._waiting[uid]
                self._update(pod)


def static_pod(text: str, file: Path, node_name: str, seen: str) -> Pod:
    """The pod of a manifest. Raises ValueError that says what is wrong with it. Pure."""
    try:
        manifest = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None
    if not isinstance(manifest, dict) or (manifest.get("apiVersion"), manifest.get("kind")) != ("v1", "Pod"):
        raise ValueError("not a Pod of v1")
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    if not metadata.get("name") or not spec.get("containers"):
        raise ValueError("metadata.name and spec.containers are needed")
    if spec.get("serviceAccountName") or spec.get("ephemeralContainers"):
        raise ValueError("a static pod may refer to no service account and have no ephemeral containers")
    digest = hashlib.md5(f"{node_name}{file}{text}".encode(), usedforsecurity=False).hexdigest()
    own = {SOURCE_ANNOTATION: "file", HASH_ANNOTATION: digest, SEEN_ANNOTATION: seen}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": f"{metadata['name']}-{node_name}",
            "namespace": metadata.get("namespace") or "default",
            "uid": digest,
            "annotations": {**(metadata.get("annotations") or {}), **own},
        },
        "spec": {**_defaulted(spec), "nodeName": node_name},
        "status": {"phase": "Pending"},
    }


def _defaulted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The API server's defaults that matter to a kubelet; static pods never pass through it."""
    tolerations = [*(spec.get("tolerations") or ()), {"operator": "Exists", "effect": "NoExecute"}]
    made: dict[str, Any] = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **spec,
        "tolerations": tolerations,
    }
    for field in ("containers", "initContainers"):
        if spec.get(field):
            made[field] = [_defaulted_container(each, host=bool(spec.get("hostNetwork"))) for each in spec[field]]
    return made


def _defaulted_container(container: Mapping[str, Any], *, host: bool) -> dict[str, Any]:
    image = str(container.get("image") or "")
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    ports = [{"protocol": "TCP", **port} for port in container.get("ports") or ()]
    if host:
        ports = [{**port, "hostPort": port.get("hostPort") or port["containerPort"]} for port in ports]
    return {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if latest and "@" not in image else "IfNotPresent",
        "resources": {},
        **container,
        **({"ports": ports} if ports else {}),
    }
