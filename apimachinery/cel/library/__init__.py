"""Kubernetes' own functions, one library per file (``k8s.io/apiserver/pkg/cel/library``, as v1.36 enables them).

Strings, sets, optionals, ``cel.bind``, base64 and comprehensions of two variables come with the evaluator.
"""

from apimachinery.cel.library import (
    authz,
    cidr,
    declare,
    formats,
    image,
    ip,
    jsonpatch,
    lists,
    maps,
    quantity,
    regex,
    semver,
    urls,
)

OVERLOADS = tuple(
    each for one in (lists, regex, quantity, semver, ip, cidr, urls, authz, formats, image) for each in one.OVERLOADS
)
DECLARATIONS = declare.declarations((*OVERLOADS, *formats.DECLARED))
IMPLEMENTATIONS = declare.implementations(OVERLOADS)
BESIDE_OTHERS = (*lists.BESIDE_OTHERS, *maps.OVERLOADS, *ip.BESIDE_OTHERS)
MUTATION_DECLARATIONS = declare.declarations((*OVERLOADS, *formats.DECLARED, *jsonpatch.OVERLOADS))
MUTATION_IMPLEMENTATIONS = declare.implementations((*OVERLOADS, *jsonpatch.OVERLOADS))
"""With what only mutations have."""
