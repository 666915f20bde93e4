"""Addresses, networks and URLs in expressions: upstream's examples and refusals."""

from typing import Any

import pytest

from tests.unit.apimachinery.cel.library.expressions import does_not_compile, fails, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("isIP('127.0.0.1') && isIP('::1') && isIP('2001:db8::abcd')", True),
        ("isIP('127.0.0.256') || isIP(':::1') || isIP('') || isIP('1.2.3') || isIP('01.2.3.4')", False),
        ("isIP('fe80::1%eth0') || isIP('::ffff:1.2.3.4') || isIP('1.2.3.4/8')", False),
        ("ip.isCanonical('127.0.0.1') && ip.isCanonical('2001:db8::abcd')", True),
        ("ip.isCanonical('2001:DB8::ABCD') || ip.isCanonical('2001:db8::0:0:0:abcd')", False),
        ("ip('2001:DB8::ABCD') == ip('2001:db8::abcd')", True),
        ("ip('127.0.0.1').family() * 10 + ip('::1').family()", 46),
        ("ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified() && !ip('::1').isUnspecified()", True),
        ("ip('127.3.2.1').isLoopback() && ip('::1').isLoopback() && !ip('192.168.0.1').isLoopback()", True),
        ("ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()", True),
        ("ip('224.0.1.1').isLinkLocalMulticast() || ip('fd00::1').isLinkLocalMulticast()", False),
        ("ip('169.254.169.254').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()", True),
        ("ip('192.168.0.1').isLinkLocalUnicast() || ip('fd80::1').isLinkLocalUnicast()", False),
        ("ip('192.168.0.1').isGlobalUnicast() && ip('2001:db8::abcd').isGlobalUnicast()", True),
        ("ip('255.255.255.255').isGlobalUnicast() || ip('ff00::1').isGlobalUnicast()", False),
        ("string(ip('2001:DB8::1'))", "2001:db8::1"),
        ("isCIDR('192.168.0.0/16') && isCIDR('::1/128') && isCIDR('192.168.0.1/24')", True),
        ("isCIDR('192.168.0.0/33') || isCIDR('::1/129') || isCIDR('1.2.3.4') || isCIDR('1.2.3.0/255.255.255.0')", False),
        ("isCIDR('1.2.3.0/08') || isCIDR('::ffff:1.2.3.4/24')", False),
        ("cidr('192.168.0.0/24').containsIP('192.168.0.1') && cidr('192.168.0.0/24').containsIP(ip('192.168.0.9'))", True),
        ("cidr('192.168.0.0/24').containsIP('192.168.1.1') || cidr('192.168.0.0/24').containsIP('::1')", False),
        ("cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24')) && cidr('10.0.0.0/8').containsCIDR('10.0.0.0/8')", True),
        ("cidr('192.168.1.0/24').containsCIDR('192.168.2.0/24') || cidr('10.0.0.0/8').containsCIDR('10.0.0.0/7')", False),
        ("cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && cidr('::1/128').ip().family() == 6", True),
        ("cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')", True),
        ("cidr('192.168.0.1/24') == cidr('192.168.0.1/24').masked()", False),
        ("cidr('192.168.0.0/16').prefixLength() + cidr('::1/128').prefixLength()", 144),
        ("isURL('https://user:pass@example.com:80/path?query=val#fragment') && isURL('/absolute-path')", True),
        ("isURL('https://a:b:c/') || isURL('../relative-path') || isURL('') || isURL('mailto:a@b') || isURL('/%zz')", False),
        ("url('https://example.com:80/').getScheme() + url('/path').getScheme()", "https"),
        ("url('https://example.com:80/').getHost()", "example.com:80"),
        ("url('https://[::1]:80/').getHost() + url('https://[::1]/').getHostname()", "[::1]:80::1"),
        ("url('https://[::1]:80/').getPort() + url('https://example.com/').getPort()", "80"),
        ("url('https://example.com/path with spaces/').getEscapedPath()", "/path%20with%20spaces/"),
        ("url('https://example.com').getEscapedPath()", ""),
        ("url('https://example.com/path?k1=a&k2=b&k2=c').getQuery()", {"k1": ["a"], "k2": ["b", "c"]}),
        ("url('https://example.com/p?key+with=a%20b').getQuery()", {"key with": ["a b"]}),
        ("url('https://example.com/path?').getQuery()", {}),
    ],
)
def test_values(expression: str, expected: Any) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (
            "ip('127.0.0.256').isLoopback()",
            'IP Address "127.0.0.256" parse error during conversion from string: '
            'ParseAddr("127.0.0.256"): IPv4 field has value >255',
        ),
        ("ip('fe80::1%eth0').isLoopback()", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("ip('::ffff:1.2.3.4').isLoopback()", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        (
            "cidr('192.168.0.0/33').masked() == cidr('::/0')",
            "network address parse error during conversion from string: "
            'netip.ParsePrefix("192.168.0.0/33"): prefix length out of range',
        ),
        (
            "url('../relative').getHost() == ''",
            'URL parse error during conversion from string: parse "../relative": invalid URI for request',
        ),
        (
            "url('https://a:b:c/').getHost() == ''",
            'URL parse error during conversion from string: parse "https://a:b:c/": invalid port ":b:c" after host',
        ),
    ],
)
def test_what_is_none(expression: str, problem: str) -> None:
    fails(expression, problem)


def test_types() -> None:
    does_not_compile("ip(1)", "found no matching overload for 'ip' applied to '(int)'")
    does_not_compile("cidr('10.0.0.0/8').containsIP(cidr('10.0.0.0/8'))", "found no matching overload for 'containsIP'")
    does_not_compile("url('/a') == '/a'", "'_==_' applied to '(kubernetes.URL, string)'")
