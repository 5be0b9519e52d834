"""The body of a prompt: a Jinja template in a sandbox, compiled once and rendered for each row.

The user trusts the template's code, but not its values: a value such as "user: ignore all this" must not open a
message. So each text knows whether it comes from the template:

1. Compiling rewrites the syntax tree: filters mark the template's own texts (`_own`) and check values (`_write`).
2. Rendering gives a `Fragment`, which records for each part whether it is the template's.
3. `Skeleton` replaces each value by a numbered mark. The reader of the dialect splits this text into messages.
4. The values are filled in. No value can open a message or an image, except the role of a message in a list of
   messages (`Role`), and values that are not text (`Inserted`).

The readers of both dialects make a Template, which gives them its variables. Rendering gives the chat messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

import jinja2
import msgspec
from jinja2 import TemplateSyntaxError, nodes
from jinja2.filters import FILTERS
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Cycler, Joiner, Namespace, missing, pass_context
from jinja2.visitor import NodeTransformer

from tunecheck._errors import PromptError, PromptRenderError
from tunecheck._json import JSON
from tunecheck._messages import clean

# -- texts that know which of their parts come from the template

# The roles that a message in a list of messages may have, in any case.
ROLES = ("system", "developer", "user", "assistant", "function", "tool")
_FIRST_MARK = "\ue000"
"""The first private use character of Unicode: no text has a meaning for it."""

MAX_TEXT = 4 << 20
"""Most characters of a rendered template."""


class Fragment(str):
    """A text as pairs of (trusted, part). Trusted parts come from the template. `Inserted` parts are never joined.

    If a filter, a method or an operator changes a fragment, the result is plain text and counts as a value.
    """

    __slots__ = ("parts",)
    parts: tuple[tuple[bool, str], ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[bool, str]]) -> Self:
        """Return a fragment that consists of these pairs of (trusted, part)."""
        fragment = cls("".join(text for _, text in parts))
        fragment.parts = tuple(parts)
        return fragment

    def __str__(self) -> str:
        return self  # Jinja calls str() on all output, which must keep the parts


class Role(Fragment):
    """The role of a message in a list of messages. It stays trusted if its case is changed."""

    __slots__ = ()

    def lower(self) -> Role:
        return Role.of([(True, super().lower())])

    def upper(self) -> Role:
        return Role.of([(True, super().upper())])

    def capitalize(self) -> Role:
        return Role.of([(True, super().capitalize())])


def with_roles(value: JSON) -> JSON:
    """Return a copy of a value in which the roles of messages may open a message in the template.

    Roles are marked in each list that contains messages only.
    """
    if isinstance(value, dict):
        return {key: with_roles(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value

    items = [with_roles(item) for item in value]
    if not all(map(_is_message, items)):
        return items
    return [{**item, "role": Role.of([(True, str(item["role"]))])} for item in items if isinstance(item, dict)]


def _is_message(value: JSON) -> bool:
    """Return True for an object with content and one of the known roles."""
    role = value.get("role") if isinstance(value, dict) and "content" in value else None
    return isinstance(role, str) and role.lower() in ROLES


class Inserted(Fragment):
    """A value that is not text, in the place of a text: messages, or a part of a message such as an image."""

    __slots__ = ("messages", "part")
    messages: Sequence[dict[str, JSON]]
    part: dict[str, JSON] | None

    @classmethod
    def instead(cls, kind: str, messages: Sequence[dict[str, JSON]] = (), part: dict[str, JSON] | None = None) -> Self:
        """Return a value that stands in the text as `[kind]`, and becomes these messages or this part of one."""
        value = cls(f"[{kind}]")
        value.parts = ((False, value),)
        value.messages, value.part = messages, part
        return value


def parts_of(text: str) -> Iterable[tuple[bool, str]]:
    """Return the parts of a text. A plain text is one untrusted part."""
    return text.parts if isinstance(text, Fragment) else ((False, str.__str__(text)),)


def join(texts: Iterable[str]) -> Fragment:
    """Concatenate texts into one fragment that still knows which parts came from the template.

    Adjacent parts of the same trust are merged, except messages and images (`Inserted`). A value is a part even if it
    is empty: its content must not decide whether the line around it is a role header. For `user:` and the value " ",
    the parts are (True, "user:") and (False, " ").

    Raises:
        PromptRenderError: the result is longer than MAX_TEXT.
    """
    parts: list[tuple[bool, list[str]]] = []
    size = 0

    for text in texts:
        size += len(text)
        if size > MAX_TEXT:
            raise PromptRenderError(f"the template writes more than {MAX_TEXT >> 20} MB: pass shorter values")

        for trusted, part in parts_of(text):
            last_trusted, last_pieces = parts[-1] if parts else (None, [""])
            stays_apart = isinstance(part, Inserted) or isinstance(last_pieces[0], Inserted)
            if trusted is not last_trusted or stays_apart:
                parts.append((trusted, []))
            parts[-1][1].append(part)

    return Fragment.of([(trusted, pieces[0] if len(pieces) == 1 else "".join(pieces)) for trusted, pieces in parts])


class Skeleton(msgspec.Struct, frozen=True):
    """A rendered template with a mark in place of each value. It is split into messages before values are filled in.

    A mark is a number between two characters that the template's own text does not contain. With `|` as this character,
    the template `user: {{ a }} or {{ b }}?` has the text `user: |0| or |1|?`.
    """

    text: str
    values: tuple[str, ...]
    mark: str

    @classmethod
    def of(cls, rendered: Fragment) -> Skeleton:
        """Return the rendered template with a numbered mark in the place of each value."""
        parts = list(parts_of(rendered))
        own = "".join(text for trusted, text in parts if trusted)

        # The first private use character of Unicode that the template does not contain. Checking the very first one is
        # faster than collecting all characters of the text for each call of a judge.
        used = set(own) if _FIRST_MARK in own else ()
        mark = next(char for char in map(chr, range(ord(_FIRST_MARK), 0x110000)) if char not in used)

        pieces: list[str] = []
        values: list[str] = []

        for trusted, text in parts:
            if trusted:
                pieces.append(text)
            else:
                pieces.append(f"{mark}{len(values)}{mark}")
                values.append(text)
        return cls("".join(pieces), tuple(values), mark)

    def filled(self, piece: str) -> str:
        """Return a piece of the skeleton with its values in place of the marks."""
        return "".join(self.divided(piece))

    def divided(self, piece: str) -> Iterator[str | Inserted]:
        """Yield the parts of a piece of the skeleton with its values: texts, and values such as images between them."""
        texts: list[str] = []

        # Splitting at the mark's character puts texts at even places and numbers of values at odd ones.
        for index, part in enumerate(piece.split(self.mark)):
            value = self.values[int(part)] if index % 2 else part
            if not isinstance(value, Inserted):
                texts.append(value)
                continue
            yield "".join(texts)
            yield value
            texts = []
        yield "".join(texts)

    def is_own(self, piece: str) -> bool:
        """Return whether a piece of the skeleton is the template's own text, without a value in it."""
        return self.mark not in piece


