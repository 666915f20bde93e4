"""The rules of a stored schema, compiled for evaluation: a tree like the schema's, without the parts that have none."""

from dataclasses import dataclass, field
from typing import Any

from apimachinery.cel.ast import Node as Tree
from apimachinery.cel.environment import CompileError, Program
from controlplane.apiserver.crd.structural.node import Node, Rule
from controlplane.apiserver.crd.structural.paths import FieldPathError, resolve
from controlplane.apiserver.crd.structural.rules import estimate, inputs
from controlplane.apiserver.crd.structural.rules.checking import OLD, plain
from controlplane.apiserver.crd.structural.rules.declared import Types, with_meta

_WITH_OLD = "cel.bind(oldSelf, optional.of(oldSelf),\n{}\n)"
_WITHOUT_OLD = "cel.bind(oldSelf, optional.none(),\n{}\n)"


@dataclass(slots=True)
class CompiledRule:
    """``programs`` is for a value that was there before, and for one that was not; the latter None for a rule of transitions."""

    rule: Rule
    error: str = ""
    with_old: Program | None = None
    without_old: Program | None = None
    tree: Tree | None = None
    most: int = 0
    uses_old: bool = False
    message: Program | None = None
    place: str = ""  # the field below the value that the rule speaks of

    @property
    def name(self) -> str:
        """How errors call the rule."""
        return str(self.rule.get("message") or self.rule.get("rule") or "").strip()


@dataclass(slots=True)
class Rules:
    """The rules of one node, and of the nodes below."""

    node: Node
    rules: list[CompiledRule] = field(default_factory=list)
    convert: inputs.Converter | None = None
    properties: "dict[str, Rules]" = field(default_factory=dict)
    additional: "Rules | None" = None
    items: "Rules | None" = None


def compiled(node: Node, types: Types | None = None, *, resource: bool) -> Rules | None:
    """None for a schema that has no rule anywhere."""
    types = types or Types()
    below = {name: made for name, inner in node.properties.items() if (made := compiled(inner, types, resource=inner.embedded))}
    additional = compiled(node.additional, types, resource=node.additional.embedded) if node.additional else None
    items = compiled(node.items, types, resource=node.items.embedded) if node.items else None
    if not node.rules and not below and additional is None and items is None:
        return None
    made = Rules(node, properties=below, additional=additional, items=items)
    if node.rules:
        made.convert = inputs.compiled(with_meta(node) if resource else node)
        declared = types.of(node, resource=resource)
        size = declared.size if declared is not None else estimate.UNKNOWN
        made.rules = [_compile(rule, node, size) for rule in node.rules]
    return made


def _compile(rule: Rule, node: Node, size: estimate.Size) -> CompiledRule:
    expression, made = str(rule.get("rule") or ""), CompiledRule(rule)
    if not expression.strip():
        return made
    try:
        program = plain().compile(expression)
        made.uses_old = OLD in program.variables
        made.tree = program.tree
        made.most = estimate.most(program.tree, {"self": size, OLD: size})
        made.with_old = made.without_old = program
        if made.uses_old:
            optional = bool(rule.get("optionalOldSelf"))
            made.with_old = plain().compile(_WITH_OLD.format(expression)) if optional else program
            made.without_old = plain().compile(_WITHOUT_OLD.format(expression)) if optional else None
        message: Any = rule.get("messageExpression")
        if message and str(message).strip():
            made.message = plain().compile(str(message))
        if rule.get("fieldPath"):
            made.place = resolve(str(rule["fieldPath"]).strip(), node)[0]
    except (CompileError, FieldPathError) as error:
        made.error = str(error)
    return made
