"""The answer to a request that there is no room for. Raised by ``in_flight`` and ``priority_and_fairness``, sent by ``chain``."""

from controlplane.apiserver.wire.reply import TEXT, Reply

_BODY = b"Too many requests, please try again later.\n"


class TooManyRequests(Exception):  # noqa: N818 - an answer more than a failure
    """Upstream answers in plain text here, and clients word it themselves."""

    def __init__(self, retry_after: int = 1) -> None:
        super().__init__("too many requests")
        self.retry_after = retry_after

    def reply(self) -> Reply:
        headers = [("Retry-After", str(self.retry_after)), ("X-Content-Type-Options", "nosniff")]
        return Reply(429, _BODY, TEXT, headers)
