"""The API server's flags, upstream's where upstream has them; ``assembly`` does the rest. Started as ``pybernetes apiserver``."""

import asyncio
import ipaddress
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from component import features
from component.daemon import Daemon, run
from component.dynamic_certificates import NamedPair, parse_named_pair
from component.flags import COMMA_LIST, DURATION, INPUT_FILE, KEY_VALUES, PORT, option, switch, tls_profile, tls_profile_flags
from controlplane.apiserver import workers
from controlplane.apiserver.audit.truncate import Bounds
from controlplane.apiserver.authentication import configuration as authentication_configuration
from controlplane.apiserver.authentication.issuers import Issuer, checked, default_prefix
from controlplane.apiserver.authorization import configuration as authorization_configuration
from controlplane.apiserver.config import (
    DEFAULT_ISSUER,
    Admission,
    Aggregation,
    Audit,
    Config,
    FrontProxy,
    Identity,
    Kubelet,
    Serving,
    Storage,
)
from controlplane.apiserver.storage.backends.etcd.config import DEFAULT_PREFIX, EtcdConfig
from controlplane.apiserver.storage.backends.etcd.config import checked as checked_etcd
from controlplane.apiserver.storage.backends.etcd.overrides import parse as overrides
from controlplane.apiserver.storage.forms.media import JSON, MEDIA_TYPES

AUTHORIZATION_MODES = ("Node", "RBAC", "ABAC", "Webhook", "AlwaysAllow", "AlwaysDeny")
_FILE = click.Path(path_type=Path, dir_okay=False)


def _accepted(name: str, **attributes: Any) -> click.Option:
    """A flag of upstream's that changes nothing here, taken so that existing manifests start."""
    return option(name, hidden=True, **attributes)


def _truncation(backend: str) -> list[click.Option]:
    where = f"--audit-{backend}-truncate"
    return [
        switch(f"{where}-enabled", False, "Leave out bodies of audit events that are too large, and such events if need be."),
        option(f"{where}-max-event-size", type=click.IntRange(min=1), default=100 << 10, help="Bytes of one event."),
        option(f"{where}-max-batch-size", type=click.IntRange(min=1), default=10 << 20, help="Bytes of events sent together."),
    ]


