"""Base64 fields of ConfigMaps and Secrets. Bad base64 is a bad request, as it is where upstream decodes the body."""

import binascii
from typing import Any

from apimachinery import errors


def checked_bytes(obj: dict[str, Any], field: str) -> None:
    """Refuse (400) entries of ``obj[field]`` that are not base64."""
    for encoded in (obj.get(field) or {}).values():
        try:
            binascii.a2b_base64(encoded, strict_mode=True)
        except ValueError:  # binascii.Error, and text that is not ASCII
            kind, version = obj.get("kind", ""), str(obj.get("apiVersion", "")).rpartition("/")[2]
            position = _first_bad(encoded)
            raise errors.bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: illegal base64 data at input byte {position}'
            ) from None


def _first_bad(encoded: str) -> int:
    """Where Go's decoder stops: the first character outside the alphabet, or the last incomplete group."""
    for position, character in enumerate(encoded):
        if not (character.isascii() and (character.isalnum() or character in "+/")):
            return position
    return len(encoded) // 4 * 4


def decoded_size(encoded: str) -> int:
    return len(encoded) // 4 * 3 - encoded.count("=", -2)
