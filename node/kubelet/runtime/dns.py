"""How a pod resolves names: its ``resolv.conf``, its host name and its ``/etc/hosts``. Pure; files are read by the caller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.objects import pods

_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048
_MAX_HOSTNAME = 63
_MAX_FQDN = 64

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResolvConf:
    """The three lists of resolv.conf(5)."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def parse_resolv_conf(text: str) -> ResolvConf:
    """The last ``search`` and ``options`` lines win, as in the resolver."""
    nameservers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0][0] in "#;":
            continue
        if words[0] == "nameserver" and len(words) > 1:
            nameservers.append(words[1])
        elif words[0] == "search":
            searches = [word if word == "." else word.removesuffix(".") for word in words[1:]]
        elif words[0] == "options":
            options = words[1:]
    return ResolvConf(tuple(nameservers), tuple(searches), tuple(options))


def pod_dns(pod: Pod, host: ResolvConf, cluster_dns: Sequence[str], cluster_domain: str) -> ResolvConf:
    """What the pod's ``dnsPolicy`` and ``dnsConfig`` make of the node's and the cluster's servers."""
    spec = pods.spec_of(pod)
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "None":
        base = ResolvConf()
    elif _uses_cluster(policy, spec) and cluster_dns:
        namespace = pod["metadata"].get("namespace", "")
        own = (f"{namespace}.svc.{cluster_domain}", f"svc.{cluster_domain}", cluster_domain) if cluster_domain else ()
        base = ResolvConf(tuple(cluster_dns), _distinct((*own, *host.searches)), ("ndots:5",))
    else:
        base = host
    return _limit(_append(base, spec.get("dnsConfig") or {}))


def _uses_cluster(policy: str, spec: Mapping[str, Any]) -> bool:
    return policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.get("hostNetwork"))


def _append(base: ResolvConf, config: Mapping[str, Any]) -> ResolvConf:
    options = {option.partition(":")[0]: option for option in base.options}
    for option in config.get("options") or ():
        value = option.get("value")
        options[option["name"]] = f"{option['name']}:{value}" if value is not None else option["name"]
    return ResolvConf(
        _distinct((*base.nameservers, *(config.get("nameservers") or ()))),
        _distinct((*base.searches, *(config.get("searches") or ()))),
        tuple(options.values()),
    )


def _limit(conf: ResolvConf) -> ResolvConf:
    searches = conf.searches[:_MAX_SEARCHES]
    while len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        searches = searches[:-1]
    return ResolvConf(conf.nameservers[:_MAX_NAMESERVERS], searches, conf.options)


def _distinct(items: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def hostname_and_domain(pod: Pod, cluster_domain: str) -> tuple[str, str]:
    """The pod's host name, and its domain under its ``subdomain`` (empty without one)."""
    spec = pods.spec_of(pod)
    if override := spec.get("hostnameOverride"):
        return str(override), ""
    name = str(spec.get("hostname") or pod["metadata"]["name"])[:_MAX_HOSTNAME].rstrip("-.")
    subdomain = spec.get("subdomain")
    domain = f"{subdomain}.{pod['metadata'].get('namespace', '')}.svc.{cluster_domain}" if subdomain else ""
    return name, domain


def kernel_hostname(pod: Pod, cluster_domain: str) -> str:
    """What ``hostname`` prints inside. Raises ValueError when ``setHostnameAsFQDN`` makes it too long for the kernel."""
    name, domain = hostname_and_domain(pod, cluster_domain)
    if not (pods.spec_of(pod).get("setHostnameAsFQDN") and domain):
        return name
    full = f"{name}.{domain}"
    if len(full) > _MAX_FQDN:
        raise ValueError(
            f"Failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long "
            f"({_MAX_FQDN} characters is the max, {len(full)} characters requested)"
        )
    return full


def hosts_file(pod: Pod, ips: Sequence[str], cluster_domain: str, host_file: str) -> str:
    """The content of ``/etc/hosts``. ``host_file`` is the node's own, used by pods on the host's network."""
    spec = pods.spec_of(pod)
    if spec.get("hostNetwork"):
        text = f"# Kubernetes-managed hosts file (host network).\n{host_file}"
    else:
        name, domain = hostname_and_domain(pod, cluster_domain)
        names = f"{name}.{domain}\t{name}" if domain else name
        text = (
            "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
            "fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
        ) + "".join(f"{ip}\t{names}\n" for ip in ips)
    aliases = [f"{alias['ip']}\t" + "\t".join(alias.get("hostnames") or ()) for alias in spec.get("hostAliases") or ()]
    return text + ("\n# Entries added by HostAliases.\n" + "\n".join(aliases) + "\n" if aliases else "")
