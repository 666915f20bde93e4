"""Values of Kubernetes' own types in expressions: quantities, versions, addresses, networks, URLs, images, questions of access.

The evaluator carries protobuf messages without looking into them, so that each type is a message of the type's name with one
field: a text that is the same for equal values. The field's name is a word of the language, which no expression can say.
``library`` makes and reads them; who evaluates may put them among the variables (device attributes, capacities).
"""

from datetime import datetime, timedelta
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

QUANTITY, SEMVER, URL = "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL"
IP, CIDR, FORMAT, IMAGE = "net.IP", "net.CIDR", "kubernetes.NamedFormat", "kubernetes.Image"
AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION = (
    f"kubernetes.authorization.{name}" for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
NAMES = frozenset({QUANTITY, SEMVER, URL, IP, CIDR, FORMAT, IMAGE, AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION})
_FIELD = "null"
_TYPE_STRING, _OPTIONAL = 9, 1


def new_pool() -> Any:
    """A descriptor pool with these types, for environments that add types of their own."""
    pool = descriptor_pool.DescriptorPool()
    for name in sorted(NAMES):
        package, _, short = name.rpartition(".")
        file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
        message = file.message_type.add(name=short)
        message.field.add(name=_FIELD, number=1, type=_TYPE_STRING, label=_OPTIONAL)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = new_pool()
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


def moment(text: str) -> Any:
    """A point in time from its JSON form, wherever it stands among the values. Raises ValueError."""
    made = timestamp_pb2.Timestamp()
    made.FromJsonString(text)
    return made


def given_back(value: Any) -> Any:
    """A result of one evaluation as a value for another: points in time and durations may stand deep inside it."""
    if isinstance(value, dict):
        return {key: given_back(held) for key, held in value.items()}
    if isinstance(value, list):
        return [given_back(held) for held in value]
    if isinstance(value, datetime):
        made = timestamp_pb2.Timestamp()
        made.FromDatetime(value)
        return made
    if isinstance(value, timedelta):
        length = duration_pb2.Duration()
        length.FromTimedelta(value)
        return length
    return value