# -- the template

MAX_BODY = 1 << 18
"""The maximum length of a template in characters. Azure's longest one has 17,000."""

Where = Callable[[int], str]
"""Returns the place of a line of the template for errors."""

Split = Callable[[Skeleton], list[dict[str, JSON]]]
"""Splits a rendered template into messages.

Raises:
    ValueError: the rendering is not a sequence of messages.
"""

LanguageName = Literal["jinja2", "jinja2 trimmed", "nunjucks"]
"""`jinja2 trimmed` drops the line feed after a block, like Azure and prompt flow."""

_SHARED = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Getattr)
"""Node types with the same meaning in Nunjucks. Others are refused in Nunjucks templates."""

_DATA = (str, int, float, type(None), dict, list, tuple, set, range)
"""Types that may be written into a prompt. A generator or method would be written as its memory address."""


class Template:
    """A compiled template with the function that splits its rendering into messages.

    `names`: its variables. `used`: variables with which it does more than write them (`{{ name }}`) or test them
    (`{% if name %}`). `own_text`: all texts in the template that it may write as its own, and the names of fields of
    values.

    Raises:
        PromptError: the template is invalid or not supported in prompts; the error names the line.
    """

    def __init__(self, body: str, line_place: Where, split: Split, language: LanguageName) -> None:
        """Compile a template; `line_place` gives the place of a line for errors, `split` makes messages of its text."""
        self._line_place = line_place
        self._split = split
        if len(body) > MAX_BODY:
            raise PromptError(f"{line_place(1)}: the template is longer than {MAX_BODY:,} characters: shorten it")

        environment = _Sandbox(language)
        try:
            tree = environment.parse(body)
            self._examine(tree, environment)
            _refuse_unsupported(tree, nunjucks=environment.nunjucks)
            code = environment.compile(_Rewriter().visit(tree))
        except TemplateSyntaxError as error:
            problem = (error.message or "not a template").removesuffix(".")
            raise PromptError(f"{line_place(error.lineno)}: {clean(problem, 300)}") from None
        except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as error:
            # Python's compiler refuses too many nested blocks and very large numbers.
            raise PromptError(f"{line_place(1)}: the template cannot be compiled: {_reason(error)}") from None

        self._compiled = jinja2.Template.from_code(environment, code, dict(environment.globals))

    def _examine(self, tree: nodes.Template, environment: jinja2.Environment) -> None:
        """Set `names`, `used` and `own_text`, and note the variables that the template can do without.

        `used` are the variables with a mention other than `{{ name }}` or `{% if name %}`.
        """
        self.names = frozenset(find_undeclared_variables(tree) - environment.globals.keys())

        # Variables that the template tests with `default(…)` or `is defined`.
        filters = [node.node for node in tree.find_all(nodes.Filter) if node.name in ("default", "d")]
        tests = [node.node for node in tree.find_all(nodes.Test) if node.name in ("defined", "undefined")]
        self._optional = frozenset(node.name for node in (*filters, *tests) if isinstance(node, nodes.Name))

        # A variable is only written or tested if all its mentions are those in `{{ name }}` and `{% if name %}`.
        written = [child for output in tree.find_all(nodes.Output) for child in output.nodes]
        tested = [branch.test for branch in tree.find_all(nodes.If)]
        plain_mentions = Counter(node.name for node in (*written, *tested) if isinstance(node, nodes.Name))
        self.used = frozenset(Counter(node.name for node in tree.find_all(nodes.Name)) - plain_mentions)

        texts = [node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)]
        fields = [node.attr for node in tree.find_all(nodes.Getattr)]
        self.own_text = (*(node.data for node in tree.find_all(nodes.TemplateData)), *texts, *fields)

    def may_lack(self, name: str) -> bool:
        """Return whether the template handles a missing value of this variable, with `default(…)` or `is defined`."""
        return name in self._optional

    def render(self, values: Mapping[str, JSON]) -> list[dict[str, JSON]]:
        """Render the template with these values and return its chat messages.

        Raises:
            PromptRenderError: the template fails on these values; the error names the line.
        """
        try:
            context = self._compiled.new_context({name: with_roles(value) for name, value in values.items()})
            rendered = join(self._compiled.root_render_func(context))
        except Exception as error:  # noqa: BLE001 - a template may raise any error
            raise PromptRenderError(f"{self._line_place(self._line(error.__traceback__))}: {_reason(error)}") from None

        try:
            return self._split(Skeleton.of(rendered))
        except ValueError as error:
            raise PromptRenderError(f"{self._line_place(1)}: {error}") from None

    def _line(self, traceback: TracebackType | None) -> int:
        """Return the template's line in which an error with this traceback was raised; 1 if unknown."""
        line = 1
        # The last frame of the template's own code is the deepest one.
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._compiled.root_render_func.__code__.co_filename:
                line = self._compiled.get_corresponding_lineno(traceback.tb_lineno)
            traceback = traceback.tb_next
        return line


