"""The contract of authorizers. ``filters.authorize`` and the access reviews ask a union of them."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from controlplane.apiserver.authentication.interface import UserInfo


class Decision(Enum):
    ALLOW = "allow"
    DENY = "deny"  # final: later authorizers are not asked
    NO_OPINION = "no opinion"


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked. For paths that are no resource only ``user``, ``verb`` and ``path`` count."""

    user: UserInfo
    verb: str
    path: str = ""
    is_resource: bool = True
    api_group: str = ""
    api_version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""  # of a list, watch or deletecollection, as sent: it narrows what is asked for
    label_selector: str = ""


class Authorizer(Protocol):
    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        """The decision and, for DENY and NO_OPINION, a reason to show or an empty string."""
        ...
