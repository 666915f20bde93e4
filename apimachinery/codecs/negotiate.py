"""Media types: which encoding a request's body has, and which form of answer its ``Accept`` asks for.

Called by ``endpoints``. Answers may also be asked for as another kind: ``application/json;as=Table;v=v1;g=meta.k8s.io``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from apimachinery import errors

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
BODIES = (JSON, YAML, PROTOBUF)
TEXTS = (JSON, YAML)

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"
APPLY_CBOR = "application/apply-patch+cbor"
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_YAML)


@dataclass(frozen=True, slots=True)
class MediaType:
    """One media type with its parameters, lower-cased names; ``quality`` is ``q``."""

    name: str
    parameters: dict[str, str] = field(default_factory=dict)
    quality: float = 1.0

    @property
    def as_kind(self) -> str:
        """``Table``, ``PartialObjectMetadata``, ``APIGroupDiscoveryList``... or empty for the object as it is."""
        return self.parameters.get("as", "")

    @property
    def as_group_version(self) -> str:
        group, version = self.parameters.get("g", ""), self.parameters.get("v", "")
        return f"{group}/{version}" if group else version


def parse(text: str) -> MediaType:
    """One media type, as in ``Content-Type``."""
    name, *rest = (part.strip() for part in text.split(";"))
    parameters = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if equals:
            parameters[key.strip().lower()] = value.strip().strip('"')
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 0.0
    return MediaType(name.lower(), parameters, quality)


def parse_accept(header: str) -> list[MediaType]:
    """The alternatives of an ``Accept`` header, most wanted first. Absent or empty means anything."""
    wanted = [parse(part) for part in header.split(",") if part.strip()] or [MediaType("*/*")]
    # Stable: at equal quality the client's order stands, but exact types go before wildcards.
    return sorted((each for each in wanted if each.quality > 0), key=lambda each: (-each.quality, "*" in each.name))


def accepts(header: str, offers: Sequence[str] = BODIES, kinds: Sequence[str] = ("", "Table")) -> MediaType:
    """The first alternative that can be served, with a wildcard replaced by the first offer.

    ``kinds`` are the ``as=`` forms on offer ("" is the object as it is), ``offers`` the encodings of the object as it is: its
    metadata alone comes in all of them, a Table as text. Raises a 406 StatusError that lists the offers.
    """
    for each in parse_accept(header):
        name = _offered(each.name, _ENCODINGS.get(each.as_kind, offers))
        if name and each.as_kind in kinds:
            return MediaType(name, each.parameters, each.quality)
    raise errors.not_acceptable(offers)


_ENCODINGS = {"Table": TEXTS, "PartialObjectMetadata": BODIES, "PartialObjectMetadataList": BODIES}


def _offered(name: str, offers: Sequence[str]) -> str:
    if name in offers:
        return name
    if name == "*/*":
        return offers[0]
    family = name.removesuffix("*") if name.endswith("/*") else None
    return next((offer for offer in offers if family and offer.startswith(family)), "")


def body_type(content_type: str, offers: Sequence[str] = BODIES) -> str:
    """The encoding of a request body; an absent header means JSON. Raises a 415 StatusError that lists what is understood."""
    if not content_type.strip():
        return offers[0]
    name = parse(content_type).name
    if name not in offers:
        raise errors.unsupported_media_type(offers)
    return name
