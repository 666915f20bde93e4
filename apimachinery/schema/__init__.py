"""What every built-in kind looks like, compiled once and lazily: the one table that codecs, patches and OpenAPI read.

``load()`` gives the ``Schemas`` of the release; ``Schemas.of(gvk)`` a ``StructSchema``; ``check`` compares an object with
one (type errors, unknown fields, pruning). Imported by the API server alone: other daemons need no schema.
"""

from apimachinery.schema.check import prune
from apimachinery.schema.loader import Schemas, load
from apimachinery.schema.types import Field, ListSchema, MapSchema, ScalarSchema, Schema, StructSchema

__all__ = ["Field", "ListSchema", "MapSchema", "ScalarSchema", "Schema", "Schemas", "StructSchema", "load", "prune"]
