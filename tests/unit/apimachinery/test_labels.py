import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery import labels

MATCHES = [
    ("", {"a": "b"}, True),
    ("a=b", {"a": "b"}, True),
    ("a==b", {"a": "c"}, False),
    ("a!=b", {}, True),
    ("a != b", {"a": "b"}, False),
    ("a in (b, c)", {"a": "c"}, True),
    ("a notin (b,c)", {}, True),
    ("a notin (b,c)", {"a": "b"}, False),
    ("a", {"a": ""}, True),
    ("!a", {"a": ""}, False),
    ("!a", {}, True),
    ("a>5", {"a": "6"}, True),
    ("a<5", {"a": "6"}, False),
    ("a>5", {"a": "x"}, False),
    ("a=", {"a": ""}, True),
    ("a in (,b)", {"a": ""}, True),
    ("a in (b,)", {"a": ""}, True),
    ("a in ()", {"a": ""}, True),
    ("a in (b)", {"a": ""}, False),
    ("in in (in)", {"in": "in"}, True),
    ("example.com/a=b,c", {"example.com/a": "b", "c": "d"}, True),
    ("a=b,a=c", {"a": "b"}, False),
]


@pytest.mark.parametrize(("text", "held", "expected"), MATCHES, ids=[f"{text}~{held}" for text, held, _ in MATCHES])
def test_matching(text: str, held: dict[str, str], expected: bool) -> None:
    assert labels.parse(text).matches(held) is expected


ERRORS = [
    (",", "found ',', expected: !, identifier, or 'end of string'"),
    ("a,", "found '', expected: identifier after ','"),
    ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("!", "unable to parse requirement: found '', expected: identifier"),
    ("a in b", "unable to parse requirement: found 'b' expected: '('"),
    ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
    ("a in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
    ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
    ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ("a==(", "unable to parse requirement: found '(', expected: identifier"),
    (
        "a>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[text for text, _ in ERRORS])
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared whole below
        labels.parse(text)
    assert str(caught.value) == message


def test_bad_key_and_value_are_named() -> None:
    with pytest.raises(ValueError, match=r'^unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of'):
        labels.parse("-a=b")
    with pytest.raises(ValueError, match=r'values\[0\]\[a\]: Invalid value: "-b": a valid label must be an empty string'):
        labels.parse("a=-b")


def test_structured_selector() -> None:
    selector = labels.from_label_selector(
        {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}
    )
    assert selector.matches({"app": "web", "tier": "front"})
    assert not selector.matches({"app": "web", "tier": "db"})
    assert str(selector) == "app=web,tier notin (db)"


def test_absent_selector_matches_nothing_and_empty_one_everything() -> None:
    assert not labels.from_label_selector(None).matches({"a": "b"})
    assert labels.from_label_selector({}).matches({})


NAMES = st.from_regex(r"[a-z]([a-z0-9]{0,6}[a-z0-9])?", fullmatch=True).filter(lambda text: text not in ("in", "notin"))
REQUIREMENTS = st.one_of(
    st.builds(lambda key, value: labels.requirement(key, "=", [value]), NAMES, NAMES),
    st.builds(lambda key, value: labels.requirement(key, "!=", [value]), NAMES, NAMES),
    st.builds(lambda key, values: labels.requirement(key, "in", values), NAMES, st.lists(NAMES, min_size=1, max_size=3)),
    st.builds(lambda key, values: labels.requirement(key, "notin", values), NAMES, st.lists(NAMES, min_size=1, max_size=3)),
    st.builds(lambda key: labels.requirement(key, "exists"), NAMES),
    st.builds(lambda key: labels.requirement(key, "!"), NAMES),
    st.builds(lambda key, value: labels.requirement(key, "gt", [str(value)]), NAMES, st.integers(0, 999)),
)


@given(st.lists(REQUIREMENTS, max_size=4).map(lambda many: labels.Selector(tuple(sorted(many, key=lambda one: one.key)))))
def test_text_form_reads_back_as_the_same_selector(selector: labels.Selector) -> None:
    assert labels.parse(str(selector)) == selector


@given(REQUIREMENTS, st.dictionaries(NAMES, NAMES, max_size=3))
def test_a_requirement_and_its_opposite_never_agree(one: labels.Requirement, held: dict[str, str]) -> None:
    opposite = {"=": "!=", "!=": "=", "in": "notin", "notin": "in", "exists": "!", "!": "exists"}.get(one.operator)
    if opposite:
        assert one.matches(held) != labels.requirement(one.key, opposite, one.values).matches(held)
