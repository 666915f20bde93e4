"""A kubelet without pods workers: the real server of ``node.kubelet.server`` over a facade that a test fills.

Exec, attach and port-forward go to ``tests.support.streaming``. It does not imitate container states."""

import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apimachinery import errors
from apimachinery.gvk import GroupVersionResource
from component import serving
from component.clock import RealClock
from component.metrics import Registry
from node.kubelet.interface import ContainerLog, Pod
from node.kubelet.server.auth import Gate
from node.kubelet.server.routes import Server
from tests.support.streaming import running_streaming_server


@dataclass
class Runtime:
    """Answers URLs of the streaming server; the command's first word names what runs there."""

    url: str

    async def exec(self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        if command[0] == "refuse":
            return f"{self.url}/refuse"
        given = {"error": True, "stdin": stdin, "stdout": stdout, "stderr": stderr, "resize": tty}
        return f"{self.url}/exec/{command[0]}/{','.join(name for name, wanted in given.items() if wanted)}"

    async def attach(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        return await self.exec(container_id, ["cat"], stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> str:
        return f"{self.url}/portforward"


@dataclass
class Facade:
    """Fulfils ``node.kubelet.interface.KubeletFacade``."""

    streaming: Runtime
    log: Path | None = None
    node_name: str = "node-1"
    reasons: list[str] = field(default_factory=list)
    running: bool = False

    def pods(self) -> Sequence[Pod]:
        return [{"metadata": {"name": "p", "namespace": "ns"}}]

    def pod(self, namespace: str, name: str, uid: str | None = None) -> Pod:
        return self.pods()[0]

    async def container_id(self, namespace: str, pod: str, container: str, *, uid: str | None = None) -> str:
        if container == "missing":
            raise errors.not_found("pods", pod)
        return "c1"

    async def sandbox_id(self, namespace: str, pod: str, *, uid: str | None = None) -> str:
        return "s1"

    async def container_log(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> ContainerLog:
        if self.log is None:
            raise errors.bad_request(f'container "{container}" in pod "{pod}" is waiting to start: ContainerCreating')
        return ContainerLog(self.log, "c1", self.running)

    async def container_running(self, container_id: str) -> bool:
        return self.running

    def healthy(self) -> Sequence[str]:
        return self.reasons


class Reviews:
    """The API server's two reviews over dicts: tokens to users, and users that may do all."""

    def __init__(self, tokens: Mapping[str, str], allowed: set[str]) -> None:
        self.tokens, self.allowed = tokens, allowed
        self.asked: list[Mapping[str, Any]] = []

    async def create(self, gvr: GroupVersionResource, obj: Mapping[str, Any], /) -> dict[str, Any]:
        self.asked.append(obj)
        if gvr.resource == "tokenreviews":
            user = self.tokens.get(obj["spec"]["token"])
            return {"status": {"authenticated": True, "user": {"username": user}} if user else {"authenticated": False}}
        return {"status": {"allowed": obj["spec"]["user"] in self.allowed}}


@dataclass
class Running:
    url: str
    facade: Facade
    reviews: Reviews


@asynccontextmanager
async def running_kubelet(
    context: ssl.SSLContext | None = None, host: str = "127.0.0.1", client_ca: Callable[[], bytes] | None = None
) -> AsyncIterator[Running]:
    """Tokens ``good`` (may do all) and ``weak`` (may do nothing) are known, and certificates of ``client_ca``."""
    async with running_streaming_server() as runtime:
        facade = Facade(Runtime(runtime))
        reviews = Reviews({"good": "admin", "weak": "weak"}, {"admin", "kube-apiserver-kubelet-client"})
        gate = Gate(reviews, "node-1", RealClock(), client_ca)
        server = Server(facade, gate, Registry(process=False), configuration={"maxPods": 110})
        async with serving.listening(server.application(), host, 0, context, drain_seconds=1) as address:
            yield Running(address.url, facade, reviews)
