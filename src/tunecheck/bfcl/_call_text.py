"""Calls in a model's text, `[f(a=1), g(b='x')]`, read exactly as BFCL reads them for models without tool calling.

The text is parsed as Python and looked at; nothing is evaluated. The quirks are the leaderboard's: positional arguments
are dropped, a bare name is text (`true` is `'true'`), every sign is a minus (`not True` is -1).
"""

from __future__ import annotations

import ast
import contextlib
import re
import warnings
from collections.abc import Sequence

from tunecheck.bfcl._arithmetic import fold

MOST_CHARACTERS = 1_000_000

_WARNED_OF = re.compile(r"\\|\d[^\W\d]|\d\.")
"""What stands in every text that CPython's parser warns of: an escape, or a number with a word right behind it."""

_FORMATTED = re.compile(r"[fF][rR]?['\"]")
_MOST_PARSED = 1_000_000_000
"""Braces times characters of a text that may hold an f-string: so many steps CPython's parser takes for one."""

_MOST_OPERATIONS = 200
"""Most arithmetic in a text: each operation may make a value of thousands of elements."""

_MOST_TRIES = 10
"""CPython's parser at times fails where two threads use it at once (its issue 106905); the next try succeeds."""


class UndecodableError(ValueError):
    """A result in which the leaderboard finds no calls; its text says why."""


def decode_text(text: str) -> list[dict[str, object]]:
    """The calls of a text as `[{"f": {"a": 1}}, …]`.

    A call as an argument is the object `{"g": {…}}`, or its own text where it has no arguments; `**values` stand under
    the key None, which is kept as the text `None`.

    Raises:
        UndecodableError: it is no list of calls, or a value in it is none that the leaderboard reads.
    """
    try:
        body = _parsed(text)
        if len(text) > _MOST_OPERATIONS and _operations(body) > _MOST_OPERATIONS:
            raise UndecodableError("more arithmetic than any call needs")
        return [_call(node) for node in _call_nodes(body)]
    except UndecodableError:
        raise
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, AttributeError) as error:
        raise UndecodableError(" ".join(str(error).split())[:200] or type(error).__name__) from None


def _parsed(text: str) -> ast.expr:
    if len(text) > MOST_CHARACTERS:
        raise UndecodableError(f"a text of {len(text)} characters")
    braces = text.count("{")
    if braces * len(text) > _MOST_PARSED and _FORMATTED.search(text):
        raise UndecodableError(f"a formatted text with {braces} braces")
    text = text.strip("`\n ")
    text = text if text.startswith("[") else f"[{text}"
    text = text if text.endswith("]") else f"{text}]"
    text = text.strip().strip("'")
    if _WARNED_OF.search(text) is None:
        return _tree(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model's odd escapes are no news of ours
        return _tree(text)


def _tree(text: str) -> ast.expr:
    for _ in range(_MOST_TRIES):
        with contextlib.suppress(SystemError):
            return ast.parse(text, mode="eval").body
    raise UndecodableError("the parser is out of order")


def _operations(body: ast.expr) -> int:
    return sum(isinstance(node, ast.BinOp) for node in ast.walk(body))


def _call_nodes(body: ast.expr) -> Sequence[ast.Call]:
    nodes = [body] if isinstance(body, ast.Call) else getattr(body, "elts", None)
    if not isinstance(nodes, list) or not all(isinstance(node, ast.Call) for node in nodes):
        raise UndecodableError("not a list of calls")
    return nodes


def _call(node: ast.Call) -> dict[str, object]:
    arguments = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    return {_name(node.func): arguments}


def _name(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _value(node: ast.expr | None) -> object:
    match node:
        case ast.Constant(value=value):
            return "..." if value is ... else value
        case ast.UnaryOp(operand=ast.Constant(value=value)):
            return -value  # type: ignore[operator]  # a text has no minus, and its TypeError is an answer
        case ast.Name(id=name):
            return name
        case ast.List(elts=elements):
            return [_value(element) for element in elements]
        case ast.Tuple(elts=elements):
            return tuple(_value(element) for element in elements)
        case ast.Dict(keys=keys, values=values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.BinOp():
            return fold(node)
        case ast.Call(keywords=[]):
            return ast.unparse(node)
        case ast.Call():
            return _call(node)
        case ast.Subscript(value=value, slice=index):
            return f"{ast.unparse(value)}[{ast.unparse(index)}]"
    raise UndecodableError(f"a value that is no literal: {type(node).__name__}")
