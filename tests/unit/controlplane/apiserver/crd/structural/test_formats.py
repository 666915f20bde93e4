"""Formats of text."""

import pytest

from controlplane.apiserver.crd.structural import formats

CASES = {
    "bsonobjectid": ("507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901"),
    "uri": ("https://example.com/a", "example"),
    "email": ("a@example.com", "a@"),
    "hostname": ("example.com", "-example.com"),
    "ipv4": ("10.0.0.1", "::1"),
    "ipv6": ("fd00::1", "10.0.0.1"),
    "cidr": ("10.0.0.0/8", "10.0.0.0"),
    "mac": ("01:23:45:67:89:ab", "01:23:45:67:89"),
    "uuid": ("A9f2e6a8-0b7b-4c3e-9a1d-2f3b4c5d6e7f", "A9f2e6a8"),
    "uuid3": ("a9f2e6a8-0b7b-3c3e-9a1d-2f3b4c5d6e7f", "a9f2e6a8-0b7b-4c3e-9a1d-2f3b4c5d6e7f"),
    "uuid4": ("a9f2e6a8-0b7b-4c3e-9a1d-2f3b4c5d6e7f", "a9f2e6a8-0b7b-4c3e-1a1d-2f3b4c5d6e7f"),
    "uuid5": ("a9f2e6a8-0b7b-5c3e-9a1d-2f3b4c5d6e7f", "a9f2e6a8-0b7b-4c3e-9a1d-2f3b4c5d6e7f"),
    "isbn": ("978-0321751041", "978-0321751042"),
    "isbn10": ("0321751043", "0321751044"),
    "isbn13": ("9780321751041", "0321751043"),
    "creditcard": ("4111 1111 1111 1111", "4111 1111 1111 1112"),
    "ssn": ("111-22-3333", "111-22-33333"),
    "hexcolor": ("#FFF", "#FF"),
    "rgbcolor": ("rgb(255, 0,10)", "rgb(256,0,0)"),
    "byte": ("YQ==", "YQ"),
    "date": ("2024-02-29", "2023-02-29"),
    "date-time": ("2014-12-15T19:30:20.000Z", "2014-12-15 19:30:20"),
    "duration": ("1h30m", "soon"),
    "quantity": ("10Gi", "ten"),
    "k8s-short-name": ("a-b", "A-b"),
    "k8s-long-name": ("a.b-c", "a..b"),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_each_format_takes_one_text_and_not_another(name: str) -> None:
    check = formats.checker(name)
    assert check is not None
    good, bad = CASES[name]
    assert check(good)
    assert not check(bad)


def test_passwords_may_be_anything_and_unknown_formats_say_nothing() -> None:
    check = formats.checker("password")
    assert check is not None
    assert check("")
    assert formats.checker("unheard-of") is None
    assert not formats.is_known("int32")
