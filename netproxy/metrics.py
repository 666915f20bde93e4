"""The proxy's metrics, under upstream's names, in one place. Made by ``__main__``, used by ``proxier``."""

from component.metrics import Registry

# Upstream's buckets: 0.25 and 0.5, every second up to a minute, then coarser to five minutes.
_PROGRAMMING = (0.25, 0.5, *map(float, range(1, 60)), *map(float, range(60, 120, 5)), *map(float, range(120, 310, 10)))


class ProxyMetrics:
    """One attribute per metric; those of the other mode are not exposed."""

    def __init__(self, registry: Registry, mode: str = "iptables") -> None:
        family = ("ip_family",)
        self.mode = mode
        p = "kubeproxy_"
        self.sync = registry.histogram(f"{p}sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds", family)
        self.full_sync = registry.histogram(
            f"{p}sync_full_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for full resyncs", family
        )
        self.partial_sync = registry.histogram(
            f"{p}sync_partial_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for partial resyncs", family
        )
        self.programming = registry.histogram(
            f"{p}network_programming_duration_seconds",
            "In Cluster Network Programming Latency in seconds",
            family,
            buckets=_PROGRAMMING,
        )
        self.last_queued = registry.gauge(
            f"{p}sync_proxy_rules_last_queued_timestamp_seconds", "The last time a sync of proxy rules was queued", family
        )
        self.last_sync = registry.gauge(
            f"{p}sync_proxy_rules_last_timestamp_seconds", "The last time proxy rules were successfully synced", family
        )
        self.endpoint_changes_pending = registry.gauge(
            f"{p}sync_proxy_rules_endpoint_changes_pending", "Pending proxy rules Endpoint changes", family
        )
        self.endpoint_changes = registry.counter(
            f"{p}sync_proxy_rules_endpoint_changes", "Cumulative proxy rules Endpoint changes", family
        )
        self.service_changes_pending = registry.gauge(
            f"{p}sync_proxy_rules_service_changes_pending", "Pending proxy rules Service changes", family
        )
        self.service_changes = registry.counter(
            f"{p}sync_proxy_rules_service_changes", "Cumulative proxy rules Service changes", family
        )
        if mode == "nftables":
            self.failures = registry.counter(
                f"{p}sync_proxy_rules_nftables_sync_failures", "Cumulative proxy nftables sync failures", family
            )
            self.cleanup_failures = registry.counter(
                f"{p}sync_proxy_rules_nftables_cleanup_failures", "Cumulative proxy nftables cleanup failures", family
            )
        else:
            self.failures = registry.counter(
                f"{p}sync_proxy_rules_iptables_restore_failures", "Cumulative proxy iptables restore failures", family
            )
        if mode == "iptables":
            self.rules = registry.gauge(
                f"{p}sync_proxy_rules_iptables_total", "Total number of iptables rules owned by kube-proxy", ("table", *family)
            )
            self.partial_failures = registry.counter(
                f"{p}sync_proxy_rules_iptables_partial_restore_failures",
                "Cumulative proxy iptables partial restore failures",
                family,
            )
        self.no_local = registry.gauge(
            f"{p}sync_proxy_rules_no_local_endpoints",
            "Number of services with a Local traffic policy and no endpoints",
            ("traffic_policy", *family),
        )
        self.conntrack = registry.histogram(
            f"{p}conntrack_reconciler_sync_duration_seconds", "ReconcileConntrackFlowsLatency latency in seconds", family
        )
        self.conntrack_deleted = registry.counter(
            f"{p}conntrack_reconciler_deleted_entries", "Cumulative conntrack flows deleted by conntrack reconciler", family
        )
        self.healthz = registry.counter("proxy_healthz", "Cumulative proxy healthz HTTP status", ("code",))
        self.livez = registry.counter("proxy_livez", "Cumulative proxy livez HTTP status", ("code",))