PARAMS: list[click.Parameter] = [
    option("--secure-port", type=PORT, default=6443, help="The port on which to serve HTTPS; 0 lets the kernel choose."),
    option("--bind-address", default="0.0.0.0", help="The address on which to listen."),  # noqa: S104
    option("--advertise-address", default="", help="The address that members of the cluster reach this server at."),
    option("--tls-cert-file", type=INPUT_FILE, help="Certificate for HTTPS."),
    option("--tls-private-key-file", type=INPUT_FILE, help="Private key of --tls-cert-file."),
    option("--tls-sni-cert-key", multiple=True, help="CERT,KEY or CERT,KEY:NAME,*.NAME: for clients that ask for these names."),
    *tls_profile_flags(),
    option("--client-ca-file", type=INPUT_FILE, help="CAs whose client certificates are believed: CN is the user, O the groups."),
    option("--token-auth-file", type=INPUT_FILE, help='CSV of static bearer tokens: token,user,uid,"group1,group2".'),
    option("--authentication-config", type=INPUT_FILE, help="AuthenticationConfiguration, read again when it changes."),
    option("--oidc-issuer-url", default="", help="An OpenID provider whose ID tokens are believed."),
    option("--oidc-client-id", default="", help="The audience that its tokens must name."),
    option("--oidc-ca-file", type=INPUT_FILE, help="CA of the provider; the system's when not given."),
    option("--oidc-username-claim", default="sub", help="The claim that names the user."),
    option("--oidc-username-prefix", default="", help="Put before usernames; - for nothing, the issuer's URL by default."),
    option("--oidc-groups-claim", default="", help="The claim that names groups."),
    option("--oidc-groups-prefix", default="", help="Put before groups."),
    option("--oidc-required-claim", type=KEY_VALUES, default="", help="Claims that tokens must have, with their values."),
    option("--oidc-signing-algs", type=COMMA_LIST, default="RS256", help="Algorithms that may sign its tokens."),
    switch("--anonymous-auth", True, "Let requests without credentials in as system:anonymous."),
    option("--service-account-key-file", type=INPUT_FILE, multiple=True, help="Keys that verify service account tokens."),
    option("--service-account-signing-key-file", type=INPUT_FILE, help="Key that signs service account tokens."),
    option("--service-account-issuer", multiple=True, default=(DEFAULT_ISSUER,), help="Issuer of tokens; the first one signs."),
    option("--service-account-max-token-expiration", type=DURATION, default="0s", help="How long tokens last at most; 0: any."),
    switch("--service-account-extend-token-expiration", True, "Let tokens in pods outlast what was asked for."),
    option("--api-audiences", type=COMMA_LIST, default="", help="Audiences of this API; the issuers when not given."),
    option("--service-cluster-ip-range", type=COMMA_LIST, default="10.96.0.0/12", help="CIDRs for cluster IPs."),
    option("--service-node-port-range", default="30000-32767", help="Ports for NodePort services, both ends included."),
    option("--kubelet-client-certificate", type=INPUT_FILE, help="Client certificate shown to kubelets."),
    option("--kubelet-client-key", type=INPUT_FILE, help="Key of --kubelet-client-certificate."),
    option("--kubelet-certificate-authority", type=INPUT_FILE, help="CA that kubelets' serving certificates must come from."),
    option(
        "--kubelet-preferred-address-types",
        type=COMMA_LIST,
        default="InternalIP,ExternalIP,Hostname",
        help="Which of a node's addresses to use for calling its kubelet, best first.",
    ),
    option("--audit-log-path", type=_FILE, help="Append an audit event for every write to this file."),
    option("--audit-log-maxsize", type=int, default=100, help="Megabytes after which the audit log is rotated."),
    option("--audit-log-maxbackup", type=int, default=3, help="Rotated audit logs to keep."),
    option("--audit-log-maxage", type=click.IntRange(min=0), default=0, help="Days to keep rotated audit logs; 0 for no limit."),
    *_truncation("log"),
    option("--audit-policy-file", type=INPUT_FILE, help="What is kept of which requests; without it, metadata of writes."),
    option("--audit-webhook-config-file", type=INPUT_FILE, help="Kubeconfig of a server to send audit events to."),
    option("--audit-webhook-batch-max-wait", type=DURATION, default="30s", help="How long events wait for more to go with."),
    option("--audit-webhook-batch-max-size", type=click.IntRange(min=1), default=400, help="Events sent together at most."),
    option("--audit-webhook-batch-buffer-size", type=click.IntRange(min=1), default=10_000, help="Events that may wait."),
    *_truncation("webhook"),
    option("--authorization-mode", type=COMMA_LIST, default="", help="Authorizers, in order [Node,RBAC]."),
    option("--authorization-config", type=INPUT_FILE, help="AuthorizationConfiguration, read again when it changes."),
    option("--authorization-policy-file", type=INPUT_FILE, help="ABAC policies, one JSON object a line."),
    option("--authorization-webhook-config-file", type=INPUT_FILE, help="Kubeconfig of the server for mode Webhook."),
    option("--authorization-webhook-cache-authorized-ttl", type=DURATION, default="5m", help="How long it is believed."),
    option("--authorization-webhook-cache-unauthorized-ttl", type=DURATION, default="30s", help="The same for refusals."),
    option("--authentication-token-webhook-config-file", type=INPUT_FILE, help="Kubeconfig of a server that reviews tokens."),
    option("--authorization-webhook-version", type=click.Choice(("v1beta1", "v1")), default="v1beta1", help="Of its reviews."),
    option("--authentication-token-webhook-version", type=click.Choice(("v1beta1", "v1")), default="v1beta1", help="As above."),
    option("--authentication-token-webhook-cache-ttl", type=DURATION, default="2m", help="How long its word counts."),
    switch("--enable-priority-and-fairness", True, "Let FlowSchemas and PriorityLevelConfigurations decide whose turn it is."),
    option(
        "--max-requests-inflight",
        type=click.IntRange(min=0),
        default=400,
        help="Together with the next flag the seats that priority levels share; without priority and fairness, reads at once.",
    ),
    option(
        "--max-mutating-requests-inflight",
        type=click.IntRange(min=0),
        default=200,
        help="See --max-requests-inflight; without priority and fairness, writes at once; 0 for no bound.",
    ),
    option("--request-timeout", type=DURATION, default="1m", help="How long a request other than a watch may take."),
    option("--event-ttl", type=DURATION, default="1h", help="How long events are kept."),
    option(
        "--enable-resource-metrics",
        is_flag=False,
        flag_value="true",
        type=click.BOOL,
        default=False,
        help="Serve metrics.k8s.io from the kubelets' own figures, for kubectl top and autoscalers; no metrics server is needed.",
    ),
    option("--runtime-config", type=KEY_VALUES, default="", help="What to serve: group/version=true or false, api/beta=true..."),
    option(
        "--storage-backend",
        type=click.Choice(["sqlite", "etcd3", "memory"]),
        help="Where objects are kept; etcd3 when --etcd-servers is given, else sqlite.",
    ),
    option("--etcd-servers", type=COMMA_LIST, default="", help="URLs of the etcd cluster's members, the preferred one first."),
    option(
        "--etcd-servers-overrides",
        type=COMMA_LIST,
        default="",
        help="Resources that have an etcd of their own, group/resource#URL;URL each, as /events#https://10.0.0.9:2379.",
    ),
    option("--etcd-cafile", type=INPUT_FILE, help="CA of the members' certificates."),
    option("--etcd-certfile", type=INPUT_FILE, help="Client certificate shown to etcd."),
    option("--etcd-keyfile", type=INPUT_FILE, help="Key of --etcd-certfile."),
    option("--etcd-prefix", default=DEFAULT_PREFIX, help="What all keys in etcd begin with."),
    option("--etcd-compaction-interval", type=DURATION, default="5m", help="How often old revisions are forgotten; 0 for never."),
    _accepted("--etcd-healthcheck-timeout", default="2s"),
    _accepted("--etcd-readycheck-timeout", default="2s"),
    _accepted("--etcd-count-metric-poll-period", default="1m"),
    _accepted("--etcd-db-metric-poll-interval", default="30s"),
    option(
        "--storage-media-type",
        type=click.Choice(MEDIA_TYPES),
        default=JSON,
        help="How objects are written; what is there is read in either form, and written anew when it changes.",
    ),
    option("--lease-reuse-duration-seconds", type=int, default=60, help="How long keys that expire share one etcd lease."),
    option("--storage-path", type=_FILE, help="The database file of --storage-backend=sqlite."),
    option(
        "--encryption-provider-config", type=INPUT_FILE, help="EncryptionConfiguration: what is encrypted in storage, and how."
    ),
    switch("--encryption-provider-config-automatic-reload", False, "Take changes of --encryption-provider-config while running."),
    option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where files go that no other flag names."),
    features.flag(),
    option("--enable-admission-plugins", type=COMMA_LIST, default="", help="Admission plugins to run beside the default ones."),
    option("--disable-admission-plugins", type=COMMA_LIST, default="", help="Default admission plugins to leave out."),
    option("--admission-control-config-file", type=INPUT_FILE, help="AdmissionConfiguration with settings of plugins."),
    _accepted("--allow-privileged", default="true"),
    switch("--enable-bootstrap-token-auth", False, "Believe bootstrap tokens kept as Secrets in kube-system."),
    option("--requestheader-client-ca-file", type=INPUT_FILE, help="CA of front proxies that speak for others by headers."),
    option("--requestheader-allowed-names", type=COMMA_LIST, default="", help="Common names of such proxies; empty for all."),
    option("--requestheader-username-headers", type=COMMA_LIST, default="X-Remote-User", help="Headers with the user."),
    option("--requestheader-uid-headers", type=COMMA_LIST, default="", help="Headers with the user's uid; none when not given."),
    option("--requestheader-group-headers", type=COMMA_LIST, default="X-Remote-Group", help="Headers with groups."),
    option(
        "--requestheader-extra-headers-prefix", type=COMMA_LIST, default="X-Remote-Extra-", help="Prefixes of further headers."
    ),
    option("--proxy-client-cert-file", type=INPUT_FILE, help="Certificate shown to extension API servers, as their front proxy."),
    option("--proxy-client-key-file", type=INPUT_FILE, help="Key of --proxy-client-cert-file."),
    switch("--enable-aggregator-routing", False, "Call extension API servers by the endpoints of their Services."),
    switch("--aggregator-reject-forwarding-redirect", True, "Do not let extension API servers redirect clients."),
    _accepted("--profiling", default="false"),
    _accepted("--contention-profiling", default="false"),
    _accepted("--goaway-chance", default="0"),
    _accepted("--http2-max-streams-per-connection", default="0"),
    _accepted("--default-watch-cache-size", default="100"),
    option(
        "--endpoint-reconciler-type",
        type=click.Choice(["lease", "none"]),
        default="lease",
        help="Who keeps the endpoints of the kubernetes Service: the servers, by leases, or nobody.",
    ),
    option(
        "--workers",
        type=click.IntRange(1, 64),
        default=1,
        help="Processes that share the port, each with its own cache; more than one needs etcd.",
    ),
]


