import ipaddress

import pytest

from apimachinery.meta import Object
from controlplane.controllers.service_cidr import may_go


def cidr(*ranges: str) -> Object:
    return {"metadata": {"name": "c"}, "spec": {"cidrs": list(ranges)}}


BOTH = cidr("10.1.0.0/24", "fd00::/112")


@pytest.mark.parametrize(
    ("of", "others", "addresses", "wanted"),
    [
        pytest.param(cidr("10.1.0.0/24"), [], [], True, id="nobody-needs-it"),
        pytest.param(cidr("10.1.0.0/24"), [], ["10.1.0.7"], False, id="in-use"),
        pytest.param(cidr("10.1.0.0/24"), [], ["10.2.0.7", "fd00::1"], True, id="addresses-of-others"),
        pytest.param(cidr("10.1.0.0/24"), [cidr("10.1.0.0/24")], ["10.1.0.7"], True, id="the-same-once-more"),
        pytest.param(cidr("10.1.0.0/24"), [cidr("10.0.0.0/8")], ["10.1.0.7"], True, id="within-another"),
        pytest.param(cidr("10.1.0.0/24"), [cidr("10.1.0.0/29")], ["10.1.0.7"], True, id="the-address-is-within-another"),
        pytest.param(cidr("10.1.0.0/24"), [cidr("10.1.0.0/29")], ["10.1.0.9"], False, id="the-address-is-not"),
        pytest.param(BOTH, [cidr("10.0.0.0/8")], ["fd00::1"], False, id="one-family-only"),
        pytest.param(BOTH, [cidr("10.0.0.0/8", "fd00::/64")], ["10.1.0.7", "fd00::1"], True, id="both-families"),
    ],
)
def test_no_address_is_left_without_a_range(of: Object, others: list[Object], addresses: list[str], wanted: bool) -> None:
    assert may_go(of, others, map(ipaddress.ip_address, addresses)) == wanted
