"""``--etcd-servers-overrides``: resources that have an etcd of their own, such as events, which are many and worth little.

Read by ``__main__``; ``assembly.storage`` opens a backend, with a watch of its own, for each set of servers. Revisions of
different etcds have nothing to do with one another, as at upstream's: a resourceVersion is only good for its own resource.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig, checked

FLAG = "--etcd-servers-overrides"
TOGETHER = ("services", "ipaddresses.networking.k8s.io")  # written in one transaction: who has an address, and that it is taken


def parse(texts: Sequence[str], config: EtcdConfig) -> Mapping[str, EtcdConfig]:
    """From ``GROUP/RESOURCE#URL;URL`` (``/events#https://10.0.0.9:2379``) to settings by resource (``events``, ``jobs.batch``).

    Keys, certificates and all else are those of ``config``. Raises ValueError for what cannot be.
    """
    found: dict[str, EtcdConfig] = {}
    for text in texts:
        place, _, servers = text.partition("#")
        group, slash, resource = place.partition("/")
        urls = tuple(url for url in servers.split(";") if url)
        if not (slash and resource and urls) or "/" in resource:
            raise ValueError(f"{FLAG}={text}: write GROUP/RESOURCE#URL;URL, for example /events#https://10.0.0.9:2379")
        name = f"{resource}.{group}".rstrip(".")
        if name in TOGETHER:
            raise ValueError(f"{FLAG}={text}: {' and '.join(TOGETHER)} are written in one transaction and stay in --etcd-servers")
        found[name] = checked(replace(config, servers=urls))
    return found
