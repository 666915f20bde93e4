"""Base64 fields of ConfigMaps and Secrets, whose text the schema has checked."""


def decoded_size(encoded: str) -> int:
    return len(encoded) // 4 * 3 - encoded.count("=", -2)
