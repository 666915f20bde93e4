"""Everything that a running API server was told, as one value. ``__main__`` makes it of flags, tests by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from component.dynamic_certificates import NamedPair
from component.featuregates import Gates
from component.features import DEFAULTS
from component.tls import DEFAULT_PROFILE, Profile
from controlplane.apiserver.audit.truncate import Bounds
from controlplane.apiserver.authentication.issuers import Issuer
from controlplane.apiserver.authorization.entries import AuthorizerEntry
from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig
from controlplane.apiserver.storage.forms.media import JSON

DEFAULT_ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class Serving:
    """The listener. Port 0 lets the kernel choose."""

    certificate: Path
    key: Path
    bind_address: str = "0.0.0.0"  # noqa: S104 - upstream's default; certificates and authorization guard it
    port: int = 6443
    advertise_address: str = ""  # what the kubernetes Service points at; empty: the bind address, or the default route's
    max_reads: int = 400  # with priority and fairness the sum of both is how many seats there are
    max_writes: int = 200
    request_timeout: float = 60.0
    drain_seconds: float = 10.0
    priority_and_fairness: bool = True
    endpoint_reconciler: str = "lease"  # or "none": somebody else keeps the endpoints of the kubernetes Service
    reuse_port: bool = False  # share the port with other workers
    worker: int = 0  # which of them this is
    named: tuple[NamedPair, ...] = ()  # certificates for clients that ask for a name
    tls: Profile = DEFAULT_PROFILE


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """A proxy that speaks for others; off without ``client_ca``."""

    client_ca: Path | None = None
    allowed_names: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)
    uid_headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is believed, and what they may."""

    client_ca: Path | None = None
    token_file: Path | None = None
    service_account_keys: tuple[Path, ...] = ()
    service_account_signing_key: Path | None = None
    service_account_issuers: tuple[str, ...] = (DEFAULT_ISSUER,)  # the first one signs, all are accepted
    api_audiences: tuple[str, ...] = ()  # empty: the issuers
    anonymous: bool = True
    bootstrap_tokens: bool = False
    front_proxy: FrontProxy = FrontProxy()
    authorization_modes: tuple[str, ...] = ("Node", "RBAC")
    abac_policy: Path | None = None
    jwt_issuers: tuple[Issuer, ...] = ()
    token_webhook: Path | None = None
    token_webhook_ttl: float = 120.0
    access_webhook: Path | None = None
    access_webhook_ttls: tuple[float, float] = (300.0, 30.0)  # of permissions, of refusals
    webhook_versions: tuple[str, str] = ("v1", "v1")  # of TokenReviews, of SubjectAccessReviews, that are sent
    anonymous_flag: bool = True  # what --anonymous-auth says, for a file that says nothing
    anonymous_paths: tuple[str, ...] = ()  # empty: anonymous requests are not bound to paths
    authentication_file: Path | None = None  # where issuers and anonymous paths came from, to be read again when it changes
    authorizers: tuple[AuthorizerEntry, ...] = ()  # of an AuthorizationConfiguration, instead of modes
    authorization_file: Path | None = None
    longest_token: int = 0  # seconds that service account tokens last at most; 0 for no bound
    extend_tokens: bool = True  # those in pods outlast what was asked for


@dataclass(frozen=True, slots=True)
class Kubelet:
    """How kubelets are called for logs, exec, attach and port-forward."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    address_types: tuple[str, ...] = ("InternalIP", "ExternalIP", "Hostname")


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How extension API servers are called."""

    certificate: Path | None = None  # of this server as their front proxy
    key: Path | None = None
    endpoint_routing: bool = False  # go to a Service's endpoints, not to its cluster IP
    reject_redirects: bool = True


@dataclass(frozen=True, slots=True)
class Audit:
    path: Path | None = None
    max_megabytes: int = 100
    backups: int = 3
    policy: Path | None = None  # without one: every write, its metadata
    webhook: Path | None = None  # a kubeconfig for the server that takes events
    webhook_wait: float = 30.0  # how long a batch may wait to be full
    webhook_batch: int = 400  # events in one
    webhook_buffer: int = 10_000  # events that may wait
    days: int = 0  # that rotated files are kept, 0 for no limit
    log_bounds: Bounds | None = None  # None: events are written as they are
    webhook_bounds: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """Changes to the default set of plugins, and the file with their configurations."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """``backend`` is sqlite (needs ``path``), etcd3 (needs ``etcd``) or memory."""

    backend: str = "memory"
    path: Path | None = None
    synchronous: str = "FULL"
    encryption: Path | None = None  # an EncryptionConfiguration
    encryption_reload: bool = False  # whether the file is followed while the server runs
    etcd: EtcdConfig | None = None
    overrides: Mapping[str, EtcdConfig] = field(default_factory=dict)  # resources that are in another etcd
    media_type: str = JSON  # in which objects are written; see ``storage.forms``


@dataclass(frozen=True, slots=True)
class Config:
    serving: Serving
    identity: Identity = field(default_factory=Identity)
    storage: Storage = field(default_factory=Storage)
    kubelet: Kubelet = field(default_factory=Kubelet)
    aggregation: Aggregation = Aggregation()
    audit: Audit = field(default_factory=Audit)
    admission: Admission = Admission()
    service_ranges: tuple[str, ...] = ("10.96.0.0/12",)
    node_ports: tuple[int, int] = (30000, 32767)
    event_ttl: int = 3600
    runtime_config: Mapping[str, str] = field(default_factory=dict)  # which versions are served; see ``kinds.served``
    resource_metrics: bool = False
    features: Gates = DEFAULTS
