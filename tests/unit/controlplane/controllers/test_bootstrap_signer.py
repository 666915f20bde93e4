"""Signatures over cluster-info: whose, verified by another library, and gone with their token."""

import base64
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest

from controlplane.controllers.bootstrap_signer import signature, signed_data, usable

NOW = datetime(2026, 11, 30, tzinfo=UTC)
CONTENT = "apiVersion: v1\nkind: Config\n"
ABC, SECRET = "abcdef", "0123456789abcdef"


def token(**changes: str) -> dict[str, Any]:
    data = {"token-id": ABC, "token-secret": SECRET, "usage-bootstrap-signing": "true", **changes}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"type": "bootstrap.kubernetes.io/token", "metadata": {"name": f"bootstrap-token-{ABC}"}, "data": encoded}


@pytest.mark.parametrize(
    ("changes", "signs"),
    [
        ({}, True),
        ({"expiration": "2026-12-01T00:00:00Z"}, True),
        ({"expiration": "2026-11-29T00:00:00Z"}, False),
        ({"expiration": "soon"}, False),
        ({"usage-bootstrap-signing": "false"}, False),
        ({"token-id": "other0"}, False),
        ({"token-secret": ""}, False),
    ],
)
def test_who_signs(changes: dict[str, str], signs: bool) -> None:
    assert usable(token(**changes), NOW) == ((ABC, SECRET) if signs else None)


def test_another_library_verifies_it() -> None:
    header, nothing, mark = signature(CONTENT, ABC, SECRET).split(".")
    assert nothing == ""
    payload = base64.urlsafe_b64encode(CONTENT.encode()).rstrip(b"=").decode()
    read = jwt.api_jws.decode_complete(
        f"{header}.{payload}.{mark}", SECRET * 2, algorithms=["HS256"], options={"verify_signature": False}
    )
    assert read["header"] == {"alg": "HS256", "kid": ABC}
    assert read["payload"] == CONTENT.encode()
    key = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    assert key.verify(f"{header}.{payload}".encode(), SECRET.encode(), read["signature"])
    assert not key.verify(f"{header}.{payload}".encode(), b"another", read["signature"])


def test_signatures_come_and_go_with_tokens() -> None:
    data = {"kubeconfig": CONTENT, "jws-kubeconfig-gone00": "x", "other": "kept"}
    signed = signed_data(data, [(ABC, SECRET)])
    assert signed == {"kubeconfig": CONTENT, "other": "kept", f"jws-kubeconfig-{ABC}": signature(CONTENT, ABC, SECRET)}
    assert signed_data(signed, [(ABC, SECRET)]) == signed
    assert signed_data({**signed, "kubeconfig": "changed"}, [(ABC, SECRET)]) != signed
    assert signed_data({"jws-kubeconfig-gone00": "x"}, [(ABC, SECRET)]) == {}
