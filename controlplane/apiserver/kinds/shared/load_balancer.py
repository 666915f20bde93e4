"""``status.loadBalancer`` of Services and Ingresses."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks


def check_load_balancer(status: Mapping[str, Any]) -> list[FieldError]:
    """Addresses and host names of every ingress point."""
    found: list[FieldError] = []
    for position, point in enumerate((status.get("loadBalancer") or {}).get("ingress") or ()):
        path = f"status.loadBalancer.ingress[{position}]"
        address, hostname = point.get("ip"), point.get("hostname")
        if address:
            found += checks.each(f"{path}.ip", address, names.is_ip(address))
        if hostname:
            found += checks.each(f"{path}.hostname", hostname, names.is_dns1123_subdomain(hostname))
            if not names.is_ip(hostname):
                found.append(fieldpath.invalid(f"{path}.hostname", hostname, "must be a DNS name, not an IP address"))
        if point.get("ipMode") not in (None, "VIP", "Proxy"):
            found.append(fieldpath.not_supported(f"{path}.ipMode", point["ipMode"], ("VIP", "Proxy")))
        if point.get("ipMode") and not address:
            found.append(fieldpath.forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
    return found