def config_from(options: Mapping[str, Any]) -> Config:
    """Raises click.UsageError for flags that are missing or do not fit together."""
    _check_values(options)
    for name in ("tls_cert_file", "tls_private_key_file"):
        if not options.get(name):
            raise click.UsageError(f"--{name.replace('_', '-')} is needed: HTTPS is all that is served")
    if options["workers"] > 1:
        _check_workers(options)
    return Config(
        _serving(options),
        _identity(options),
        storage_from(options),
        Kubelet(
            options["kubelet_client_certificate"],
            options["kubelet_client_key"],
            options["kubelet_certificate_authority"],
            options["kubelet_preferred_address_types"],
        ),
        _aggregation(options),
        _audit(options),
        _admission(options),
        options["service_cluster_ip_range"] or ("10.96.0.0/12",),
        port_range(options["service_node_port_range"]),
        int(options["event_ttl"]),
        options["runtime_config"],
        options["enable_resource_metrics"],
        options["feature_gates"],
    )


def _check_workers(options: Mapping[str, Any]) -> None:
    if storage_from(options).backend != "etcd3":
        raise click.UsageError("--workers: several processes need a store that they can share; give --etcd-servers")
    if options["secure_port"] == 0:
        raise click.UsageError("--workers: give --secure-port, for all of them to share")