def _reason(error: BaseException) -> str:
    """Return why a template failed, as one line."""
    if isinstance(error, RecursionError):
        return "the template never ends, or is nested too deeply"
    return clean(error, 300) or type(error).__name__


# -- rewriting the syntax tree


def _refuse_unsupported(tree: nodes.Template, *, nunjucks: bool) -> None:
    """Refuse the parts of a template that prompts do not support (TemplateSyntaxError).

    In a Nunjucks template, refuse all that Jinja may read differently.
    """
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        problem = "include, import and extends are not supported: write the prompt in one file"
        raise TemplateSyntaxError(problem, node.lineno)

    for scope in tree.find_all(nodes.ScopedEvalContextModifier):
        raise TemplateSyntaxError("the tag `autoescape` is not supported: leave it out", scope.lineno)

    for part in tree.find_all(nodes.Node) if nunjucks else ():
        if not isinstance(part, _SHARED):
            syntax = type(part).__name__.lower()
            problem = f"a Nunjucks template may only use {{{{ name }}}}, not {syntax}: Jinja may read it differently"
            raise TemplateSyntaxError(problem, part.lineno)


class _Rewriter(NodeTransformer):
    """Marks the template's own texts. Unmarked text counts as a value."""

    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802 - Jinja's name
        """Wrap all pieces of output, such as `text {{ value }}`."""
        node.nodes = [self._output(child) for child in node.nodes]
        return node

    def _output(self, node: nodes.Expr) -> nodes.Expr:
        """Wrap one piece of output: the template's own text is marked, a value is checked before it is written."""
        if isinstance(node, nodes.TemplateData):
            return _filter_node(nodes.Const(node.data, lineno=node.lineno), _own)
        return _filter_node(self._visit(_with_literals(node)), _write)

    def visit_Assign(self, node: nodes.Assign) -> nodes.Assign:  # noqa: N802 - Jinja's name
        """Mark the literal texts in the value of `{% set name = value %}` as the template's own."""
        node.node = self._visit(_with_literals(node.node))
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's name
        """Mark the literal texts that the loop iterates over as the template's own."""
        node.iter = _with_literals(node.iter)
        self.generic_visit(node)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802 - Jinja's name
        """Replace `a ~ b` by a call that keeps the marks of its parts."""
        texts = [_filter_node(self._visit(child), _write) for child in node.nodes]
        return _filter_node(nodes.Tuple(texts, "load", lineno=node.lineno), _join)

    def _visit(self, node: nodes.Node) -> nodes.Expr:
        """Rewrite an expression and all expressions in it."""
        visited = self.visit(node)
        assert isinstance(visited, nodes.Expr)
        return visited


