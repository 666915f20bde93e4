"""Node selectors and node affinity: does this pod accept that node? Shared by scheduler, kubelet and controllers.

:func:`compile_required` turns a pod's terms into one predicate, made once per pod and called once per node.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apimachinery.meta import labels_of, name_of

Node = Mapping[str, Any]
Predicate = Callable[[Node], bool]


def matches_expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """One requirement of a node selector. ``Gt``/``Lt`` compare integers; what is no integer does not match."""
    key, operator = expression.get("key", ""), expression.get("operator")
    values: Sequence[str] = expression.get("values") or ()
    if operator == "In":
        return labels.get(key) in values if key in labels else False
    if operator == "NotIn":
        return labels.get(key) not in values if key in labels else True
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator in ("Gt", "Lt") and key in labels and len(values) == 1:
        return _compares(operator, labels[key], values[0])
    return False


def _compares(operator: str, held: str, wanted: str) -> bool:
    try:
        left, right = int(held), int(wanted)
    except ValueError:
        return False
    return left > right if operator == "Gt" else left < right


def matches_term(term: Mapping[str, Any], node: Node) -> bool:
    """All expressions over labels and all over fields (only ``metadata.name`` exists); an empty term matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    labels = labels_of(node)
    known = {"metadata.name": name_of(node)}
    return all(matches_expression(each, labels) for each in expressions) and all(
        matches_expression(each, known) for each in fields
    )


def matches_node_selector(selector: Mapping[str, Any], node: Node) -> bool:
    """A ``v1.NodeSelector``: any of its terms."""
    return any(matches_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def node_affinity(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}


def compile_required(pod: Mapping[str, Any]) -> Predicate | None:
    """The pod's ``nodeSelector`` and required node affinity as one predicate, or None if it accepts every node."""
    wanted: Mapping[str, str] = (pod.get("spec") or {}).get("nodeSelector") or {}
    required = node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    if not wanted and required is None:
        return None

    def accepts(node: Node) -> bool:
        labels = labels_of(node)
        if any(labels.get(key) != value for key, value in wanted.items()):
            return False
        return required is None or matches_node_selector(required, node)

    return accepts


def accepts_node(pod: Mapping[str, Any], node: Node) -> bool:
    """Whether ``nodeSelector`` and required node affinity let the pod run there."""
    predicate = compile_required(pod)
    return predicate is None or predicate(node)


def preferred_weight(pod: Mapping[str, Any], node: Node) -> int:
    """The summed weights of the preferred terms that match; an empty preference counts for nothing."""
    terms = node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(int(entry.get("weight") or 0) for entry in terms if matches_term(entry.get("preference") or {}, node))
