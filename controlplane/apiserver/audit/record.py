"""One request under an audit policy: how much of it is kept, and the bodies that go by."""

from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.codecs import protobuf, yaml
from apimachinery.errors import StatusError
from controlplane.apiserver.audit.policy import Level, Verdict

Object = dict[str, Any]


@dataclass(slots=True)
class Record:
    """``request`` and ``response`` are the bytes on the wire; they are looked at when the event is written."""

    verdict: Verdict
    request: bytes = b""
    request_type: str = ""
    response: bytes = b""
    response_type: str = ""

    def bodies(self) -> Object:
        """``requestObject`` and ``responseObject``, as far as the level and the encodings allow."""
        found: Object = {}
        if self.verdict.level >= Level.REQUEST and (sent := _decoded(self.request, self.request_type)) is not None:
            found["requestObject"] = self._trimmed(sent)
        if self.verdict.level >= Level.REQUEST_RESPONSE and (answer := _decoded(self.response, self.response_type)) is not None:
            found["responseObject"] = self._trimmed(answer)
        return found

    def _trimmed(self, value: Any) -> Any:
        if self.verdict.managed_fields or not isinstance(value, dict):
            return value
        for obj in [value, *(value.get("items") or ())]:
            if isinstance(obj, dict) and isinstance(obj.get("metadata"), dict):
                obj["metadata"].pop("managedFields", None)
        return value


def _decoded(data: bytes, media_type: str) -> Any:
    """None for what is no object in JSON, YAML or protobuf."""
    if not data or "text/" in media_type:
        return None
    try:
        if "protobuf" in media_type:
            return protobuf.decode(data)
        return yaml.decode(data) if "yaml" in media_type else orjson.loads(data)
    except (ValueError, StatusError):
        return None
