"""Why an image could not be pulled, in upstream's words."""

import pytest

from cri.errors import RuntimeServiceError
from node.kubelet.images.pull import failure, said
from node.kubelet.images.throttle import ThrottledError


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        (RuntimeServiceError("no such host", "Unknown"), "ErrImagePull", "no such host"),
        (RuntimeServiceError("not found", "NotFound"), "ErrImagePull", "rpc error: code = NotFound desc = not found"),
        (ThrottledError(), "ErrImagePull", "pull QPS exceeded"),
        (
            RuntimeServiceError("RegistryUnavailable: try later", "Unknown"),
            "RegistryUnavailable",
            "image pull failed for a:1 because the registry is unavailable: try later",
        ),
        (
            RuntimeServiceError("SignatureValidationFailed", "Unknown"),
            "SignatureValidationFailed",
            "image pull failed for a:1 because the signature validation failed",
        ),
    ],
)
def test_failures(error: Exception, reason: str, message: str) -> None:
    assert failure("a:1", said(error)) == (reason, message)
