"""Who gets in by a certificate: the API server's; a bad one is a 401 and no dropped connection, and a good token still counts."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from component import tls, x509
from component.dynamic_certificates import CaBundle, Files, ServingCertificates
from node.kubelet.server.auth import attributes
from tests.support.kubelet import Running, running_kubelet

ADMIN, STRANGER = "kube-apiserver-kubelet-client", "somebody-else"


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    ca, other = x509.new_ca("ca"), x509.new_ca("other")
    ca.save(tmp_path / "ca.crt", tmp_path / "ca.key")
    serving = x509.Request("kubelet", ip_addresses=("127.0.0.1",))
    x509.issue(ca, serving).save(tmp_path / "kubelet.crt", tmp_path / "kubelet.key")
    for name, authority in {"good": ca, "foreign": other}.items():
        x509.issue(authority, x509.Request(ADMIN, usages=(x509.CLIENT,))).save(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
    x509.issue(ca, x509.Request(STRANGER, usages=(x509.CLIENT,))).save(tmp_path / "weak.crt", tmp_path / "weak.key")
    return tmp_path


@pytest.fixture
def bundle(pki: Path) -> CaBundle:
    return CaBundle(pki / "ca.crt")


@pytest.fixture
async def kubelet(pki: Path, bundle: CaBundle) -> AsyncIterator[Running]:
    files = Files(pki / "kubelet.crt", pki / "kubelet.key", (pki / "ca.crt",))
    async with running_kubelet(ServingCertificates(files).context, client_ca=bundle.current) as running:
        yield running


def shows(pki: Path, name: str) -> ssl.SSLContext:
    if not name:
        return tls.client_context(ca_file=pki / "ca.crt")
    return tls.client_context(ca_file=pki / "ca.crt", certificate=pki / f"{name}.crt", key=pki / f"{name}.key")


@pytest.mark.parametrize(
    ("certificate", "token", "status"),
    [
        ("good", "", 200),
        ("weak", "", 403),
        ("foreign", "", 401),
        ("foreign", "good", 200),
        ("foreign", "bad", 401),
        ("", "", 401),
        ("", "good", 200),
    ],
)
async def test_certificates_and_tokens(kubelet: Running, pki: Path, certificate: str, token: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(kubelet.url, headers=headers) as http,
        http.get("/pods", ssl=shows(pki, certificate)) as answer,
    ):
        assert answer.status == status, await answer.text()


async def test_an_authority_that_is_taken_away_counts_no_more(kubelet: Running, pki: Path, bundle: CaBundle) -> None:
    async with aiohttp.ClientSession(kubelet.url) as http:
        async with http.get("/pods", ssl=shows(pki, "good")) as answer:
            assert answer.status == 200
        trusted = shows(pki, "good")
        (pki / "ca.crt").write_bytes(x509.new_ca("next").certificate)
        assert bundle.reload_if_changed()
        async with http.get("/pods", ssl=trusted) as answer:
            assert answer.status == 401


@pytest.mark.parametrize(
    ("method", "path", "verb", "subresources"),
    [
        ("GET", "/stats/summary", "get", ("stats",)),
        ("GET", "/metrics", "get", ("metrics",)),
        ("GET", "/metrics/cadvisor", "get", ("metrics",)),
        ("GET", "/logs/x", "get", ("log",)),
        ("POST", "/checkpoint/ns/p/c", "create", ("checkpoint",)),
        ("GET", "/pods", "get", ("pods", "proxy")),
        ("GET", "/runningpods/", "get", ("pods", "proxy")),
        ("GET", "/healthz/syncloop", "get", ("healthz", "proxy")),
        ("GET", "/configz", "get", ("configz", "proxy")),
        ("GET", "/containerLogs/ns/p/c", "get", ("proxy",)),
        ("POST", "/run/ns/p/c", "create", ("proxy",)),
        ("GET", "/exec/ns/p/c", "create", ("proxy",)),
        ("GET", "/podsx", "get", ("proxy",)),
    ],
)
def test_the_right_that_a_path_needs(method: str, path: str, verb: str, subresources: tuple[str, ...]) -> None:
    """Upstream's KubeletFineGrainedAuthz, pkg/kubelet/server/auth.go; nodes/proxy opens the fine ones, too."""
    assert attributes(method, path) == (verb, subresources)


async def test_the_fine_right_is_asked_for_first_and_proxy_after_it(kubelet: Running, pki: Path) -> None:
    async with aiohttp.ClientSession(kubelet.url) as http, http.get("/configz", ssl=shows(pki, "weak")) as answer:
        assert await answer.text() == (f"Forbidden (user={STRANGER}, verb=get, resource=nodes, subresource(s)=[configz proxy])")
    asked = [review["spec"]["resourceAttributes"]["subresource"] for review in kubelet.reviews.asked]
    assert asked == ["configz", "proxy"]
