"""The OpenAPI doors as client-go knocks on them: by hash, by ETag, by media type."""

from urllib.parse import urlsplit

import pytest

from controlplane.apiserver.openapi.v2 import PROTOBUF, PROTOBUF_ASKED
from tests.support.apiserver import TestServer


async def documents(server: TestServer) -> dict[str, str]:
    paths = (await server.request("GET", "/openapi/v3")).json["paths"]
    return {path: entry["serverRelativeURL"] for path, entry in paths.items()}


async def test_a_document_by_its_hash_may_be_kept(server: TestServer) -> None:
    """kube-openapi pkg/handler3: the address with the hash never changes what it means."""
    url = (await documents(server))["apis/apps/v1"]
    answer = await server.request("GET", url)
    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "public, immutable"
    assert "Expires" in answer.headers
    plain = await server.request("GET", urlsplit(url).path)
    assert plain.headers["Cache-Control"] == "no-cache, private"
    assert plain.json == answer.json


async def test_an_old_hash_leads_to_the_new_one(server: TestServer) -> None:
    url = (await documents(server))["api/v1"]
    async with server.session.get(
        server.url + "/openapi/v3/api/v1?hash=OLD",
        ssl=server.tls,
        allow_redirects=False,
        headers={"Authorization": f"Bearer {server.admin_token}"},
    ) as answer:
        assert (answer.status, answer.headers["Location"]) == (301, url)


async def test_what_is_not_served_has_no_document(server: TestServer) -> None:
    for path in ("/openapi/v3/apis/nothing/v1", "/openapi/v3/apis/apps/v1beta1?hash=OLD"):
        assert (await server.request("GET", path)).status == 404


@pytest.mark.parametrize(
    ("path", "accept", "status", "content_type"),
    [
        ("/openapi/v2", PROTOBUF_ASKED, 200, PROTOBUF),
        ("/openapi/v2", f"{PROTOBUF_ASKED}, application/json;q=0.5", 200, PROTOBUF),
        ("/openapi/v2", "application/json", 200, "application/json"),
        ("/openapi/v2", "*/*", 200, "application/json"),
        ("/openapi/v2", "text/html", 406, "application/json"),
        ("/openapi/v3/api/v1", "application/json, */*", 200, "application/json"),
        ("/openapi/v3/api/v1", "text/html", 406, "application/json"),
        ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", 200, None),
    ],
)
async def test_media_types(server: TestServer, path: str, accept: str, status: int, content_type: str | None) -> None:
    answer = await server.request("GET", path, headers={"Accept": accept})
    assert answer.status == status, answer.body[:200]
    expected = content_type or "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert answer.headers["Content-Type"] == expected
    if status == 200:
        again = await server.request("GET", path, headers={"Accept": accept, "If-None-Match": answer.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")


async def test_both_forms_of_discovery_and_openapi_have_etags_of_their_own(server: TestServer) -> None:
    tags = set()
    for path, accept in (
        ("/openapi/v2", "application/json"),
        ("/openapi/v2", PROTOBUF_ASKED),
        ("/apis", "application/json"),
        ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
        ("/openapi/v3", "application/json"),
        *((url, "application/json") for url in (await documents(server)).values()),
    ):
        tags.add((await server.request("GET", path, headers={"Accept": accept})).headers["ETag"])
    assert len(tags) == 5 + len(await documents(server))
