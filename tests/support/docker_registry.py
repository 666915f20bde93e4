"""The real docker-registry on loopback, with TLS and passwords, and pushing images into it."""

import asyncio
import base64
import io
import shutil
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from bootstrap import images
from component import x509
from tests.support.registry import Registry

PROGRAM = "docker-registry"
USER, PASSWORD = "robot", "secret"
_BCRYPT = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"  # of PASSWORD
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class DockerRegistry:
    port: int
    authority: Path

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.host}"

    def trust(self, certs: Path) -> None:
        """Have containerd reach it by TLS: ``certs`` is its folder of registries."""
        folder = certs / self.host
        folder.mkdir(parents=True, exist_ok=True)
        text = f'server = "{self.url}"\n[host."{self.url}"]\n  ca = "{self.authority}"\n'
        (folder / "hosts.toml").write_text(text)

    async def push(self, name: str, tag: str, files: Sequence[images.File], directory: Path) -> str:
        """Upload an image; its reference."""
        local = Registry()
        local.add(name, tag, files, directory)
        manifest = local.tags[name, tag]
        context = ssl.create_default_context(cafile=str(self.authority))
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        connector, as_user = aiohttp.TCPConnector(ssl=context), {"Authorization": f"Basic {login}"}
        async with aiohttp.ClientSession(headers=as_user, connector=connector) as session:
            base = f"{self.url}/v2/{name}"
            for digest, blob in local.blobs.items():
                async with session.post(f"{base}/blobs/uploads/") as started:
                    assert started.status == 202, await started.text()
                    where = started.headers["Location"]
                async with session.put(where, params={"digest": digest}, data=io.BytesIO(blob)) as done:
                    assert done.status == 201, await done.text()
            body, headers = local.blobs[manifest], {"Content-Type": _MANIFEST}
            async with session.put(f"{base}/manifests/{tag}", data=body, headers=headers) as done:
                assert done.status == 201, await done.text()
        return f"{self.host}/{name}:{tag}"


@asynccontextmanager
async def running_docker_registry(directory: Path, port: int) -> AsyncIterator[DockerRegistry]:
    """Skips, saying why, where there is no docker-registry."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed (apt-get install docker-registry)")
    authority = x509.new_ca("registry-ca")
    issued = x509.issue(authority, x509.Request("registry", ip_addresses=["127.0.0.1"]))
    ca, certificate, key = directory / "ca.crt", directory / "registry.crt", directory / "registry.key"
    ca.write_bytes(authority.certificate)
    issued.save(certificate, key)
    passwords, config = directory / "htpasswd", directory / "config.yml"
    passwords.write_text(f"{USER}:{_BCRYPT}\n")
    config.write_text(
        f"""version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {directory}/store}}}}
auth: {{htpasswd: {{realm: test, path: {passwords}}}}}
http:
  addr: 127.0.0.1:{port}
  tls: {{certificate: {certificate}, key: {key}}}
"""
    )
    with (directory / "registry.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(PROGRAM, "serve", str(config), stdout=log, stderr=log)
    try:
        registry = DockerRegistry(port, ca)
        await _up(registry, process, directory / "registry.log")
        yield registry
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _up(registry: DockerRegistry, process: asyncio.subprocess.Process, log: Path) -> None:
    for _ in range(200):
        assert process.returncode is None, log.read_text()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", registry.port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        return
    raise AssertionError(f"docker-registry did not come up: {log.read_text()}")
