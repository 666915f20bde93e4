"""Names of the cluster, as the Kubernetes DNS specification 1.1 has them."""

from typing import Any

import dns.rcode
import pytest

from tests.support.dns import TCP, Zone, endpoint_slice, external, service, texts

SOA = "cluster.local. 30 SOA ns.dns.cluster.local. hostmaster.cluster.local. "
PETS = (
    {"addresses": ["10.244.0.5"], "conditions": {"ready": True}, "hostname": "pet-0"},
    {"addresses": ["10.244.0.6"], "conditions": {"ready": True}},
    {"addresses": ["10.244.0.7"], "conditions": {"ready": False}, "hostname": "pet-2"},
)


@pytest.fixture
def zone() -> Zone:
    return Zone(
        service("web", "10.96.0.20", "fd00::20", ports=(("http", 80), ("https", 443))),
        service("kube-dns", "10.96.0.10", namespace="kube-system"),
        service("pets"),
        endpoint_slice("pets", *PETS),
        endpoint_slice("web", "10.244.0.8"),
        external("outside", "Example.com."),
    )


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("web.default.svc.cluster.local", "A", ["30 A 10.96.0.20"]),
        ("web.default.svc.cluster.local", "AAAA", ["30 AAAA fd00::20"]),
        ("pets.default.svc.cluster.local", "A", ["30 A 10.244.0.5", "30 A 10.244.0.6"]),
        ("pet-0.pets.default.svc.cluster.local", "A", ["30 A 10.244.0.5"]),
        ("10-244-0-6.pets.default.svc.cluster.local", "A", ["30 A 10.244.0.6"]),
        ("_http._tcp.web.default.svc.cluster.local", "SRV", ["30 SRV 0 50 80 web.default.svc.cluster.local."]),
        ("outside.default.svc.cluster.local", "CNAME", ["30 CNAME example.com."]),
        ("10-1-2-3.default.pod.cluster.local", "A", ["30 A 10.1.2.3"]),
        ("fd00--7.default.pod.cluster.local", "AAAA", ["30 AAAA fd00::7"]),
        ("dns-version.cluster.local", "TXT", ['28800 TXT "1.1.0"']),
        ("cluster.local", "NS", ["30 NS kube-dns.kube-system.svc.cluster.local."]),
        ("ns.dns.cluster.local", "A", ["30 A 10.96.0.10"]),
        ("20.0.96.10.in-addr.arpa", "PTR", ["30 PTR web.default.svc.cluster.local."]),
        ("5.0.244.10.in-addr.arpa", "PTR", ["30 PTR pet-0.pets.default.svc.cluster.local."]),
        ("8.0.244.10.in-addr.arpa", "PTR", ["30 PTR 10-244-0-8.web.default.svc.cluster.local."]),
        (f"0.2.0.0{'.0' * 24}.0.0.d.f.ip6.arpa", "PTR", ["30 PTR web.default.svc.cluster.local."]),
    ],
)
def test_a_name_has_its_records(zone: Zone, name: str, kind: str, wanted: list[str]) -> None:
    answer = zone.ask(name, kind)
    assert texts(answer) == [f"{name}. {each}" for each in wanted]
    assert answer.rcode() == dns.rcode.NOERROR
    assert answer.flags & dns.flags.AA


def test_srv_records_of_a_headless_service_name_its_endpoints_and_bring_their_addresses(zone: Zone) -> None:
    answer = zone.ask("_http._tcp.pets.default.svc.cluster.local", "SRV")
    below = "pets.default.svc.cluster.local."
    assert [text.split(" ", 2)[2] for text in texts(answer)] == [
        f"SRV 0 50 8080 10-244-0-6.{below}",
        f"SRV 0 50 8080 pet-0.{below}",
    ]
    assert texts(answer, "additional") == [f"10-244-0-6.{below} 30 A 10.244.0.6", f"pet-0.{below} 30 A 10.244.0.5"]


