"""How a webhook is reached, of admission and of conversion alike: rules and texts of ``k8s.io/apiserver/pkg/util/webhook``."""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError

_URL_FORM = "; desired format: https://host[/path]"


def check_client(client: Mapping[str, Any], path: str) -> list[FieldError]:
    """``WebhookClientConfig``: exactly one of a URL and a Service."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [fieldpath.required(path, "exactly one of url or service is required")]
    return check_url(url, f"{path}.url") if url is not None else check_service(service or {}, f"{path}.service")


def check_url(url: str, path: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
        host = parts.netloc
    except ValueError as error:
        return [fieldpath.required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    found: list[FieldError] = []
    if parts.scheme != "https":
        found.append(fieldpath.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not host:
        found.append(fieldpath.invalid(path, host, f"host must be specified{_URL_FORM}"))
    if "@" in host:
        text = "user information is not permitted in the URL"
        found.append(fieldpath.invalid(path, host.rpartition("@")[0], text))
    for value, word in ((parts.fragment, "fragments"), (parts.query, "query parameters")):
        if value:
            found.append(fieldpath.invalid(path, value, f"{word} are not permitted in the URL"))
    return found


def check_service(service: Mapping[str, Any], path: str) -> list[FieldError]:
    missing = [field for field in ("name", "namespace") if not service.get(field)]
    found = [fieldpath.required(f"{path}.{field}", f"service {field} is required") for field in missing]
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        found.append(fieldpath.invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    where = service.get("path")
    if where and where != "/":
        found += _check_path(where, f"{path}.path")
    return found


def _check_path(text: str, path: str) -> list[FieldError]:
    if not text.startswith("/"):
        return [fieldpath.invalid(path, text, "must start with a '/'")]
    found: list[FieldError] = []
    for position, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            found.append(fieldpath.invalid(path, text, f"segment[{position}] may not be empty"))
        else:
            problems = names.is_dns1123_subdomain(step)
            found += [fieldpath.invalid(path, text, f"segment[{position}]: {problem}") for problem in problems]
    return found


def check_bundle(bundle: str, path: str) -> list[FieldError]:
    """``bundle``: certificates in PEM, in base64."""
    try:
        x509.load_pem_x509_certificates(base64.b64decode(bundle))
    except ValueError:
        return [fieldpath.invalid(path, bundle, "unable to load root certificates: unable to parse bytes as PEM block")]
    return []