def storage_from(options: Mapping[str, Any]) -> Storage:
    """Raises click.UsageError for flags that do not fit together."""
    backend = options["storage_backend"] or ("etcd3" if options["etcd_servers"] else "sqlite")
    common = {
        "encryption": options["encryption_provider_config"],
        "encryption_reload": options["encryption_provider_config_automatic_reload"],
        "media_type": options["storage_media_type"],
    }
    if backend == "etcd3":
        made = EtcdConfig(
            options["etcd_servers"],
            options["etcd_cafile"],
            options["etcd_certfile"],
            options["etcd_keyfile"],
            options["etcd_prefix"],
            options["etcd_compaction_interval"],
            options["lease_reuse_duration_seconds"],
        )
        try:
            return Storage(
                backend, etcd=checked_etcd(made), overrides=overrides(options["etcd_servers_overrides"], made), **common
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if options["etcd_servers_overrides"]:
        raise click.UsageError("--etcd-servers-overrides are for servers that keep everything else in --etcd-servers")
    path = options["storage_path"]
    if backend == "sqlite" and path is None:
        if options["data_dir"] is None:
            raise click.UsageError("--storage-backend=sqlite needs --storage-path=FILE or --data-dir=FOLDER")
        path = options["data_dir"] / "kubernetes.db"
    return Storage(backend, path, **common)


def _aggregation(options: Mapping[str, Any]) -> Aggregation:
    certificate, key = options["proxy_client_cert_file"], options["proxy_client_key_file"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--proxy-client-cert-file and --proxy-client-key-file go together")
    return Aggregation(certificate, key, options["enable_aggregator_routing"], options["aggregator_reject_forwarding_redirect"])


def _audit(options: Mapping[str, Any]) -> Audit:
    path = options["audit_log_path"]
    if path is not None and (worker := workers.number()):
        path = path.with_name(f"{path.stem}-{worker}{path.suffix}")  # each rotates a file of its own
    return Audit(
        path,
        options["audit_log_maxsize"],
        options["audit_log_maxbackup"],
        options["audit_policy_file"],
        options["audit_webhook_config_file"],
        options["audit_webhook_batch_max_wait"],
        options["audit_webhook_batch_max_size"],
        options["audit_webhook_batch_buffer_size"],
        options["audit_log_maxage"],
        _bounds(options, "log"),
        _bounds(options, "webhook"),
    )


def _bounds(options: Mapping[str, Any], backend: str) -> Bounds | None:
    where = f"audit_{backend}_truncate"
    event, batch = options[f"{where}_max_event_size"], options[f"{where}_max_batch_size"]
    if event > batch:
        flags = f"--audit-{backend}-truncate-max-event-size"
        raise click.UsageError(f"{flags} is {event}: it cannot be more than --audit-{backend}-truncate-max-batch-size, {batch}")
    return Bounds(event, batch) if options[f"{where}_enabled"] else None


def _admission(options: Mapping[str, Any]) -> Admission:
    names = (options["enable_admission_plugins"], options["disable_admission_plugins"])
    return Admission(*names, options["admission_control_config_file"])


def _check_values(options: Mapping[str, Any]) -> None:
    seats = options["max_requests_inflight"] + options["max_mutating_requests_inflight"]
    if options["enable_priority_and_fairness"] and seats <= 0:
        text = "--max-requests-inflight and --max-mutating-requests-inflight: together they must be positive"
        raise click.UsageError(f"{text} with --enable-priority-and-fairness")
    ranges = options["service_cluster_ip_range"]
    for text in ranges:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise click.UsageError(f"--service-cluster-ip-range: {error}; write a range such as 10.96.0.0/12") from None
    families = [ipaddress.ip_network(text).version for text in ranges]
    if len(set(families)) != len(families):
        raise click.UsageError("--service-cluster-ip-range: give one range, or one of IPv4 and one of IPv6")
    for mode in options["authorization_mode"]:
        if mode not in AUTHORIZATION_MODES:
            raise click.UsageError(f"--authorization-mode: {mode!r} is none of {', '.join(AUTHORIZATION_MODES)}")
    if ("ABAC" in options["authorization_mode"]) != bool(options["authorization_policy_file"]):
        raise click.UsageError("--authorization-mode=ABAC and --authorization-policy-file=FILE go together")
    if ("Webhook" in options["authorization_mode"]) != bool(options["authorization_webhook_config_file"]):
        raise click.UsageError("--authorization-mode=Webhook and --authorization-webhook-config-file=FILE go together")
    if options["advertise_address"]:
        try:
            ipaddress.ip_address(options["advertise_address"])
        except ValueError as error:
            raise click.UsageError(f"--advertise-address: {error}") from None


def _serving(options: Mapping[str, Any]) -> Serving:
    return Serving(
        options["tls_cert_file"],
        options["tls_private_key_file"],
        options["bind_address"],
        options["secure_port"],
        options["advertise_address"],
        options["max_requests_inflight"],
        options["max_mutating_requests_inflight"],
        options["request_timeout"],
        priority_and_fairness=options["enable_priority_and_fairness"],
        endpoint_reconciler=options["endpoint_reconciler_type"],
        reuse_port=options["workers"] > 1,
        worker=workers.number() or 0,
        named=tuple(_named_pair(text) for text in options["tls_sni_cert_key"]),
        tls=tls_profile(options),
    )


def _named_pair(text: str) -> NamedPair:
    try:
        return parse_named_pair(text)
    except ValueError as error:
        raise click.UsageError(f"--tls-sni-cert-key={text}: {error}") from None


def _identity(options: Mapping[str, Any]) -> Identity:
    made = Identity(
        options["client_ca_file"],
        options["token_auth_file"],
        tuple(options["service_account_key_file"]),
        options["service_account_signing_key_file"],
        tuple(options["service_account_issuer"]) or (DEFAULT_ISSUER,),
        options["api_audiences"],
        options["anonymous_auth"],
        options["enable_bootstrap_token_auth"],
        FrontProxy(
            options["requestheader_client_ca_file"],
            options["requestheader_allowed_names"],
            options["requestheader_username_headers"],
            options["requestheader_group_headers"],
            options["requestheader_extra_headers_prefix"],
            options["requestheader_uid_headers"],
        ),
        options["authorization_mode"] or ("Node", "RBAC"),
        options["authorization_policy_file"],
        _issuers(options),
        options["authentication_token_webhook_config_file"],
        options["authentication_token_webhook_cache_ttl"],
        options["authorization_webhook_config_file"],
        (options["authorization_webhook_cache_authorized_ttl"], options["authorization_webhook_cache_unauthorized_ttl"]),
        (options["authentication_token_webhook_version"], options["authorization_webhook_version"]),
        options["anonymous_auth"],
    )
    longest = int(options["service_account_max_token_expiration"])
    if longest and not 3600 <= longest <= 1 << 32:
        raise click.UsageError("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
    made = replace(made, longest_token=longest, extend_tokens=options["service_account_extend_token_expiration"])
    return _with_authorization_file(_with_authentication_file(made, options), options)


def _with_authentication_file(made: Identity, options: Mapping[str, Any]) -> Identity:
    path = options["authentication_config"]
    if path is None:
        return made
    if options["oidc_issuer_url"]:
        raise click.UsageError("--authentication-config and --oidc-issuer-url exclude each other")
    found = authentication_configuration.read(path.read_bytes(), made.service_account_issuers)
    return replace(
        made,
        jwt_issuers=found.issuers,
        anonymous=made.anonymous_flag if found.anonymous is None else found.anonymous,
        anonymous_paths=found.paths,
        authentication_file=path,
    )


def _with_authorization_file(made: Identity, options: Mapping[str, Any]) -> Identity:
    path = options["authorization_config"]
    if path is None:
        return made
    if options["authorization_mode"] or options["authorization_webhook_config_file"]:
        raise click.UsageError("--authorization-config excludes --authorization-mode and --authorization-webhook-* flags")
    found = authorization_configuration.read(path.read_bytes())
    return replace(made, authorizers=found, authorization_file=path)


def _issuers(options: Mapping[str, Any]) -> tuple[Issuer, ...]:
    url, claim, authority = options["oidc_issuer_url"], options["oidc_username_claim"], options["oidc_ca_file"]
    if not url:
        return ()
    made = Issuer(
        url,
        tuple(filter(None, [options["oidc_client_id"]])),
        claim,
        default_prefix(url, claim, options["oidc_username_prefix"]),
        options["oidc_groups_claim"],
        options["oidc_groups_prefix"],
        "",
        options["oidc_required_claim"],
        options["oidc_signing_algs"],
        authority.read_text() if authority is not None else "",
    )
    return (checked(made, "--oidc-issuer-url"),)


def port_range(text: str) -> tuple[int, int]:
    """``30000-32767``, or ``30000+2767`` as upstream also writes it. Raises click.UsageError."""
    match = re.fullmatch(r"(\d+)([-+])(\d+)", text.strip())
    if match:
        low, high = int(match[1]), int(match[3]) + (int(match[1]) if match[2] == "+" else 0)
        if 0 < low <= high <= 65535:
            return low, high
    raise click.UsageError(f"--service-node-port-range={text}: write two ports, such as 30000-32767")


async def main(options: Mapping[str, Any]) -> None:
    """Serve until cancelled."""
    config = config_from(options)
    from controlplane.apiserver.assembly.server import running  # the heavy imports, after the flags are known to be good
    from controlplane.apiserver.kinds import catalog, served
    from controlplane.apiserver.kinds.config import KindsConfig

    try:
        served.select(catalog.strategies(KindsConfig()), config.runtime_config, config.features)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if options["workers"] > 1 and workers.number() is None:
        if "together" in sys.orig_argv:
            raise click.UsageError("--workers: an API server that shares its process with other daemons has one")
        await workers.keep(options["workers"])
        return
    if workers.number() is not None:
        workers.die_with_parent()
    async with running(config):
        await asyncio.Event().wait()


DAEMON = Daemon("apiserver", "The Kubernetes API server.", PARAMS, main)

if __name__ == "__main__":
    run(DAEMON)
