"""One call in a model's Java or JavaScript text, read as BFCL's leaderboard reads it: `[A.f(a=new int[]{1}, b="x")]`.

A tree-sitter grammar of the language parses the text, and each argument becomes text again: a literal text without its
quotes, a call unchanged, `new` and everything else in Java without white space. Nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from tunecheck import MissingExtraError
from tunecheck.calls import UnreadableError

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST = 10_000  # longest text, in characters, that is parsed
_MOST_TOKENS = 1_000  # words, numbers and signs: where nothing fits, the parser takes up to the cube of them
_DEEPEST = 300  # levels of a parsed text: the text of an argument takes two of the interpreter's frames for each

_TOKEN = re.compile(r"[^\W\d]+|\d+|[^\w\s]", re.ASCII)
_LITERALS = ("string_literal", "character_literal")


def decode_source_text(text: str, language: str) -> list[object]:
    """Return the call of a text as `[{"f": {"a": "1"}}]`, or `[None]` if it is not one call.

    Raises:
        UnreadableError: it is not text of the language.
    """
    text = text.strip("`\n ")
    source = text[text.startswith("[") : len(text) - text.endswith("]")]
    nodes = nodes_of(parsed(source, java=language == "java"))
    if any(node.is_error for node in nodes):
        raise UnreadableError(f"not readable as {language}: {source[:40]!r}")
    return [_JavaText(source).call(nodes) if language == "java" else _javascript_call(nodes[0])]


def parsed(source: str, *, java: bool) -> Node:
    """Return the syntax tree of a text.

    Raises:
        UnreadableError: The text is too long to be parsed, or is not Unicode.
    """
    if len(source) > _LONGEST:
        raise UnreadableError(f"a text of {len(source)} characters")
    if sum(1 for _ in _TOKEN.finditer(source)) > _MOST_TOKENS:
        raise UnreadableError(f"a text of more than {_MOST_TOKENS} words, numbers and signs")
    try:
        from tree_sitter import Language, Parser  # imported here: only rows in Java or JavaScript need it

        grammar = import_module("tree_sitter_java" if java else "tree_sitter_javascript")
    except ModuleNotFoundError:
        raise MissingExtraError("reading calls in Java or JavaScript", "bfcl") from None
    try:
        encoded = source.encode()
    except UnicodeEncodeError:
        raise UnreadableError("a surrogate without its other half") from None
    return Parser(Language(grammar.language())).parse(encoded).root_node


def nodes_of(root: Node) -> list[Node]:
    """Return the nodes of a tree in the order of their text."""
    nodes, open_ones = [], [(root, 0)]
    while open_ones:
        node, depth = open_ones.pop()
        if depth > _DEEPEST:
            raise UnreadableError("nested too deeply")
        nodes.append(node)
        open_ones += [(child, depth + 1) for child in reversed(node.children)]
    return nodes


def _arguments(
    nodes: Sequence[Node], text_of: Callable[[Node], str], value_of: Callable[[Node], str], bare: tuple[str, ...]
) -> dict[str, str]:
    """Arguments by name; one that is a bare word has the name "None", anything else without a name is passed over."""
    arguments: dict[str, str] = {}
    for node in nodes:
        if node.type == "assignment_expression":
            name, value = text_of(node.children[0]), value_of(node.children[2])
        elif node.type in bare:
            name, value = "None", text_of(node)
        else:
            continue
        if name in arguments:
            raise UnreadableError("an argument is given twice")
        arguments[name] = value
    return arguments


def _javascript_call(root: Node) -> object:
    statements = [statement for statement in root.children if statement.type == "expression_statement"]
    expressions = (expression for statement in statements for expression in statement.children)
    call = next((expression for expression in expressions if expression.type == "call_expression"), None)
    if call is None:
        return None
    function, given, *_ = call.children
    bare = ("identifier", "true")
    return {_javascript_text(function): _arguments(given.children, _javascript_text, _javascript_value, bare)}


def _javascript_text(node: Node) -> str:
    return (node.text or b"").decode()


def _javascript_value(node: Node) -> str:
    text = _javascript_text(node)
    return text[1:-1] if text[:1] in ('"', "'") and text[0] == text[-1] else text


class _JavaText:
    def __init__(self, source: str) -> None:
        self._source = source

    def call(self, nodes: Sequence[Node]) -> object:
        call = next((node for node in nodes if node.type == "method_invocation"), None)
        if call is None:
            return None
        parts = [call.child_by_field_name(field) for field in ("object", "name")]
        name = ".".join(self._source_text(part) for part in parts if part)
        given = call.child_by_field_name("arguments")
        bare = ("identifier", "class_literal")
        return {name: _arguments(given.children if given else (), self._source_text, self._value, bare)}

    def _source_text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte]  # the leaderboard counts characters as bytes

    def _value(self, node: Node) -> str:
        return self._source_text(node)[1:-1] if node.type in _LITERALS else self._compact(node)

    def _compact(self, node: Node) -> str:
        """Return a value, or a part of one, without the space between its words."""
        if node.type in (*_LITERALS, "class_literal", "method_invocation") or not node.children:
            return self._source_text(node)
        if node.type == "array_creation_expression":
            return f"new {self._part(node, 'type')}[]{self._part(node, 'value')}"
        if node.type == "object_creation_expression":
            given = node.child_by_field_name("arguments")
            items = [each for each in (given.children if given else ()) if each.type not in ("(", ",", ")")]
            return f"new {self._part(node, 'type')}({', '.join(map(self._compact, items))})"
        return "".join(map(self._compact, node.children))

    def _part(self, node: Node, field: str) -> str:
        part = node.child_by_field_name(field)
        if part is None:
            raise UnreadableError(f"a {node.type.replace('_', ' ')} without its {field}")
        return self._compact(part)
