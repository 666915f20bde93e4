"""Protocol buffers' wire format: varints, tags, lengths. Knows nothing of messages; ``protobuf`` gives them meaning."""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIGN = 1 << 63
_WRAP = 1 << 64


class TruncatedError(ValueError):
    """The data ends in the middle of a value."""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The value and the position after it. Raises TruncatedError, and ValueError past ten bytes."""
    result = shift = 0
    while True:
        try:
            byte = data[position]
        except IndexError:
            raise TruncatedError("unexpected EOF") from None
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (_WRAP - 1), position
        shift += 7
        if shift > 63:
            raise ValueError("proto: integer overflow")


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Each field as (number, wire type, value); values of length-delimited and fixed fields are bytes.

    Nearly all tags and most lengths are one byte, which is read here: a call for each would be half of the cost.
    """
    position, end = 0, len(data)
    while position < end:
        tag = data[position]
        if tag < 0x80:
            position += 1
        else:
            tag, position = read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("proto: illegal tag 0")
        if wire == VARINT:
            value, position = read_varint(data, position)
            yield number, wire, value
            continue
        if wire == BYTES:
            if position < end and (size := data[position]) < 0x80:
                position += 1
            else:
                size, position = read_varint(data, position)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"proto: illegal wireType {wire}")
        if position + size > end:
            raise TruncatedError("unexpected EOF")
        yield number, wire, data[position : position + size]
        position += size


def signed(value: int) -> int:
    """A varint as the signed 64-bit integer it stands for."""
    return value - _WRAP if value & _SIGN else value


def write_varint(out: bytearray, value: int) -> None:
    value &= _WRAP - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_tag(out: bytearray, number: int, wire: int) -> None:
    write_varint(out, number << 3 | wire)


def write_bytes(out: bytearray, number: int, value: bytes) -> None:
    write_tag(out, number, BYTES)
    write_varint(out, len(value))
    out += value
