"""ImagePolicyWebhook: another server says whether the images of a pod may be used (``imagepolicy.k8s.io/v1alpha1`` ImageReview).

Its configuration is upstream's ``imagePolicy``: kubeConfigFile, allowTTL, denyTTL (seconds that an answer counts), defaultAllow
(what a server that does not answer means). ``assembly.admission`` hands in how to ask.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from component.errors import OperatorError
from controlplane.apiserver.admission.interface import CREATE, Attributes, Object, refuse
from controlplane.apiserver.admission.plugins.base import Validating

Ask = Callable[[Object], Awaitable[Object]]
"""Sends a review and returns its status. Raises ConnectionError."""

_SUFFIX = ".image-policy.k8s.io/"
_AUDIT = "imagepolicywebhook.image-policy.k8s.io/"
_CACHE = 1024
_MOST_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    kubeconfig: str
    allow_seconds: float = 300.0
    deny_seconds: float = 30.0
    default_allow: bool = False


def policy_from(config: Mapping[str, Any]) -> ImagePolicy:
    """Raises OperatorError."""
    given = config.get("imagePolicy") or {}
    path = str(given.get("kubeConfigFile") or "")
    if not path:
        raise OperatorError("ImagePolicyWebhook needs a configuration with imagePolicy.kubeConfigFile")
    seconds = []
    for name, default in (("allowTTL", 300), ("denyTTL", 30)):
        value = given.get(name, 0) or default
        if not isinstance(value, int) or value > _MOST_SECONDS or value < -1:
            raise OperatorError(f"ImagePolicyWebhook: imagePolicy.{name} must be between -1 (off) and {_MOST_SECONDS} seconds")
        seconds.append(max(value, 0))
    return ImagePolicy(path, float(seconds[0]), float(seconds[1]), bool(given.get("defaultAllow")))


class ImagePolicyWebhook(Validating):
    name = "ImagePolicyWebhook"

    def __init__(self, policy: ImagePolicy, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy, self._ask, self._clock = policy, ask, clock
        self._held: OrderedDict[bytes, tuple[float, Object]] = OrderedDict()

    def handles(self, attributes: Attributes) -> bool:
        if attributes.resource != "pods" or attributes.kind.group:
            return False
        return attributes.subresource == "ephemeralcontainers" or (not attributes.subresource and attributes.operation == CREATE)

    async def validate(self, attributes: Attributes) -> None:
        """Images that were there before are not asked about again."""
        spec = review_of(attributes)
        if not spec["containers"]:
            return
        try:
            status = await self._answer(spec)
        except ConnectionError:
            if not self._policy.default_allow:
                raise refuse(attributes, "image policy webhook does not answer") from None
            attributes.annotations[f"{_AUDIT}failed-open"] = "true"
            return
        for key, value in (status.get("auditAnnotations") or {}).items():
            attributes.annotations[f"{_AUDIT}{key}"] = str(value)
        if not status.get("allowed"):
            reason = str(status.get("reason") or "")
            text = "image policy webhook backend denied one or more images"
            raise refuse(attributes, f"{text}: {reason}" if reason else text)

    async def _answer(self, spec: Object) -> Object:
        key = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        until, held = self._held.get(key, (0.0, {}))
        if self._clock() < until:
            return held
        review = {"apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "metadata": {}, "spec": spec}
        status = await self._ask(review)
        seconds = self._policy.allow_seconds if status.get("allowed") else self._policy.deny_seconds
        self._held[key] = (self._clock() + seconds, status)
        if len(self._held) > _CACHE:
            self._held.popitem(last=False)
        return status


def _images(pod: Object, kinds: tuple[str, ...]) -> list[str]:
    return [str(each.get("image") or "") for kind in kinds for each in (pod.get("spec") or {}).get(kind) or ()]


def review_of(attributes: Attributes) -> Object:
    """The spec of the review: images of all containers, the annotations meant for the webhook, and the namespace."""
    pod, old = attributes.obj or {}, attributes.old or {}
    kinds = ("ephemeralContainers",) if attributes.subresource else ("containers", "initContainers", "ephemeralContainers")
    before, images = (_images(each, kinds) for each in (old, pod))
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return {
        "containers": [{"image": image} for image in images if image not in before],
        "annotations": {key: value for key, value in annotations.items() if _SUFFIX in key},
        "namespace": attributes.namespace,
    }