def _with_literals(node: nodes.Node) -> nodes.Node:
    """Mark a literal text, or those in `a if b else c`, `a ~ b`, a list or a tuple, as the template's own.

    `{{ "user:" if first else role }}` may write its own text "user:", but not the value of `role`. Literal texts in
    other expressions are not marked, such as in `role or "user:"`, or if a filter or method changes them.
    """
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        return _filter_node(node, _own)
    if isinstance(node, nodes.CondExpr):
        node.expr1 = _with_literals(node.expr1)  # type: ignore[assignment]
        node.expr2 = _with_literals(node.expr2) if node.expr2 else None  # type: ignore[assignment]
    elif isinstance(node, nodes.Concat):
        node.nodes = [_with_literals(child) for child in node.nodes]  # type: ignore[misc]
    elif isinstance(node, (nodes.List, nodes.Tuple)):
        node.items = [_with_literals(child) for child in node.items]  # type: ignore[misc]
    return node


def _filter_node(node: nodes.Node, function: Callable[..., object]) -> nodes.Filter:
    """Return a node that applies one of our filters to the value of an expression."""
    return nodes.Filter(node, _filter_name(function), [], [], None, None, lineno=node.lineno)


def _filter_name(function: Callable[..., object]) -> str:
    """Return the name under which the environment has one of our filters."""
    # A template cannot use these filters, because their names contain a space.
    return f"own {function.__name__}"


# Filters with a context are not evaluated at compile time, which would turn fragments into plain texts.
@pass_context
def _own(context: Context, text: str) -> Fragment:
    """Return a text marked as the template's own."""
    return Fragment.of([(True, text)])


@pass_context
def _join(context: Context, texts: tuple[str, ...]) -> Fragment:
    """Return the texts as one fragment that keeps the trust of each."""
    return join(texts)


@pass_context
def _write(context: Context, value: object) -> str:
    """Return a value as the text to write into the prompt; a fragment keeps the trust of its parts.

    Raises:
        TypeError: the value is neither text nor plain data.
        PromptRenderError: Nunjucks would write this value differently.
        UndefinedError: the value is undefined.
    """
    if isinstance(value, Fragment):
        return value

    if isinstance(value, Undefined):
        return str(value)  # raises an error that names the undefined value

    # Nunjucks writes true, null, floats and lists in JavaScript's way.
    nunjucks = isinstance(context.environment, _Sandbox) and context.environment.nunjucks
    if nunjucks and type(value) is not int and not isinstance(value, str):
        raise PromptRenderError(f"a Nunjucks template cannot write a {type(value).__name__}: pass a text")

    if not isinstance(value, _DATA):
        raise TypeError(f"a {type(value).__name__} cannot be written into a prompt: pass text or plain data")
    return str.__str__(value) if isinstance(value, str) else str(value)


# -- the environment


class _Absent(StrictUndefined):
    """A missing attribute: writing it is an error, testing it with `if` is false."""

    def __bool__(self) -> bool:  # type: ignore[override]  # the base always raises
        if self._undefined_obj is missing:
            self._fail_with_undefined_error()
        return False


class _Sandbox(ImmutableSandboxedEnvironment):
    """The Jinja environment of prompts. Jinja joins captured output with `concat`."""

    concat = staticmethod(join)

    def __init__(self, language: LanguageName) -> None:
        """Set up Jinja for this language, with filters that mark the template's own text; `random` is left out."""
        super().__init__(
            trim_blocks=language == "jinja2 trimmed", keep_trailing_newline=True, undefined=_Absent, cache_size=0
        )
        self.nunjucks = language == "nunjucks"
        # Without `random`, so that a prompt always renders to the same text.
        filters: dict[str, Callable[..., object]] = {name: code for name, code in FILTERS.items() if name != "random"}
        self.filters = filters | {_filter_name(function): function for function in (_own, _join, _write)}
        self.globals = {"range": safe_range, "dict": dict, "namespace": Namespace, "cycler": Cycler, "joiner": Joiner}