@pytest.mark.parametrize(
    ("name", "kind", "rcode"),
    [
        ("nobody.default.svc.cluster.local", "A", "NXDOMAIN"),
        ("web.nowhere.svc.cluster.local", "A", "NXDOMAIN"),
        ("pet-2.pets.default.svc.cluster.local", "A", "NXDOMAIN"),  # not ready
        ("_ftp._tcp.web.default.svc.cluster.local", "SRV", "NXDOMAIN"),
        ("_http._udp.web.default.svc.cluster.local", "SRV", "NXDOMAIN"),
        ("a.b.c.web.default.svc.cluster.local", "A", "NXDOMAIN"),
        ("example.com.default.svc.cluster.local", "A", "NXDOMAIN"),
        ("10-1-2.default.pod.cluster.local", "A", "NXDOMAIN"),
        ("10-1-2-3.nowhere.pod.cluster.local", "A", "NXDOMAIN"),
        ("web.default.cluster.local", "A", "NXDOMAIN"),
        ("below.outside.default.svc.cluster.local", "A", "NXDOMAIN"),
        ("pets.default.svc.cluster.local", "AAAA", "NOERROR"),
        ("web.default.svc.cluster.local", "MX", "NOERROR"),
        ("outside.default.svc.cluster.local", "TXT", "NOERROR"),
        ("web.default.svc.cluster.local", "ANY", "NOERROR"),
        # names that have no records, but names below them
        ("_tcp.web.default.svc.cluster.local", "A", "NOERROR"),
        ("default.svc.cluster.local", "A", "NOERROR"),
        ("default.pod.cluster.local", "A", "NOERROR"),
        ("svc.cluster.local", "A", "NOERROR"),
        ("cluster.local", "A", "NOERROR"),
    ],
)
def test_what_is_not_there_is_denied_with_the_zones_soa(zone: Zone, name: str, kind: str, rcode: str) -> None:
    answer = zone.ask(name, kind)
    assert dns.rcode.to_text(answer.rcode()) == rcode
    assert not answer.answer
    assert [text.startswith(SOA) for text in texts(answer, "authority")] == [True]


def test_both_families_of_a_headless_service_have_their_records() -> None:
    zone = Zone(
        service("pets"),
        endpoint_slice("pets", {"addresses": ["10.244.0.5"], "hostname": "pet-0"}, "10.244.0.6"),
        endpoint_slice("pets", {"addresses": ["fd00:0::5"], "hostname": "pet-0"}, "fd00::6", suffix="2"),
    )
    at = "pets.default.svc.cluster.local."
    assert texts(zone.ask(at, "A")) == [f"{at} 30 A 10.244.0.5", f"{at} 30 A 10.244.0.6"]
    assert texts(zone.ask(at, "AAAA")) == [f"{at} 30 AAAA fd00::5", f"{at} 30 AAAA fd00::6"]
    assert texts(zone.ask(f"pet-0.{at}", "AAAA")) == [f"pet-0.{at} 30 AAAA fd00::5"]
    answer = zone.ask(f"_http._tcp.{at}", "SRV")
    assert len(texts(answer)) == 3
    assert texts(answer, "additional") == [
        f"10-244-0-6.{at} 30 A 10.244.0.6",
        f"fd00--6.{at} 30 AAAA fd00::6",
        f"pet-0.{at} 30 A 10.244.0.5",
        f"pet-0.{at} 30 AAAA fd00::5",
    ]
    pointer = f"5.0.0.0{'.0' * 26}.d.f.ip6.arpa"
    assert [text.split()[-1] for text in texts(zone.ask(pointer, "PTR"))] == [f"pet-0.{at}"]


def test_each_endpoint_of_one_host_name_answers_by_it() -> None:
    twins = [{"addresses": [f"10.244.0.{last}"], "hostname": "twin"} for last in (4, 5)]
    zone = Zone(service("pets"), endpoint_slice("pets", *twins))
    assert len(texts(zone.ask("twin.pets.default.svc.cluster.local"))) == 2
    assert len(texts(zone.ask("_http._tcp.pets.default.svc.cluster.local", "SRV"))) == 1


