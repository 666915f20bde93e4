"""Makes sure that a container's image is here before the container is created, as its pull policy says.

Called by ``runtime.containers`` for every start. A failed pull is backed off per pod and image, 10 s to 5 min.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import namespace_of, uid_of
from apimachinery.objects import pods
from component.clock import Clock
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.interface import ImageService
from node.kubelet.images.credentials import Credential, Found, for_image
from node.kubelet.images.keyring import Keyring
from node.kubelet.images.pull_records import PullRecords
from node.kubelet.images.throttle import Throttle, ThrottledError
from node.kubelet.interface import ObjectSource
from node.kubelet.recorder import PodEvents
from node.kubelet.runtime.backoff import Backoff

_REFERENCE = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?P<tag>:[\w][\w.-]{0,127})?(?P<digest>@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,})?"
)

_SOON = 1.0  # then the container shows that it waits for the next attempt, and why

Pod = Mapping[str, Any]
Container = Mapping[str, Any]


class PullError(Exception):
    """The image is not here (yet). ``reason`` is the container's waiting reason; asking again sooner than ``retry_after``
    seconds from now would bring nothing new."""

    def __init__(self, reason: str, message: str, retry_after: float = 10.0) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after


class ImagePuller:
    """One per kubelet; bounds how many pulls run at once (one, as upstream's default says)."""

    def __init__(
        self,
        images: ImageService,
        objects: ObjectSource,
        events: PodEvents,
        clock: Clock,
        *,
        parallel: int = 1,
        throttle: Throttle | None = None,
        keyring: Keyring | None = None,
        records: PullRecords | None = None,
    ) -> None:
        """``keyring`` has the node's own credentials; ``records`` know which pod may use an image that is here."""
        self._images = images
        self._objects = objects
        self._events = events
        self._clock = clock
        self._slots = asyncio.Semaphore(parallel)
        self._throttle = throttle
        self._keyring = keyring
        self._records = records
        self._backoff = Backoff(clock)
        self._failed: dict[str, tuple[float, str]] = {}

    async def ensure(self, pod: Pod, container: Container, sandbox: pb.PodSandboxConfig) -> pb.Image:
        """The image, pulled if need be. Raises PullError."""
        name, shown = str(container["name"]), str(container.get("image") or "")
        image = self._with_tag(pod, name, shown)
        policy = container.get("imagePullPolicy") or ("Always" if image.endswith(":latest") else "IfNotPresent")
        present = await self._inspect(pod, name, image)
        credentials: list[Found] | None = None
        if present is not None and policy != "Always":
            if self._may_use(image, present, ()):
                allowed = True
            else:
                credentials = await self._credentials(pod, image)
                allowed = self._may_use(image, present, credentials)
                if allowed and self._records is not None:
                    await self._records.note_use(image, present.id, credentials)
            if allowed:
                note = f'Container image "{shown}" already present on machine and can be accessed by the pod'
                self._events.normal(pod, "Pulled", note, name)
                return present
        if policy == "Never":
            message = f'Container image "{shown}" is not present with pull policy of Never'
            if present is not None:
                why = "is present with pull policy of Never but does not have the proper credentials to access the image"
                message = f'Container image "{shown}" {why}'
            self._events.warning(pod, "ErrImageNeverPull", message, name)
            raise PullError("ErrImageNeverPull", message)
        return await self._pull(pod, name, image, sandbox, credentials)

    def _may_use(self, image: str, present: pb.Image, credentials: Sequence[Found]) -> bool:
        return self._records is None or not self._records.must_pull(image, present.id, credentials)

    def _with_tag(self, pod: Pod, name: str, image: str) -> str:
        match = _REFERENCE.fullmatch(image)
        if match is None:
            message = (
                f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": invalid reference format'
            )
            self._events.warning(pod, "InspectFailed", message, name)
            raise PullError("InvalidImageName", message)
        return image if match["tag"] or match["digest"] else f"{image}:latest"

    async def _inspect(self, pod: Pod, name: str, image: str) -> pb.Image | None:
        try:
            return await self._images.image_status(image)
        except errors.RuntimeServiceError as error:
            message = f'Failed to inspect image "{image}": {error}'
            self._events.warning(pod, "InspectFailed", message, name)
            raise PullError("ImageInspectError", message) from None

    async def _pull(
        self, pod: Pod, name: str, image: str, sandbox: pb.PodSandboxConfig, credentials: Sequence[Found] | None
    ) -> pb.Image:
        key = f"{uid_of(pod)}_{image}"
        failed_at, last = self._failed.get(key, (0.0, ""))
        if (left := self._backoff.remaining(key, failed_at)) > 0:
            message = f'Back-off pulling image "{image}"'
            self._events.normal(pod, "BackOff", message, name)
            raise PullError("ImagePullBackOff", f"{message}: {last}" if last else message, left)
        waiting_since = self._clock.monotonic()
        async with self._slots:
            self._events.normal(pod, "Pulling", f'Pulling image "{image}"', name)
            began = self._clock.monotonic()
            if credentials is None:
                credentials = await self._credentials(pod, image)
            await self._intend(pod, name, image)
            try:
                used = await self._try_credentials(credentials, image, sandbox)
            except (errors.RuntimeServiceError, ThrottledError) as error:
                if self._records is not None:
                    await self._records.failed(image)
                self._backoff.next(key)
                text = said(error)
                reason, message = failure(image, text)
                self._failed[key] = (self._clock.monotonic(), f"{reason}: {message}")
                self._events.warning(pod, "Failed", f'Failed to pull image "{image}": {text}', name)
                raise PullError(reason, message, _SOON) from None
        self._backoff.reset(key)
        self._failed.pop(key, None)
        pulled = await self._inspect(pod, name, image)
        if pulled is None:
            if self._records is not None:
                await self._records.failed(image)
            raise PullError("ErrImagePull", f'image "{image}" is gone right after it was pulled')
        if self._records is not None:
            await self._records.pulled(image, pulled.id, used)
        now = self._clock.monotonic()
        note = f'Successfully pulled image "{image}" in {_shown(now - began)} ({_shown(now - waiting_since)} including waiting).'
        self._events.normal(pod, "Pulled", f"{note} Image size: {pulled.size} bytes.", name)
        return pulled

    async def _intend(self, pod: Pod, name: str, image: str) -> None:
        """Without a note that it is pulled here, an image would later pass for one that was here from the start."""
        if self._records is None:
            return
        try:
            await self._records.pulling(image)
        except OSError as error:
            message = f'Failed to record image pull intent for container image "{image}": {error}'
            self._events.warning(pod, "Failed", message, name)
            raise PullError("ErrImagePull", message) from None

    async def _credentials(self, pod: Pod, image: str) -> list[Found]:
        """Those of the pod's secrets, then those of the node, as upstream tries them."""
        found = for_image(image, await self._secrets(pod))
        return [*found, *(await self._keyring.credentials(image, pod) if self._keyring is not None else ())]

    async def _try_credentials(self, found: Sequence[Found], image: str, sandbox: pb.PodSandboxConfig) -> Found | None:
        """Every credential in turn, then the last failure; without any, anonymously. The one that was right."""
        failure: errors.RuntimeServiceError | None = None
        attempts: list[Found | None] = [*found] or [None]
        for attempt in attempts:
            if self._throttle is not None and not self._throttle.take():
                raise ThrottledError
            try:
                await self._images.pull_image(image, _auth(attempt.credential if attempt else None), sandbox)
            except errors.RuntimeServiceError as error:
                failure = error
            else:
                return attempt
        assert failure is not None
        raise failure

    async def _secrets(self, pod: Pod) -> list[Mapping[str, Any]]:
        found = []
        for reference in pods.spec_of(pod).get("imagePullSecrets") or ():
            try:
                found.append(await self._objects.secret(namespace_of(pod), str(reference.get("name") or "")))
            except StatusError:
                note = (
                    f"Unable to retrieve some image pull secrets ({reference.get('name')}); "
                    "attempting to pull the image may not succeed."
                )
                self._events.warning(pod, "FailedToRetrieveImagePullSecret", note)
        return found

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for key in [key for key in self._failed if key.startswith(f"{uid}_")]:
            del self._failed[key]
            self._backoff.reset(key)


def said(error: Exception) -> str:
    """What went wrong. That its kind is unknown is nothing that anybody wants to read, so upstream drops it, too. Pure."""
    return error.details if isinstance(error, errors.RuntimeServiceError) and error.code == "Unknown" else str(error)


_KINDS = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


def failure(image: str, text: str) -> tuple[str, str]:
    """(reason, message) of a container that waits for its image. Runtimes name two kinds of failures at the beginning of what
    they say (k8s.io/cri-api/pkg/errors). Pure."""
    for kind, why in _KINDS.items():
        if text.startswith(kind):
            return kind, f"image pull failed for {image} because {why}{text.removeprefix(kind)}"
    return "ErrImagePull", text


def _auth(credential: Credential | None) -> pb.AuthConfig | None:
    if credential is None:
        return None
    return pb.AuthConfig(
        username=credential.username,
        password=credential.password,
        identity_token=credential.identity_token,
        registry_token=credential.registry_token,
    )


def _shown(seconds: float) -> str:
    """A duration as Go prints it, to the millisecond."""
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
