"""Named formats in expressions: each knows its own, and says what is wrong with others."""

import pytest

from tests.unit.apimachinery.cel.library.expressions import does_not_compile, value

GOOD_AND_BAD = {
    "dns1123Label": ("my-label", "My-Label"),
    "dns1123Subdomain": ("apiextensions.k8s.io", "a..b"),
    "dns1035Label": ("my-label", "1-label"),
    "qualifiedName": ("apiextensions.k8s.io/v1beta1", "a/b/c"),
    "dns1123LabelPrefix": ("my-label-prefix-", "-prefix"),
    "dns1123SubdomainPrefix": ("mysubdomain.prefix-", "A-"),
    "dns1035LabelPrefix": ("my-label-prefix-", "1-"),
    "labelValue": ("my-cool-label-Value", "my-cool-label-Value!!\\n\\n!!!"),
    "uri": ("http://example.com", "a b"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    "byte": ("aGVsbG8=", "aGVsbG8"),
    "date": ("2021-01-01", "2021-02-30"),
    "datetime": ("2021-01-01T00:00:00Z", "2021-01-01"),
}


@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_formats(name: str) -> None:
    good, bad = GOOD_AND_BAD[name]
    assert value(f"format.{name}().validate('{good}').hasValue()") is False
    assert value(f"format.{name}().validate('{bad}').value().size() > 0") is True
    assert value(f"format.named('{name}').value().validate('{good}').hasValue()") is False


def test_words() -> None:
    assert value("format.uuid().validate('x').value()") == ["does not match the UUID format"]
    assert value("format.byte().validate('~').value()") == ["invalid base64"]
    assert value("format.date().validate('x').value()") == ["invalid date"]
    assert value("format.datetime().validate('x').value()") == ["invalid datetime"]
    assert value("format.uri().validate('a b').value()") == ['parse "a b": invalid URI for request']


def test_optional_values() -> None:
    assert value("format.named('nothing').hasValue()") is False
    assert value("['a', 'A'].filter(t, !format.dns1123Label().validate(t).hasValue())") == ["a"]
    assert value("format.dns1123Label().validate('a').orValue(['fine'])") == ["fine"]
    does_not_compile("format.dns1123Label().validate('a') == ['x']", "found no matching overload")


def test_empty_texts_stay_in_an_expression_that_names_a_format() -> None:
    assert value("['', 'a'].exists(t, t == '') && !format.dns1123Label().validate('a').hasValue()") is True
