"""Jinja templates in a sandbox: the language that prompts are mostly written in.

The syntax tree is rewritten so that the template's own text stays known as such and its costs are counted.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NoReturn, TypeVar

import jinja2
from jinja2 import TemplateSyntaxError, nodes
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Cycler, Joiner, Namespace, missing, pass_context
from jinja2.visitor import NodeTransformer

from tunecheck._errors import PromptRenderError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.prompts._bounds import (
    BUDGET,
    OPERATORS,
    Budget,
    binary,
    bounded_filters,
    bounded_tests,
    budget_of,
    check_call,
)
from tunecheck.prompts._fragments import Fragment, join, literal
from tunecheck.prompts._language import MAX_PARTS, Language, TemplateError

# -- the tree, rewritten

_Body = TypeVar("_Body", nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)


def rewrite(tree: nodes.Template) -> nodes.Template:
    """The tree with every text, value, loop and body handed to our own filters."""
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
            return _filtered(nodes.Const(node.data, lineno=node.lineno), _own)
        return _filtered(self._visited(_with_literals(node)), _written)

    def visit_Assign(self, node: nodes.Assign) -> nodes.Assign:  # noqa: N802 - Jinja's name
        node.node = self._visited(_with_literals(node.node))
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's name
        size = _size(node.test) if node.test else 0
        node.iter = _with_literals(node.iter)
        self._with_charge(node)
        node.iter = _filtered(node.iter, _each, nodes.Const(1 + size))
        return node

    def _with_charge(self, node: _Body) -> _Body:
        steps = sum(map(_size, node.body))
        self.generic_visit(node)
        charge = _filtered(nodes.Const(steps, lineno=node.lineno), _charged)
        node.body.insert(0, nodes.Output([charge], lineno=node.lineno))
        return node

    visit_Macro = visit_CallBlock = visit_Block = _with_charge  # noqa: N815 - Jinja's names

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802 - Jinja's name
        texts = [self._visited(child) for child in node.nodes]
        return _filtered(nodes.Tuple(texts, "load", lineno=node.lineno), _concat)

    def _with_its_weight(self, node: nodes.List | nodes.Dict) -> nodes.Expr:
        self.generic_visit(node)
        return _with_weight(node)

    visit_List = visit_Dict = _with_its_weight  # noqa: N815 - Jinja's names

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        return node if node.ctx == "store" else _with_weight(node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802 - Jinja's name
        node.expr = _with_weight(self._visited(node.expr))
        for operand in node.ops:
            operand.expr = _with_weight(self._visited(operand.expr))
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802 - Jinja's name
        self.generic_visit(node)
        return _with_weight(node) if isinstance(node.arg, nodes.Slice) else node

    def _visited(self, node: nodes.Node) -> nodes.Expr:
        visited = self.visit(node)
        assert isinstance(visited, nodes.Expr)
        return visited


def _with_literals(node: nodes.Node) -> nodes.Node:
    """The expression, with the texts that stand in it as literals, and may come out of it as such, marked as own."""
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        return _filtered(node, _literal)
    if isinstance(node, nodes.CondExpr):
        node.expr1 = _with_literals(node.expr1)  # type: ignore[assignment]
        node.expr2 = _with_literals(node.expr2) if node.expr2 else None  # type: ignore[assignment]
    elif isinstance(node, nodes.Concat):
        node.nodes = [_with_literals(child) for child in node.nodes]  # type: ignore[misc]
    elif isinstance(node, (nodes.List, nodes.Tuple)):
        node.items = [_with_literals(child) for child in node.items]  # type: ignore[misc]
    return node


def _with_weight(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _filtered(node, _weighed)


def _filtered(node: nodes.Node, function: Callable[..., object], *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, _filter_name(function), list(args), [], None, None, lineno=node.lineno)


def _filter_name(function: Callable[..., object]) -> str:
    # Only this rewriting uses them: a name with a blank cannot be written in a template.
    return f"own {function.__name__}"


def _size(node: nodes.Node) -> int:
    return 1 + sum(1 for _ in node.find_all(nodes.Node))


# -- the template

_UNKNOWN = re.compile(r"No (filter|test) named '([^']*)'")

_SHARED = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Getattr)
"""What means the same in Nunjucks, of which nothing else is taken."""


class Jinja(Language):
    """A compiled Jinja template. With `nunjucks` it is one of Nunjucks that only puts texts and whole numbers in."""

    def __init__(self, body: str, *, trim_blocks: bool, nunjucks: bool = False) -> None:
        environment = _Environment(trim_blocks=trim_blocks, nunjucks=nunjucks)
        try:
            tree = environment.parse(body)
            self.names = frozenset(find_undeclared_variables(tree) - environment.globals.keys())
            # The variables that the template itself looks for: with `default(…)` or `is defined`.
            filters = [node.node for node in tree.find_all(nodes.Filter) if node.name in ("default", "d")]
            tests = [node.node for node in tree.find_all(nodes.Test) if node.name in ("defined", "undefined")]
            self.optional = frozenset(node.name for node in (*filters, *tests) if isinstance(node, nodes.Name))
            written = [child for output in tree.find_all(nodes.Output) for child in output.nodes]
            plain = Counter(
                node.name
                for node in (*written, *(each.test for each in tree.find_all(nodes.If)))
                if isinstance(node, nodes.Name)
            )
            self.used = frozenset(Counter(node.name for node in tree.find_all(nodes.Name)) - plain)
            texts = [node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)]
            fields = [node.attr for node in tree.find_all(nodes.Getattr)]
            self.own_text = (*(node.data for node in tree.find_all(nodes.TemplateData)), *texts, *fields)
            if nunjucks:
                _check_nunjucks(tree)
            if sum(1 for _ in tree.find_all(nodes.Node)) > MAX_PARTS:
                raise TemplateError(f"the template has more than {MAX_PARTS} parts, which no prompt needs")
            code = environment.compile(rewrite(tree))
            self._template = jinja2.Template.from_code(environment, code, dict(environment.globals))
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(_syntax_problem(error, environment), error.lineno) from None

    def rendered(self, values: Mapping[str, JSON], budget: Budget) -> Fragment:
        context = self._template.new_context({**values, BUDGET: budget})
        return join(self._template.root_render_func(context))

    def line(self, traceback: TracebackType | None) -> int:
        line = 1
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._template.root_render_func.__code__.co_filename:
                line = self._template.get_corresponding_lineno(traceback.tb_lineno)
            traceback = traceback.tb_next
        return line


def _check_nunjucks(tree: nodes.Template) -> None:
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, _SHARED):
            what = type(node).__name__.lower()
            _refuse(node, f"of Nunjucks only {{{{ name }}}} is read, no {what}, which may mean something else in Jinja")


class _Absent(StrictUndefined):
    """What a value does not have: an error where it is written, but a template may ask for it with `if`."""

    def __bool__(self) -> bool:  # type: ignore[override]  # the base always raises
        if self._undefined_obj is missing:
            self._fail_with_undefined_error()
        return False


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja as prompts have it, with costs counted. `concat` is what Jinja joins captured output with."""

    concat = staticmethod(join)
    intercepted_binops = frozenset(OPERATORS)

    def __init__(self, *, trim_blocks: bool, nunjucks: bool) -> None:
        # Nothing is worked out while compiling: there a constant such as 'a'|center(10**9) would escape the count.
        super().__init__(
            trim_blocks=trim_blocks, keep_trailing_newline=True, undefined=_Absent, optimized=False, cache_size=0
        )
        self.filters = bounded_filters() | {_filter_name(function): function for function in _OWN_FILTERS}
        self.nunjucks = nunjucks
        self.tests = bounded_tests()  # type: ignore[assignment]  # inferred too narrowly
        self.globals = {"range": safe_range, "dict": dict, "namespace": Namespace, "cycler": Cycler, "joiner": Joiner}

    def call(  # Jinja hides its own names behind two underscores, and so must this
        __self,  # noqa: N805
        __context: Context,
        __obj: object,
        *args: object,
        **kwargs: object,
    ) -> object:
        budget = budget_of(__context)
        check_call(budget, __obj, args, kwargs)
        return budget.taken(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        return binary(budget_of(context), operator, left, right)


@pass_context
def _own(context: Context, text: str) -> Fragment:
    budget_of(context).write(len(text))
    return literal(text)


@pass_context
def _literal(context: Context, text: str) -> Fragment:
    return literal(text)


@pass_context
def _written(context: Context, value: object) -> str:
    budget = budget_of(context)
    nunjucks = isinstance(context.environment, _Environment) and context.environment.nunjucks
    if nunjucks and type(value) is not int and not isinstance(value, (str, Undefined)):
        raise PromptRenderError(f"a {type(value).__name__} would be written in another way by Nunjucks: give a text")
    if not isinstance(value, str):
        # An undefined variable says so itself when it becomes text.
        value = str(value) if isinstance(value, Undefined) else budget.text_of(value)
    budget.charge(1)
    budget.write(len(value))
    return value if isinstance(value, Fragment) else str.__str__(value)


@pass_context
def _concat(context: Context, values: tuple[object, ...]) -> object:
    budget = budget_of(context)
    texts = [item if isinstance(item, str) else str(_written(context, item)) for item in values]
    budget.allow(sum(map(len, texts)))
    return budget.taken(join(texts))


@pass_context
def _each(context: Context, values: object, cost: int) -> object:
    return list(budget_of(context).each(iter(values), cost))  # type: ignore[call-overload]  # what has no items says so


@pass_context
def _weighed(context: Context, value: object) -> object:
    budget_of(context).weigh(value)
    return value


@pass_context
def _charged(context: Context, steps: int) -> Fragment:
    budget_of(context).charge(steps)
    return literal("")


_OWN_FILTERS = (_own, _literal, _written, _concat, _each, _weighed, _charged)


def _syntax_problem(error: jinja2.TemplateSyntaxError, environment: jinja2.Environment) -> str:
    unknown = _UNKNOWN.match(error.message or "")
    if unknown is None:
        return error.message or "not a template"
    sort, name = unknown.groups()
    known = environment.filters if sort == "filter" else environment.tests
    return f"there is no {sort} {name!r}{did_you_mean(name, [item for item in known if ' ' not in item])}"
