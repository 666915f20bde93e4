"""Small synchronous questions to a starting cluster. The client room is asynchronous and heavier; `up` only polls."""

import http.client
import json
import ssl
from typing import Any

from cli.cluster.layout import Layout


def api_get(layout: Layout, address: str, port: int, path: str, seconds: float = 2.0) -> tuple[int, Any]:
    """(status, decoded body) of one GET as the administrator. Raises OSError when there is no answer."""
    context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    connection = http.client.HTTPSConnection(address, port, timeout=seconds, context=context)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
    try:
        return response.status, json.loads(body)
    except ValueError:
        return response.status, body.decode(errors="replace")


def node_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
