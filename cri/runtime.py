"""``RuntimeService`` of CRI v1 over gRPC. Made by the kubelet's wiring; used by ``node.kubelet.runtime`` and ``pleg``."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.api.runtime_v1_pb2_grpc import RuntimeServiceStub
from cri.channel import Channel
from cri.interface import ExecResult

_TIMEOUT = 120.0  # upstream's runtimeRequestTimeout
_SANDBOX_TIMEOUT = 2 * _TIMEOUT  # network plugins may be slow


class GrpcRuntime:
    """See ``cri.interface.RuntimeService`` for what each method promises."""

    def __init__(self, channel: Channel, timeout: float = _TIMEOUT) -> None:
        self._channel = channel
        self._stub = RuntimeServiceStub(channel.raw)  # type: ignore[no-untyped-call]
        self._timeout = timeout

    async def version(self) -> pb.VersionResponse:
        response: pb.VersionResponse = await self._channel.call(self._stub.Version, pb.VersionRequest(), self._timeout)
        return response

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        request = pb.StatusRequest(verbose=verbose)
        response: pb.StatusResponse = await self._channel.call(self._stub.Status, request, self._timeout)
        return response

    async def runtime_config(self) -> pb.RuntimeConfigResponse:
        request = pb.RuntimeConfigRequest()
        response: pb.RuntimeConfigResponse = await self._channel.call(self._stub.RuntimeConfig, request, self._timeout)
        return response

    async def update_runtime_config(self, pod_cidr: str) -> None:
        config = pb.RuntimeConfig(network_config=pb.NetworkConfig(pod_cidr=pod_cidr))
        request = pb.UpdateRuntimeConfigRequest(runtime_config=config)
        await self._channel.call(self._stub.UpdateRuntimeConfig, request, self._timeout)

    async def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> str:
        request = pb.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        response: pb.RunPodSandboxResponse = await self._channel.call(self._stub.RunPodSandbox, request, _SANDBOX_TIMEOUT)
        return response.pod_sandbox_id

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._channel.call(self._stub.StopPodSandbox, request, _SANDBOX_TIMEOUT)

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._channel.call(self._stub.RemovePodSandbox, request, self._timeout)

    async def pod_sandbox_status(self, sandbox_id: str) -> pb.PodSandboxStatus:
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id)
        response: pb.PodSandboxStatusResponse = await self._channel.call(self._stub.PodSandboxStatus, request, self._timeout)
        return response.status

    async def list_pod_sandboxes(self, selector: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]:
        request = pb.ListPodSandboxRequest(filter=selector)
        response: pb.ListPodSandboxResponse = await self._channel.call(self._stub.ListPodSandbox, request, self._timeout)
        return response.items

    async def create_container(self, sandbox_id: str, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig) -> str:
        request = pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config)
        response: pb.CreateContainerResponse = await self._channel.call(self._stub.CreateContainer, request, self._timeout)
        return response.container_id

    async def start_container(self, container_id: str) -> None:
        await self._channel.call(self._stub.StartContainer, pb.StartContainerRequest(container_id=container_id), self._timeout)

    async def stop_container(self, container_id: str, grace: int) -> None:
        request = pb.StopContainerRequest(container_id=container_id, timeout=grace)
        with suppress(errors.NotFoundError):  # containerd 1.6 knows it no more; CRI asks for success
            await self._channel.call(self._stub.StopContainer, request, self._timeout + grace)

    async def remove_container(self, container_id: str) -> None:
        await self._channel.call(self._stub.RemoveContainer, pb.RemoveContainerRequest(container_id=container_id), self._timeout)

    async def container_status(self, container_id: str) -> pb.ContainerStatus:
        request = pb.ContainerStatusRequest(container_id=container_id)
        response: pb.ContainerStatusResponse = await self._channel.call(self._stub.ContainerStatus, request, self._timeout)
        return response.status

    async def list_containers(self, selector: pb.ContainerFilter | None = None) -> Sequence[pb.Container]:
        request = pb.ListContainersRequest(filter=selector)
        response: pb.ListContainersResponse = await self._channel.call(self._stub.ListContainers, request, self._timeout)
        return response.containers

    async def update_container_resources(self, container_id: str, resources: pb.LinuxContainerResources) -> None:
        request = pb.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
        await self._channel.call(self._stub.UpdateContainerResources, request, self._timeout)

    async def reopen_container_log(self, container_id: str) -> None:
        request = pb.ReopenContainerLogRequest(container_id=container_id)
        await self._channel.call(self._stub.ReopenContainerLog, request, self._timeout)

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=int(timeout))
        limit = timeout + self._timeout if timeout else None
        response: pb.ExecSyncResponse
        try:
            response = await self._channel.call(self._stub.ExecSync, request, limit)
        except errors.RuntimeServiceError as error:
            # containerd 1.6 reports its own time limit as Unknown or DeadlineExceeded, by version.
            if "timeout" in error.details and "exceeded" in error.details:
                raise errors.DeadlineError(error.details) from None
            raise
        return ExecResult(response.exit_code, response.stdout, response.stderr)

    async def exec(self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        request = pb.ExecRequest(container_id=container_id, cmd=command, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)
        response: pb.ExecResponse = await self._channel.call(self._stub.Exec, request, self._timeout)
        return response.url

    async def attach(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        request = pb.AttachRequest(container_id=container_id, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)
        response: pb.AttachResponse = await self._channel.call(self._stub.Attach, request, self._timeout)
        return response.url

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> str:
        request = pb.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports)
        response: pb.PortForwardResponse = await self._channel.call(self._stub.PortForward, request, self._timeout)
        return response.url

    def events(self) -> AsyncIterator[pb.ContainerEventResponse]:
        return self._channel.stream(self._stub.GetContainerEvents, pb.GetEventsRequest())

    async def checkpoint_container(self, container_id: str, location: str, timeout: float) -> None:
        request = pb.CheckpointContainerRequest(container_id=container_id, location=location, timeout=int(timeout))
        await self._channel.call(self._stub.CheckpointContainer, request, None if not timeout else timeout + self._timeout)

    async def list_container_stats(self) -> Sequence[pb.ContainerStats]:
        request = pb.ListContainerStatsRequest()
        response: pb.ListContainerStatsResponse = await self._channel.call(self._stub.ListContainerStats, request, self._timeout)
        return response.stats
