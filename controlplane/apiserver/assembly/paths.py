"""Paths that are no resource, wired: health, version, metrics, discovery, OpenAPI, the token issuer's documents."""

import asyncio
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate

from apimachinery import errors
from apimachinery.codecs import negotiate
from apimachinery.gvk import GroupVersion
from apimachinery.schema import Schemas
from component.healthz import Health
from component.metrics import Registry
from component.version import GIT_VERSION, MAJOR, MINOR, git_commit
from controlplane.apiserver.aggregation.discovery import MergedDiscovery
from controlplane.apiserver.aggregation.openapi_service import MergedOpenAPI
from controlplane.apiserver.assembly.aggregation import Aggregation
from controlplane.apiserver.assembly.identity import Believed
from controlplane.apiserver.authentication.keys import jwks
from controlplane.apiserver.crd.registration import Registration
from controlplane.apiserver.discovery import AGGREGATED_KIND, Discovery, Listed
from controlplane.apiserver.discovery import Document as DiscoveryDocument
from controlplane.apiserver.endpoints.paths import PathEndpoint, Paths, document, health, metrics, openid_configuration, version
from controlplane.apiserver.openapi import v2, v3
from controlplane.apiserver.openapi.document import Document
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Answer, Reply

_JWKS_TYPE = "application/jwk-set+json"

_YEAR = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Sources:
    """What discovery and OpenAPI are made from; ``address`` is where clients reach this server."""

    listed: Sequence[Listed]
    address: str
    schemas: Schemas
    aggregation: Aggregation
    custom: Registration


def paths_for(
    sources: Sources,
    checks: Health,
    registry: Registry,
    refresh: Callable[[], None],
    believed: Believed,
    issuer: str,
    unlisted: Mapping[str, PathEndpoint],
) -> Paths:
    listed, schemas, custom, aggregation = sources.listed, sources.schemas, sources.custom, sources.aggregation
    discovery = _Present(listed, custom, sources.address).discovery
    merged = aggregation.over(discovery)
    described = [each for each in listed if schemas.has(each.info.gvk)]  # metrics.k8s.io is not in Kubernetes' own schema
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    info = version(GIT_VERSION, git_commit(), MAJOR, MINOR, f"linux/{machine}", f"python{platform.python_version()}")
    algorithms = sorted({key.algorithm for key in believed.keys}) or ["RS256"]
    exact: dict[str, PathEndpoint] = {
        "/version": document(info),
        "/metrics": metrics(registry, refresh),
        "/api": _discovered(lambda: discovery().api(), lambda version: discovery().aggregated(legacy=True, version=version)),
        "/apis": _discovered(merged.apis, merged.aggregated),
        "/openapi/v2": _openapi_v2(v2.OpenAPIV2(described, schemas, GIT_VERSION, custom.described), aggregation.openapi),
        "/.well-known/openid-configuration": document(openid_configuration(issuer, algorithms)),
        "/openid/v1/jwks": document(jwks(believed.keys), _JWKS_TYPE),
    }
    third = _openapi_v3(v3.OpenAPIV3(described, schemas, GIT_VERSION, custom.described), aggregation)
    exact["/openapi/v3"] = third
    below = _resources(discovery, merged)
    prefixes: dict[str, PathEndpoint] = {"/api/": below, "/apis/": below, "/openapi/v3/": third}
    for probe in ("/healthz", "/livez", "/readyz"):
        exact[probe] = prefixes[probe + "/"] = health(checks)

    def index() -> list[str]:
        present = discovery()
        groups = [group for group in present.groups() if group]
        versions = [f"/apis/{group}/{each}" for group in groups for each in present.versions(group)]
        return [*exact, "/api/v1", *(f"/apis/{group}" for group in groups), *versions]

    return Paths({**exact, **unlisted}, prefixes, index)


