import ipaddress

import pytest

from controlplane.controllers.node_ipam import CIDRSet, RangeFullError


def test_gives_what_is_free() -> None:
    cidrs = CIDRSet(ipaddress.ip_network("10.244.0.0/22"), 24)
    cidrs.occupy(ipaddress.ip_network("10.244.1.0/24"))
    assert [str(cidrs.allocate()) for _ in range(3)] == ["10.244.0.0/24", "10.244.2.0/24", "10.244.3.0/24"]
    with pytest.raises(RangeFullError, match="no remaining CIDRs"):
        cidrs.allocate()
    cidrs.release(ipaddress.ip_network("10.244.1.0/24"))
    assert str(cidrs.allocate()) == "10.244.1.0/24"


def test_a_wider_network_takes_all_that_it_overlaps() -> None:
    cidrs = CIDRSet(ipaddress.ip_network("10.0.0.0/22"), 24)
    cidrs.occupy(ipaddress.ip_network("10.0.0.0/23"))
    cidrs.occupy(ipaddress.ip_network("192.168.0.0/16"))
    assert str(cidrs.allocate()) == "10.0.2.0/24"


def test_ipv6() -> None:
    assert str(CIDRSet(ipaddress.ip_network("fd00::/56"), 64).allocate()) == "fd00::/64"


def test_mask_must_fit() -> None:
    with pytest.raises(ValueError, match="mask size 20"):
        CIDRSet(ipaddress.ip_network("10.0.0.0/24"), 20)
