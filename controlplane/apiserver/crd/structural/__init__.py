"""Structural schemas of custom resources: prune, default and validate by ``openAPIV3Schema`` (``apiextensions-apiserver``).

    schema = compile_structural(openapi_v3_schema)        # once per version of a definition
    findings = schema.normalize(obj)                      # what a client sent: unknown fields go, metadata gets its form
    schema.default(obj)
    errors = schema.validate(obj, old)                    # everything but rules
    errors += schema.rules(obj, old, errors).errors       # x-kubernetes-validations

``node`` reads the schema, ``structuralness`` says whether it is one, ``fast`` gives the quick yes and ``values`` the words,
``rules`` has the rules in CEL, ``apply`` the view of server-side apply. Pure: nothing here knows stores or requests.
"""

from controlplane.apiserver.crd.structural.compiled import Structural, compile_structural
from controlplane.apiserver.crd.structural.node import UnsupportedSchemaError

__all__ = ["Structural", "UnsupportedSchemaError", "compile_structural"]
