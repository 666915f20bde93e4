"""``ImageService`` of CRI v1 over gRPC. Made by the kubelet's wiring; used by ``node.kubelet.images``."""

from collections.abc import Sequence

from cri.api import runtime_v1_pb2 as pb
from cri.api.runtime_v1_pb2_grpc import ImageServiceStub
from cri.channel import Channel

_TIMEOUT = 120.0


class GrpcImages:
    """See ``cri.interface.ImageService`` for what each method promises."""

    def __init__(self, channel: Channel, timeout: float = _TIMEOUT) -> None:
        self._channel = channel
        self._stub = ImageServiceStub(channel.raw)  # type: ignore[no-untyped-call]
        self._timeout = timeout

    async def list_images(self) -> Sequence[pb.Image]:
        response: pb.ListImagesResponse = await self._channel.call(self._stub.ListImages, pb.ListImagesRequest(), self._timeout)
        return response.images

    async def image_status(self, image: str) -> pb.Image | None:
        request = pb.ImageStatusRequest(image=pb.ImageSpec(image=image))
        response: pb.ImageStatusResponse = await self._channel.call(self._stub.ImageStatus, request, self._timeout)
        return response.image if response.HasField("image") else None

    async def pull_image(self, image: str, auth: pb.AuthConfig | None, sandbox_config: pb.PodSandboxConfig) -> str:
        request = pb.PullImageRequest(image=pb.ImageSpec(image=image), auth=auth, sandbox_config=sandbox_config)
        response: pb.PullImageResponse = await self._channel.call(self._stub.PullImage, request, None)
        return response.image_ref

    async def remove_image(self, image: str) -> None:
        request = pb.RemoveImageRequest(image=pb.ImageSpec(image=image))
        await self._channel.call(self._stub.RemoveImage, request, self._timeout)

    async def image_fs_info(self) -> Sequence[pb.FilesystemUsage]:
        response: pb.ImageFsInfoResponse = await self._channel.call(
            self._stub.ImageFsInfo, pb.ImageFsInfoRequest(), self._timeout
        )
        return response.image_filesystems
