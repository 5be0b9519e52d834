"""A template's syntax tree, rewritten so that its text stays known as its own and its costs are counted."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from jinja2 import TemplateSyntaxError, nodes
from jinja2.visitor import NodeTransformer

# Filters that only this rewriting uses: a name with a blank cannot be written in a template.
OWN = "own text"
LITERAL = "own literal"
WRITTEN = "written value"
CONCAT = "joined texts"
EACH = "counted items"
WEIGHED = "weighed value"
CHARGED = "counted steps"

_Body = TypeVar("_Body", nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)


def rewrite(tree: nodes.Template) -> nodes.Template:
    """The tree with every text, value, loop and body handed to our own filters.

    Raises:
        TemplateSyntaxError: it uses a tag that no prompt may use; names the line.
    """
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        _refuse(node, "a prompt stands in one file: include, import and extends are not supported")
    for node in tree.find_all(nodes.ScopedEvalContextModifier):
        _refuse(node, "the tag autoescape is not supported")
    _Rewriter().visit(tree)
    return tree


def _refuse(node: nodes.Node, problem: str) -> NoReturn:
    raise TemplateSyntaxError(problem, node.lineno)


class _Rewriter(NodeTransformer):
    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802 - Jinja's name
        node.nodes = [self._output(child) for child in node.nodes]
        return node

    def _output(self, node: nodes.Expr) -> nodes.Expr:
        if isinstance(node, nodes.TemplateData):
            return _filtered(nodes.Const(node.data, lineno=node.lineno), OWN)
        return _filtered(self._visited(_with_literals(node)), WRITTEN)

    def visit_Assign(self, node: nodes.Assign) -> nodes.Assign:  # noqa: N802 - Jinja's name
        node.node = self._visited(_with_literals(node.node))
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's name
        size = _size(node.test) if node.test else 0
        node.iter = _with_literals(node.iter)
        self._with_charge(node)
        node.iter = _filtered(node.iter, EACH, nodes.Const(1 + size))
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:  # noqa: N802 - Jinja's name
        return self._with_charge(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:  # noqa: N802 - Jinja's name
        return self._with_charge(node)

    def visit_Block(self, node: nodes.Block) -> nodes.Block:  # noqa: N802 - Jinja's name
        return self._with_charge(node)

    def _with_charge(self, node: _Body) -> _Body:
        steps = sum(map(_size, node.body))
        self.generic_visit(node)
        charge = _filtered(nodes.Const(steps, lineno=node.lineno), CHARGED)
        node.body.insert(0, nodes.Output([charge], lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802 - Jinja's name
        return _joined([self._visited(child) for child in node.nodes], node.lineno)

    def visit_List(self, node: nodes.List) -> nodes.Expr:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        return _weighed(node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        return _weighed(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        return node if node.ctx == "store" else _weighed(node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802 - Jinja's name
        node.expr = _weighed(self._visited(node.expr))
        for operand in node.ops:
            operand.expr = _weighed(self._visited(operand.expr))
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        return _weighed(node) if isinstance(node.arg, nodes.Slice) else node

    def _visited(self, node: nodes.Node) -> nodes.Expr:
        visited = self.visit(node)
        assert isinstance(visited, nodes.Expr)
        return visited


def _with_literals(node: nodes.Node) -> nodes.Node:
    """The expression, with the texts that stand in it as literals, and may come out of it as such, marked as own."""
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        return _filtered(node, LITERAL)
    if isinstance(node, nodes.CondExpr):
        node.expr1 = _with_literals(node.expr1)  # type: ignore[assignment]
        node.expr2 = _with_literals(node.expr2) if node.expr2 else None  # type: ignore[assignment]
    elif isinstance(node, nodes.Concat):
        node.nodes = [_with_literals(child) for child in node.nodes]  # type: ignore[misc]
    elif isinstance(node, (nodes.List, nodes.Tuple)):
        node.items = [_with_literals(child) for child in node.items]  # type: ignore[misc]
    return node


def _weighed(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _filtered(node, WEIGHED)


def _joined(texts: list[nodes.Expr], lineno: int) -> nodes.Expr:
    return _filtered(nodes.Tuple(texts, "load", lineno=lineno), CONCAT)


def _filtered(node: nodes.Node, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def _size(node: nodes.Node) -> int:
    return 1 + sum(1 for _ in node.find_all(nodes.Node))
