"""Services: a stable address and ports in front of changing pods."""

from controlplane.apiserver.kinds.core.service.strategy import ServiceStrategy

__all__ = ["ServiceStrategy"]
