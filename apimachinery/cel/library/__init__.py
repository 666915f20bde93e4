"""Kubernetes' own functions, one library per file (``k8s.io/apiserver/pkg/cel/library``, as v1.36 enables them).

Strings, sets, optionals, ``cel.bind``, base64 and comprehensions of two variables come with the evaluator.
"""

from apimachinery.cel.library import cidr, declare, ip, lists, maps, quantity, regex, semver, urls

OVERLOADS = tuple(each for one in (lists, regex, quantity, semver, ip, cidr, urls) for each in one.OVERLOADS)
DECLARATIONS = declare.declarations(OVERLOADS)
IMPLEMENTATIONS = declare.implementations(OVERLOADS)
BESIDE_OTHERS = (*lists.BESIDE_OTHERS, *maps.OVERLOADS, *ip.BESIDE_OTHERS)
