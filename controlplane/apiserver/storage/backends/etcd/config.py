"""Where the etcd cluster is and how it is spoken to. Made by ``assembly.storage`` from flags, by tests by hand."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_PREFIX = "/registry"


@dataclass(frozen=True, slots=True)
class EtcdConfig:
    """``servers`` are URLs, the preferred one first. ``compact_every`` and ``lease_reuse`` in seconds; 0 never compacts."""

    servers: tuple[str, ...]
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    prefix: str = DEFAULT_PREFIX
    compact_every: float = 300.0
    lease_reuse: int = 60


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server as gRPC names it."""

    url: str
    target: str
    tls: bool


def endpoint(url: str) -> Endpoint:
    """Raises ValueError for what is no etcd URL."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise ValueError(f"{url!r} is not the URL of an etcd server; write https://HOST:2379")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Endpoint(url, f"{host}:{parts.port or 2379}", parts.scheme == "https")


def checked(config: EtcdConfig) -> EtcdConfig:
    """Raises ValueError for settings that do not fit together."""
    if not config.servers:
        raise ValueError("--storage-backend=etcd3 needs --etcd-servers=URL,...")
    endpoints = [endpoint(url) for url in config.servers]
    if (config.certificate is None) != (config.key is None):
        raise ValueError("--etcd-certfile and --etcd-keyfile go together")
    if config.ca is not None and not any(one.tls for one in endpoints):
        raise ValueError("--etcd-cafile is for https:// servers; --etcd-servers names none")
    if not config.prefix.startswith("/") or config.prefix.rstrip("/") == "":
        raise ValueError(f"--etcd-prefix={config.prefix}: write an absolute path such as {DEFAULT_PREFIX}")
    return config
