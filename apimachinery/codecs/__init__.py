"""Bytes to objects and back: JSON, YAML, protobuf, and which of them a request asks for. No I/O."""