class _Present:
    """What is served now: the built-in resources, and the custom ones of this moment."""

    def __init__(self, listed: Sequence[Listed], custom: Registration, address: str) -> None:
        self._listed, self._custom, self._address = listed, custom, address
        self._made: tuple[int, Discovery] | None = None

    def discovery(self) -> Discovery:
        revision = self._custom.revision
        if self._made is None or self._made[0] != revision:
            self._made = revision, Discovery([*self._listed, *self._custom.listed()], self._address)
        return self._made[1]


def _send(call: Call, found: DiscoveryDocument) -> Reply:
    headers = [("ETag", found.etag), ("Vary", "Accept")]
    if call.headers.get("If-None-Match") == found.etag:
        return Reply(304, b"", found.content_type, headers)
    return Reply(200, found.body, found.content_type, headers)


def _discovered(plain: Callable[[], DiscoveryDocument], aggregated: Callable[[str], DiscoveryDocument]) -> PathEndpoint:
    async def answer(call: Call) -> Reply:
        wanted = negotiate.accepts(call.headers.get("Accept", ""), (negotiate.JSON,), ("", AGGREGATED_KIND))
        if wanted.as_kind == AGGREGATED_KIND and wanted.parameters.get("v") in ("v2", "v2beta1"):
            return _send(call, aggregated(wanted.parameters["v"]))
        return _send(call, plain())

    return answer


def _resources(discovery: Callable[[], Discovery], merged: MergedDiscovery) -> PathEndpoint:
    """``/api/v1``, ``/apis/GROUP`` and ``/apis/GROUP/VERSION``."""

    async def answer(call: Call) -> Reply:
        root, *rest = call.path.strip("/").split("/")
        found = None
        if root == "api" and len(rest) == 1:
            found = discovery().resources(GroupVersion("", rest[0]))
        elif root == "apis" and len(rest) == 1:
            found = merged.group(rest[0])
        elif root == "apis" and len(rest) == 2:
            found = discovery().resources(GroupVersion(rest[0], rest[1]))
        if found is None:
            raise errors.path_not_found()
        return _send(call, found)

    return answer


def _openapi_v2(source: v2.OpenAPIV2, merged: MergedOpenAPI) -> PathEndpoint:
    async def answer(call: Call) -> Reply:
        wanted = negotiate.accepts(call.headers.get("Accept", ""), v2.OFFERS, ("",))
        return await _send_packed(call, await merged.v2(source, wanted.name))

    return answer


def _openapi_v3(source: v3.OpenAPIV3, aggregation: Aggregation) -> PathEndpoint:
    merged = aggregation.openapi

    async def answer(call: Call) -> Answer:
        path = call.path.removeprefix("/openapi/v3").strip("/")
        negotiate.accepts(call.headers.get("Accept", ""), (v3.JSON,), ("",))
        if (remote := merged.remote(path)) is not None:
            return await aggregation.proxy.serve(call, remote)
        if merged.is_remote(path):
            made = await merged.v3_made(path)
            if made is None:
                raise errors.path_not_found()
            return await _send_packed(call, made)
        wanted, current = call.query.get("hash"), source.hash(path) if path else ""
        if current is None:
            raise errors.path_not_found()
        if path and wanted and wanted != current:  # an old address of a document that has changed
            return Reply(301, b"", v3.JSON, [("Location", f"/openapi/v3/{path}?hash={current}")])
        found = await asyncio.to_thread(source.document, path) if path else await merged.v3_index(source.index)
        assert found is not None
        reply = await _send_packed(call, found)
        if path and wanted:
            reply.cache_control = b"public, immutable"
            reply.headers.append(("Expires", formatdate(call.now.timestamp() + _YEAR, usegmt=True)))
        return reply

    return answer


async def _send_packed(call: Call, found: Document) -> Reply:
    headers = [("ETag", found.etag), ("Vary", "Accept, Accept-Encoding")]
    if call.headers.get("If-None-Match") == found.etag:
        return Reply(304, b"", found.content_type, headers)
    if "gzip" in call.headers.get("Accept-Encoding", ""):
        return Reply(200, found.packed, found.content_type, [*headers, ("Content-Encoding", "gzip")])
    return Reply(200, await asyncio.to_thread(found.body), found.content_type, headers)
