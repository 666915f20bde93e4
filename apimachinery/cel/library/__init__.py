"""Kubernetes' own functions, one library per file (``k8s.io/apiserver/pkg/cel/library``, as v1.36 enables them).

Strings, sets, optionals, ``cel.bind``, base64 and comprehensions of two variables come with the evaluator.
"""

from apimachinery.cel.library import declare, lists, maps, quantity, regex, semver

OVERLOADS = (*lists.OVERLOADS, *regex.OVERLOADS, *quantity.OVERLOADS, *semver.OVERLOADS)
DECLARATIONS = declare.declarations(OVERLOADS)
IMPLEMENTATIONS = declare.implementations(OVERLOADS)
BESIDE_OTHERS = (*lists.BESIDE_OTHERS, *maps.OVERLOADS)
