"""The ConfigMap kube-system/kube-dns: what it may say, and what comes of it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from component.clock import FakeClock
from netproxy.dns import stubs
from netproxy.dns.config import Config
from netproxy.dns.resolvers import Resolvers
from netproxy.dns.upstream import Address
from tests.support.dns import Zone

CORP = b"\4corp\4test\0"


def read(**data: Any) -> stubs.Stubs:
    return stubs.read(
        {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}, "cluster.local"
    )


def test_domains_and_upstreams_are_read() -> None:
    found = read(
        stubDomains={"Corp.Test.": ["192.0.2.1", "192.0.2.2:5353", "[2001:db8::1]:54"], "empty.test": []},
        upstreamNameservers=["198.51.100.1"],
    )
    assert found.domains == {CORP: (Address("192.0.2.1"), Address("192.0.2.2", 5353), Address("2001:db8::1", 54))}
    assert found.upstreams == (Address("198.51.100.1"),)
    assert read() == read(stubDomains="", upstreamNameservers=" ") == stubs.Stubs()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"stubDomains": "{"}, "stubDomains: "),
        ({"stubDomains": []}, "must be a JSON map"),
        ({"stubDomains": "[" * 100_000}, "stubDomains: "),
        ({"stubDomains": {"corp_test": []}}, "invalid domain name: 'corp_test'"),
        ({"stubDomains": {"corp.test": "192.0.2.1"}}, "must be a list"),
        ({"stubDomains": {"corp.test": ["ns.corp.test"]}}, "corp.test"),
        ({"stubDomains": {"svc.cluster.local": ["192.0.2.1"]}}, "the cluster's own"),
        ({"stubDomains": {"cluster.local": ["192.0.2.1"]}}, "the cluster's own"),
        ({"upstreamNameservers": {}}, "must be a JSON list"),
        ({"upstreamNameservers": ["192.0.2.1:0"]}, "upstreamNameservers"),
        ({"upstreamNameservers": ["192.0.2.1"] * 4}, "upstreamNameservers cannot have more than three entries"),
    ],
)
def test_what_is_wrong_is_named(data: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read(**data)


async def test_the_last_good_state_counts_and_the_file_is_followed(tmp_path: Path) -> None:
    file, zone, us = tmp_path / "resolv.conf", Zone(), Address("127.0.0.1", 53)
    unused = "127.0.0.1"  # nobody answers there, which is found at once

    def asked() -> list[tuple[bytes, str]]:
        return [(domain, str(address)) for domain, address in zone.forwarder.addresses]

    settings = Config("", "node-1", resolv_conf=file)
    resolvers = Resolvers(settings, zone.forwarder, zone.responder.probes, lambda: {us}, FakeClock())
    await resolvers.look()
    assert asked() == []
    file.write_text(f"# the node's\nnameserver {us.host}\nnameserver 127.0.0.2\nnameserver nonsense\noptions ndots:1\n")
    await resolvers.look()
    assert asked() == [(b"\0", "127.0.0.2:53")]
    resolvers.configure({"data": {"stubDomains": json.dumps({"corp.test": [f"{unused}:1"]})}})
    wanted = [(b"\0", "127.0.0.2:53"), (CORP, "127.0.0.1:1")]
    assert asked() == wanted
    resolvers.configure({"data": {"stubDomains": "nonsense"}})
    assert asked() == wanted
    resolvers.configure({"data": {"upstreamNameservers": json.dumps([f"{unused}:2"])}})
    assert asked() == [(b"\0", "127.0.0.1:2")]
    resolvers.configure(None)
    file.write_text("nameserver 127.0.0.3\n")
    os.utime(file, ns=(1, 1))
    await resolvers.look()
    assert asked() == [(b"\0", "127.0.0.3:53")]
    file.unlink()
    await resolvers.look()
    assert asked() == [(b"\0", "127.0.0.3:53")]
