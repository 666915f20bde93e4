import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery import fields


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        pytest.param("", {}, True, id="empty"),
        pytest.param("spec.nodeName=a", {"spec.nodeName": "a"}, True, id="equal"),
        pytest.param("spec.nodeName==a", {"spec.nodeName": "b"}, False, id="double equal"),
        pytest.param("status.phase!=Running", {"status.phase": "Pending"}, True, id="not equal"),
        pytest.param("spec.nodeName=", {"spec.nodeName": ""}, True, id="empty value"),
        pytest.param("spec.nodeName=", {}, True, id="absent counts as empty"),
        pytest.param(r"a=x\,y,b=z", {"a": "x,y", "b": "z"}, True, id="escaped comma"),
    ],
)
def test_matching(text: str, values: dict[str, str], expected: bool) -> None:
    assert fields.parse(text).matches(values) is expected


def test_a_term_without_operator_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^invalid selector: 'a=b,c'; can't understand 'c'$"):
        fields.parse("a=b,c")


def test_exact_requirements_serve_indexes() -> None:
    assert fields.parse("a=b,c!=d").equals() == (("a", "b"),)


@given(st.dictionaries(st.from_regex(r"[a-z][a-zA-Z.]{0,8}", fullmatch=True), st.text(max_size=6), max_size=3))
def test_any_value_survives_the_text_form(values: dict[str, str]) -> None:
    selector = fields.Selector(tuple(fields.Requirement(name, "=", value) for name, value in values.items()))
    assert fields.parse(str(selector)) == selector
