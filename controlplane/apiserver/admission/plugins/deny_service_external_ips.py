"""DenyServiceExternalIPs: nobody claims addresses that are not the cluster's (CVE-2020-8554); what is there may stay."""

from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Object, refuse
from controlplane.apiserver.admission.plugins.base import Validating


class DenyServiceExternalIPs(Validating):
    name = "DenyServiceExternalIPs"

    def handles(self, attributes: Attributes) -> bool:
        return attributes.group_resource == "services" and not attributes.subresource and attributes.operation in (CREATE, UPDATE)

    async def validate(self, attributes: Attributes) -> None:
        if _addresses(attributes.obj) - _addresses(attributes.old):
            raise refuse(attributes, "Use of external IPs is denied by admission control")


def _addresses(service: Object | None) -> set[str]:
    return set(((service or {}).get("spec") or {}).get("externalIPs") or ())
