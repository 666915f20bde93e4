"""resolv.conf, host names and /etc/hosts of pods."""

from typing import Any

import pytest

from node.kubelet.runtime import dns
from tests.support.pod_workers import pod

HOST = dns.parse_resolv_conf("# comment\nnameserver 192.0.2.53\nsearch example.org.\noptions timeout:1\n")

SEARCHES = ("default.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org")


@pytest.mark.parametrize(
    ("spec", "cluster", "expected"),
    [
        pytest.param(
            {}, ["10.96.0.10"],
            dns.ResolvConf(("10.96.0.10",), SEARCHES, ("ndots:5",)),
            id="ClusterFirst",
        ),
        pytest.param({}, [], HOST, id="ClusterFirst without a cluster DNS"),
        pytest.param({"hostNetwork": True}, ["10.96.0.10"], HOST, id="ClusterFirst on the host's network"),
        pytest.param({"dnsPolicy": "Default"}, ["10.96.0.10"], HOST, id="Default"),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "options": [{"name": "edns0"}]}}, ["10.96.0.10"],
            dns.ResolvConf(("1.1.1.1",), (), ("edns0",)), id="None",
        ),
        pytest.param(
            {"dnsPolicy": "Default", "dnsConfig": {"searches": ["b"], "options": [{"name": "timeout", "value": "3"}]}}, [],
            dns.ResolvConf(("192.0.2.53",), ("example.org", "b"), ("timeout:3",)), id="dnsConfig is merged",
        ),
    ],
)  # fmt: skip
def test_policies(spec: dict[str, Any], cluster: list[str], expected: dns.ResolvConf) -> None:
    assert dns.pod_dns(pod(**spec), HOST, cluster, "cluster.local") == expected


def test_cluster_first_with_host_net() -> None:
    made = dns.pod_dns(pod(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"), HOST, ["10.96.0.10"], "cluster.local")
    assert made.nameservers == ("10.96.0.10",)


def test_limits() -> None:
    config = {"nameservers": [f"10.0.0.{n}" for n in range(9)], "searches": [f"s{n}.example.org" for n in range(99)]}
    made = dns.pod_dns(pod(dnsPolicy="None", dnsConfig=config), HOST, [], "")
    assert (len(made.nameservers), len(made.searches)) == (3, 32)


def test_hosts_file_of_a_pod_with_a_subdomain() -> None:
    wanted = pod(hostname="h", subdomain="sub", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a", "b"]}])
    lines = dns.hosts_file(wanted, ["10.244.0.2"], "cluster.local", "").splitlines()
    assert lines[0] == "# Kubernetes-managed hosts file."
    assert "10.244.0.2\th.sub.default.svc.cluster.local\th" in lines
    assert lines[-1] == "1.2.3.4\ta\tb"


def test_a_host_network_pod_gets_the_nodes_file() -> None:
    assert dns.hosts_file(pod(hostNetwork=True), [], "", "127.0.0.1 node\n").endswith("127.0.0.1 node\n")


def test_kernel_hostname() -> None:
    assert dns.kernel_hostname(pod("x" * 70), "cluster.local") == "x" * 63
    fqdn = pod("a", subdomain="s", setHostnameAsFQDN=True)
    assert dns.kernel_hostname(fqdn, "cluster.local") == "a.s.default.svc.cluster.local"
    with pytest.raises(ValueError, match="64 characters is the max"):
        dns.kernel_hostname(pod("a" * 40, subdomain="s", setHostnameAsFQDN=True), "cluster.local")
