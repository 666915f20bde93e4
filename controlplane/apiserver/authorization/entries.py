"""One entry of an AuthorizationConfiguration, as a value: ``configuration`` reads it, ``assembly.authorizers`` makes it real."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WebhookEntry:
    """``kubeconfig`` is None for the cluster that the server itself runs in. ``ttls`` are those of permissions and refusals."""

    kubeconfig: Path | None
    timeout: float
    denies_on_failure: bool
    ttls: tuple[float, float] = (300.0, 30.0)
    version: str = "v1"
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorizerEntry:
    type: str
    name: str
    webhook: WebhookEntry | None = None
