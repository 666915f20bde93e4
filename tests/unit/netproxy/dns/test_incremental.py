"""Whatever happened before, the answers are those of a server that has only ever seen the present objects."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.dns import Zone, endpoint_slice, external, service, texts

NAMES = ("a", "b")
HOSTS = ("10.244.0.1", "10.244.0.2", "fd00::1")
SERVICES = st.one_of(
    st.builds(service, st.sampled_from(NAMES)),
    st.builds(service, st.sampled_from(NAMES), st.sampled_from(("10.96.0.1", "10.96.0.2"))),
    st.builds(external, st.sampled_from(NAMES), st.just("192-0-2-1.default.pod.cluster.local")),
)
SLICES = st.builds(
    lambda name, suffix, hosts: endpoint_slice(name, *hosts, suffix=suffix),
    st.sampled_from(NAMES),
    st.sampled_from(("1", "2")),
    st.lists(
        st.one_of(st.sampled_from(HOSTS[:2]), st.just({"addresses": ["10.244.0.2"], "hostname": "pet"})),
        max_size=2,
        unique_by=str,
    ),
)
BELOW = [
    *(("", kind) for kind in ("A", "AAAA", "SRV", "CNAME")),
    *(("_http._tcp.", "SRV"), ("_tcp.", "A"), ("pet.", "A"), ("10-244-0-1.", "A")),
]
REVERSE = ("1.0.96.10", "1.0.244.10", "2.0.244.10")
QUESTIONS = [
    *((f"{below}{name}.default.svc.cluster.local", kind) for name in NAMES for below, kind in BELOW),
    *((f"{name}.in-addr.arpa", "PTR") for name in REVERSE),
]


def said(zone: Zone) -> list[Any]:
    """Every answer; what somebody else would have to be asked is left out."""
    answers: list[Any] = []
    for name, kind in QUESTIONS:
        if kind == "PTR":
            followed = not zone.records.pointers(".".join(reversed(name.split(".")[:4])))
        else:
            found = zone.records.find(tuple(name.split(".")[:-2]))
            followed = bool(found and found.external) and kind in ("A", "AAAA")
        if not followed:
            answer = zone.ask(name, kind)
            answers.append((name, kind, answer.rcode(), texts(answer), texts(answer, "additional")))
    return answers


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.one_of(SERVICES, SLICES), st.booleans()), max_size=12))
def test_changes_leave_no_trace(changes: list[tuple[Any, bool]]) -> None:
    zone, present = Zone(), dict[tuple[bool, str], Any]()
    said(zone)
    for obj, added in changes:
        key = ("addressType" in obj, obj["metadata"]["name"])
        if added:
            zone.add(obj)
            present[key] = obj
        elif key in present:
            zone.remove(present.pop(key))
        assert said(zone) == said(Zone(*present.values()))
    for obj in present.values():
        zone.remove(obj)
    assert len(zone.records) == 0
    assert [zone.records.pointers(host) for host in HOSTS] == [[], [], []]
