"""Small synchronous questions to a starting cluster. The client room is asynchronous and heavier; `up` only polls."""

import http.client
import json
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cli.cluster.layout import Layout


def api_get(layout: Layout, address: str, port: int, path: str, seconds: float = 2.0) -> tuple[int, Any]:
    """(status, decoded body) of one GET as the administrator. Raises OSError when there is no answer."""
    with _connected(layout, address, port, seconds) as connection:
        return _ask(connection, "GET", path)


def api_apply(
    layout: Layout, address: str, port: int, objects: Iterable[tuple[str, Mapping[str, Any]]], seconds: float = 10.0
) -> None:
    """Apply objects, each at its path, as the administrator: made, or mended where they say something else.

    Raises OSError when there is no answer, and when the server refuses one.
    """
    with _connected(layout, address, port, seconds) as connection:
        for path, obj in objects:
            status, answer = _ask(connection, "PATCH", f"{path}?fieldManager=pybernetes&force=true", obj)
            if status >= 400:
                raise OSError(answer.get("message") if isinstance(answer, dict) else answer)


@contextmanager
def _connected(layout: Layout, address: str, port: int, seconds: float) -> Iterator[http.client.HTTPSConnection]:
    context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    connection = http.client.HTTPSConnection(address, port, timeout=seconds, context=context)
    try:
        yield connection
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def _ask(
    connection: http.client.HTTPSConnection, method: str, path: str, obj: Mapping[str, Any] | None = None
) -> tuple[int, Any]:
    headers = {"Accept": "application/json", "Content-Type": "application/apply-patch+yaml"}
    connection.request(method, path, body=None if obj is None else json.dumps(obj), headers=headers)
    response = connection.getresponse()
    body = response.read()
    try:
        return response.status, json.loads(body)
    except ValueError:
        return response.status, body.decode(errors="replace")


def node_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
