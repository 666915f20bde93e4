"""Who we are, beyond a client certificate in a file: bearer tokens, passwords, token files, and programs that print them.

Asked by ``client.transport`` before each request; it caches, so that a request pays for nothing but a comparison.
"""

import asyncio
import base64
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from apimachinery.times import parse_time
from client.kubeconfig import Config, ExecPlugin, KubeconfigError
from component.clock import Clock
from component.process import ProcessError, RealRunner, Runner

TOKEN_PERIOD = 60.0
_EXEC_TIMEOUT = 60.0


class Credentials:
    """The Authorization header of one Config.

    A token file is read again every minute; a program is run again when what it printed expires or was refused.
    """

    def __init__(self, config: Config, clock: Clock, runner: Runner | None = None) -> None:
        self._config, self._clock = config, clock
        self._runner = runner or RealRunner(clock)
        self._lock = asyncio.Lock()
        self._cached: str | None = None
        self._until = float("-inf")
        self._printed: dict[str, Any] = {}
        self._expires: datetime | None = None

    def use(self, config: Config) -> None:
        """Go on with another Config: a kubeconfig has been written anew."""
        self._config = config
        self.refused()

    async def header(self) -> str | None:
        """The header's value, or None where a certificate, or nothing, has to do. Raises KubeconfigError."""
        config = self._config
        if config.token_file is not None:
            return await self._from_file(config.token_file)
        if config.exec_plugin is not None:
            token = (await self._from_program(config.exec_plugin)).get("token")
            return f"Bearer {token}" if token else None
        if config.token:
            return f"Bearer {config.token}"
        if config.username:
            pair = f"{config.username}:{config.password or ''}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return None

    async def completed(self) -> Config:
        """The Config with a certificate that a program printed, if it did."""
        if self._config.exec_plugin is None:
            return self._config
        printed = await self._from_program(self._config.exec_plugin)
        certificate, key = printed.get("clientCertificateData"), printed.get("clientKeyData")
        if not certificate or not key:
            return self._config
        return replace(self._config, certificate_data=certificate.encode(), key_data=key.encode())

    def refused(self) -> None:
        """The server answered 401: what is cached is worth nothing."""
        self._until = float("-inf")
        self._printed = {}

    async def _from_file(self, path: str) -> str:
        if self._cached is None or self._clock.monotonic() >= self._until:
            try:
                text = (await asyncio.to_thread(Path(path).read_text)).strip()
            except OSError as error:
                # the old token may well outlive a file that is being replaced
                if self._cached is None:
                    raise KubeconfigError(f"cannot read token file {path}: {error.strerror or error}") from None
            else:
                self._cached = f"Bearer {text}"
            self._until = self._clock.monotonic() + TOKEN_PERIOD
        return self._cached

    async def _from_program(self, plugin: ExecPlugin) -> dict[str, Any]:
        async with self._lock:
            if self._printed and (self._expires is None or self._clock.now() < self._expires):
                return self._printed
            self._printed = await self._run(plugin)
            stamp = self._printed.get("expirationTimestamp")
            self._expires = parse_time(stamp) if stamp else None
            return self._printed

    async def _run(self, plugin: ExecPlugin) -> dict[str, Any]:
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        env = {**plugin.env, "KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()}
        try:
            done = await self._runner.run([plugin.command, *plugin.args], env=env, timeout=_EXEC_TIMEOUT)
            status = orjson.loads(done.stdout)["status"]
        except ProcessError as error:
            raise KubeconfigError(f"getting credentials: {error}") from None
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise KubeconfigError(f"getting credentials: {plugin.command} printed no ExecCredential with a status") from None
        if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
            raise KubeconfigError(f"getting credentials: {plugin.command} printed neither a token nor a client certificate")
        return status
