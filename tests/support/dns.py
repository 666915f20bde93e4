"""Objects that cluster DNS reads, and a whole answer from them, for its tests and its bench."""

from typing import Any

import dns.message
import dns.rdatatype

from component.clock import Clock, FakeClock
from component.metrics import Registry
from netproxy.dns import facts
from netproxy.dns.answers import Answers
from netproxy.dns.cache import Cache
from netproxy.dns.forward import Forwarder
from netproxy.dns.metrics import DNSMetrics
from netproxy.dns.records import Records
from netproxy.dns.responder import Door, Network, Responder

DOMAIN = "cluster.local"
UDP, TCP = Door("udp", "10.244.0.9"), Door("tcp", "10.244.0.9")


def service(name: str, *addresses: str, namespace: str = "default", ports: tuple[Any, ...] = (("http", 80),), **spec: Any) -> Any:
    """A Service with cluster IPs; headless without."""
    listed = [{"name": port, "port": number, "protocol": "TCP"} for port, number in ports]
    own = {"clusterIP": addresses[0] if addresses else "None", "clusterIPs": list(addresses or ("None",)), "ports": listed}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": own | spec}


def external(name: str, target: str, namespace: str = "default") -> Any:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"type": "ExternalName", "externalName": target}}


def endpoint_slice(
    service_name: str, *endpoints: Any, suffix: str = "1", namespace: str = "default", ports: tuple[Any, ...] = (("http", 8080),)
) -> Any:
    """A slice; each endpoint is an address or a dict of its own fields."""
    made = [{"addresses": [each], "conditions": {"ready": True}} if isinstance(each, str) else each for each in endpoints]
    family = "IPv6" if any(":" in each["addresses"][0] for each in made) else "IPv4"
    return {
        "metadata": {
            "name": f"{service_name}-{suffix}",
            "namespace": namespace,
            "labels": {facts.SERVICE_LABEL: service_name},
        },
        "addressType": family,
        "endpoints": made,
        "ports": [{"name": name, "port": port, "protocol": "TCP"} for name, port in ports],
    }


class Zone:
    """A responder over objects that a test adds."""

    def __init__(
        self, *objects: Any, clock: Clock | None = None, allowed: tuple[Network, ...] = (), stale: int = 0, popular: int = 0
    ) -> None:
        self.records = Records()
        self.metrics = DNSMetrics(Registry(process=False))
        clock = clock or FakeClock()
        self.cache = Cache(100, 30, clock, stale=stale, popular=popular)
        self.forwarder = Forwarder(self.cache, 30, 10, clock, self.metrics)
        self.responder = Responder(self.records, Answers(self.records, DOMAIN, 30), self.forwarder, self.metrics, allowed)
        self.responder.ready = True
        for name in ("default", "kube-system"):
            self.records.add_namespace(name)
        for each in objects:
            self.add(each)

    def add(self, obj: Any) -> None:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if "addressType" in obj:
            piece = facts.slice_facts(obj)
            self.responder.changed(self.records.set_slice(namespace, name, piece, piece.service))
        else:
            self.responder.changed(self.records.set_service((namespace, name), facts.service_facts(obj)))

    def remove(self, obj: Any) -> None:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if "addressType" in obj:
            owner = obj["metadata"]["labels"][facts.SERVICE_LABEL]
            self.responder.changed(self.records.set_slice(namespace, name, None, owner))
        else:
            self.responder.changed(self.records.set_service((namespace, name), None))

    def ask(self, name: str, kind: str = "A", door: Door = UDP, **options: Any) -> dns.message.Message:
        """The decoded answer of one query, for names that need no resolver."""
        query = dns.message.make_query(name, kind, **options)
        reply = self.responder.respond(query.to_wire(), door)
        assert isinstance(reply, bytes)
        answer = dns.message.from_wire(reply)
        assert query.is_response(answer)
        return answer


def texts(answer: dns.message.Message, section: str = "answer") -> list[str]:
    """Records as ``name ttl type data``, sorted."""
    return sorted(
        f"{rrset.name} {rrset.ttl} {dns.rdatatype.to_text(rrset.rdtype)} {data}"
        for rrset in getattr(answer, section)
        for data in rrset
    )
