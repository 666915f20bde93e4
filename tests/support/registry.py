"""A small image registry on loopback: the read half of the OCI distribution protocol, with basic authentication if asked.

Serves images made by ``bootstrap.images``; containerd speaks plain HTTP to loopback. It imitates neither uploads nor tokens.
"""

import base64
import hashlib
import json
import tarfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from bootstrap import images


@dataclass
class Registry:
    """``pulled`` lists what was asked for: (user, path)."""

    port: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict)
    tags: dict[tuple[str, str], str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    pulled: list[tuple[str, str]] = field(default_factory=list)

    def reference(self, name: str, tag: str) -> str:
        return f"127.0.0.1:{self.port}/{name}:{tag}"

    def add(self, name: str, tag: str, files: Sequence[images.File], directory: Path) -> None:
        archive = directory / "image.tar"
        images.write_archive([images.Image(f"localhost/{name}:{tag}", files, command=("sh",))], archive)
        with tarfile.open(archive) as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is not None and member.name.startswith("blobs/"):
                    self.blobs[f"sha256:{Path(member.name).name}"] = content.read()
                elif content is not None and member.name == "index.json":
                    self.tags[name, tag] = json.loads(content.read())["manifests"][0]["digest"]

    def secret(self, user: str, password: str) -> dict[str, object]:
        """A pull secret for this registry."""
        auth = base64.b64encode(f"{user}:{password}".encode()).decode()
        document = json.dumps({"auths": {f"127.0.0.1:{self.port}": {"auth": auth}}})
        data = {".dockerconfigjson": base64.b64encode(document.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "default"}}
        return {**secret, "type": "kubernetes.io/dockerconfigjson", "data": data}

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        user = self._user(request)
        if user is None:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="test"'})
        parts = request.path.removeprefix("/v2/").split("/")
        if len(parts) < 3:
            return web.json_response({})
        name, kind, wanted = "/".join(parts[:-2]), parts[-2], parts[-1]
        self.pulled.append((user, request.path))
        digest = wanted if wanted.startswith("sha256:") else self.tags.get((name, wanted), "")
        data = self.blobs.get(digest)
        if data is None:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, status=404)
        assert digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
        manifest = "application/vnd.oci.image.manifest.v1+json"
        content_type = manifest if kind == "manifests" else "application/octet-stream"
        headers = {"Content-Type": content_type, "Docker-Content-Digest": digest, "Content-Length": str(len(data))}
        return web.Response(body=b"" if request.method == "HEAD" else data, headers=headers)

    def _user(self, request: web.BaseRequest) -> str | None:
        if not self.users:
            return "anonymous"
        scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
        user, _, password = base64.b64decode(encoded or "").decode().partition(":")
        return user if scheme == "Basic" and self.users.get(user) == password else None


@asynccontextmanager
async def running_registry(users: dict[str, str] | None = None) -> AsyncIterator[Registry]:
    registry = Registry(users=users or {})
    runner = web.ServerRunner(web.Server(registry.serve))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    registry.port = runner.addresses[0][1]
    try:
        yield registry
    finally:
        await runner.cleanup()
