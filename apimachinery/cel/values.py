"""Values of Kubernetes' own types in expressions: quantities, versions, addresses, networks, URLs.

The evaluator carries protobuf messages without looking into them, so that each type is a message of the type's name with one
field: a text that is the same for equal values. The field's name is a word of the language, which no expression can say.
``library`` makes and reads them; who evaluates may put them among the variables (device attributes, capacities).
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

QUANTITY, SEMVER, URL = "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL"
IP, CIDR, FORMAT = "net.IP", "net.CIDR", "kubernetes.NamedFormat"
NAMES = frozenset({QUANTITY, SEMVER, URL, IP, CIDR, FORMAT})
_FIELD = "null"
_TYPE_STRING, _OPTIONAL = 9, 1


def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for name in sorted(NAMES):
        package, _, short = name.rpartition(".")
        file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
        message = file.message_type.add(name=short)
        message.field.add(name=_FIELD, number=1, type=_TYPE_STRING, label=_OPTIONAL)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _pool()
_CLASSES = {name: message_factory.GetMessageClass(POOL.FindMessageTypeByName(name)) for name in NAMES}


def make(name: str, text: str) -> Any:
    """A value of the type ``name``. Equal texts are equal values."""
    value = _CLASSES[name]()
    setattr(value, _FIELD, text)
    return value


def text_of(value: Any) -> str:
    text: str = getattr(value, _FIELD)
    return text


def name_of(value: Any) -> str:
    """The name of a value's type; empty for values of the language's own types."""
    descriptor = getattr(value, "DESCRIPTOR", None)
    return descriptor.full_name if descriptor is not None else ""
