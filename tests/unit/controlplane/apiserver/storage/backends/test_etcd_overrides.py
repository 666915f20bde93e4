"""``--etcd-servers-overrides``: upstream's spelling, and what is refused."""

import pytest

from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig
from controlplane.apiserver.storage.backends.etcd.overrides import parse

MAIN = EtcdConfig(("https://a:2379",), prefix="/here")


def test_resources_of_any_group_and_several_servers() -> None:
    found = parse(["/events#https://b:2379;https://c:2379", "batch/jobs#https://d:2379"], MAIN)
    assert {name: config.servers for name, config in found.items()} == {
        "events": ("https://b:2379", "https://c:2379"),
        "jobs.batch": ("https://d:2379",),
    }
    assert {config.prefix for config in found.values()} == {"/here"}, "all else is as for the others"


@pytest.mark.parametrize("text", ["events#https://b:2379", "/events", "/events#", "#https://b:2379", "a/b/c#https://b:2379"])
def test_what_is_not_so_spelled_is_told_how(text: str) -> None:
    with pytest.raises(ValueError, match="write GROUP/RESOURCE#URL;URL"):
        parse([text], MAIN)


@pytest.mark.parametrize("place", ["/services", "networking.k8s.io/ipaddresses"])
def test_what_is_written_together_stays_together(place: str) -> None:
    with pytest.raises(ValueError, match="one transaction"):
        parse([f"{place}#https://b:2379"], MAIN)


def test_a_bad_url_is_named() -> None:
    with pytest.raises(ValueError, match="is not the URL of an etcd server"):
        parse(["/events#ftp://b"], MAIN)
