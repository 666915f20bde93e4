"""Service account tokens for projected volumes: asked for once, renewed at 80 % of their life or after a day.

Called by ``plugins/projected.py``. The cache lives in memory only: after a restart every pod gets a fresh token.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apimachinery import times
from component.clock import Clock
from node.kubelet.interface import ObjectSource, Pod

_LONGEST = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    renew_at: datetime
    expires: datetime


@dataclass(slots=True)
class Tokens:
    """``get`` answers from the cache while the token is fresh; a failed renewal keeps one that is still valid."""

    source: ObjectSource
    clock: Clock
    _held: dict[tuple[str, str, str, int], _Token] = field(default_factory=dict)
    _busy: dict[tuple[str, str, str, int], asyncio.Lock] = field(default_factory=dict)

    async def get(self, pod: Pod, audience: str, seconds: int) -> str:
        return (await self._get(pod, audience, seconds)).text

    async def get_with_expiry(self, pod: Pod, audience: str, seconds: int) -> tuple[str, str]:
        """The token and when it expires, as CSI drivers are told."""
        token = await self._get(pod, audience, seconds)
        return token.text, times.format_time(token.expires)

    async def _get(self, pod: Pod, audience: str, seconds: int) -> _Token:
        metadata, spec = pod["metadata"], pod["spec"]
        account = spec.get("serviceAccountName") or "default"
        key = (metadata["uid"], account, audience, seconds)
        async with self._busy.setdefault(key, asyncio.Lock()):
            held = self._held.get(key)
            now = self.clock.now()
            if held is not None and now < held.renew_at:
                return held
            try:
                fresh = await self._request(pod, account, audience, seconds)
            except Exception:
                if held is not None and now < held.expires:
                    return held
                raise
            self._held[key] = fresh
            return fresh

    def forget(self, uid: str) -> None:
        for key in [key for key in self._held if key[0] == uid]:
            del self._held[key]
        for key in [key for key in self._busy if key[0] == uid]:
            del self._busy[key]

    async def _request(self, pod: Pod, account: str, audience: str, seconds: int) -> _Token:
        metadata = pod["metadata"]
        spec: dict[str, Any] = {
            "audiences": [audience] if audience else [],
            "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]},
        }
        asked_at = self.clock.now()
        answer: Mapping[str, Any] = await self.source.service_account_token(metadata["namespace"], account, spec)
        status = answer["status"]
        expires = times.parse_time(status["expirationTimestamp"])
        renew_at = min(asked_at + (expires - asked_at) * 0.8, asked_at + _LONGEST)
        return _Token(status["token"], renew_at, expires)