def test_a_headless_service_without_ready_endpoints_does_not_exist(zone: Zone) -> None:
    zone.add(endpoint_slice("pets", PETS[2]))
    assert zone.ask("pets.default.svc.cluster.local").rcode() == dns.rcode.NXDOMAIN


def test_a_service_without_ports_has_addresses_and_no_srv_records() -> None:
    zone = Zone(service("plain", ports=()), endpoint_slice("plain", "10.244.0.9", ports=()))
    assert texts(zone.ask("plain.default.svc.cluster.local")) == ["plain.default.svc.cluster.local. 30 A 10.244.0.9"]
    assert not zone.ask("plain.default.svc.cluster.local", "SRV").answer


def test_the_case_of_the_question_returns_and_does_not_matter(zone: Zone) -> None:
    answer = zone.ask("wEb.DefAULT.svc.CLUSTER.local")
    assert str(answer.question[0].name) == "wEb.DefAULT.svc.CLUSTER.local."
    assert texts(answer)


def test_each_change_is_seen_at_once(zone: Zone) -> None:
    """Answers are kept encoded: whatever they were made of must take them away."""
    name, reverse = "late.default.svc.cluster.local", "30.0.96.10.in-addr.arpa"
    seen: list[Any] = []
    late = service("late", "10.96.0.30")
    for change in (
        lambda: None,
        lambda: zone.add(late),
        lambda: zone.add(service("late", "10.96.0.31")),
        lambda: zone.remove(late),
    ):
        change()
        seen.append([text.split()[-1] for text in texts(zone.ask(name))])
    assert seen == [[], ["10.96.0.30"], ["10.96.0.31"], []]
    zone.add(late)
    assert texts(zone.ask(reverse, "PTR"))
    zone.add(endpoint_slice("late", "10.244.0.77"))
    assert texts(zone.ask("77.0.244.10.in-addr.arpa", "PTR"))
    zone.add(endpoint_slice("late", "10.244.0.78"))
    assert texts(zone.ask("10-244-0-78.late.default.svc.cluster.local"))
    assert not texts(zone.ask("10-244-0-77.late.default.svc.cluster.local"))


def test_an_endpoint_in_two_slices_stays_until_it_has_left_both(zone: Zone) -> None:
    second = endpoint_slice("pets", PETS[0], suffix="2")
    zone.add(second)
    name = "5.0.244.10.in-addr.arpa"
    assert len(texts(zone.ask("pet-0.pets.default.svc.cluster.local"))) == 1
    zone.remove(second)
    assert texts(zone.ask(name, "PTR"))
    zone.remove(endpoint_slice("pets", *PETS))
    assert zone.records.pointers("10.244.0.5") == []


def test_addresses_come_in_changing_order() -> None:
    zone = Zone(service("many"), endpoint_slice("many", *(f"10.244.0.{last}" for last in range(8))))
    firsts = {str(zone.ask("many.default.svc.cluster.local").answer[0][0]) for _ in range(64)}
    assert len(firsts) > 1


def test_a_large_answer_is_cut_for_udp_and_whole_for_tcp() -> None:
    zone = Zone(service("crowd"), endpoint_slice("crowd", *(f"10.244.1.{last}" for last in range(200))))
    name = "crowd.default.svc.cluster.local"
    small, larger, whole = zone.ask(name), zone.ask(name, use_edns=0, payload=4096), zone.ask(name, door=TCP)
    assert small.flags & dns.flags.TC
    assert 0 < len(small.answer[0]) < len(larger.answer[0]) < len(whole.answer[0]) == 200
    assert larger.flags & dns.flags.TC
    assert not whole.flags & dns.flags.TC


def test_nothing_is_denied_before_everything_is_known(zone: Zone) -> None:
    zone.responder.ready = False
    zone.responder.forget()
    assert zone.ask("nobody.default.svc.cluster.local").rcode() == dns.rcode.SERVFAIL
