"""The calls in one recorded answer, read exactly as the leaderboard reads them: from text, or from data.

Text, `[f(a=1), g(b='x')]`, is parsed as Python, and only arithmetic on literals is evaluated. The quirks are those of
the leaderboard's `default_decode_ast_prompting` and `default_decode_execute_prompting`, and published verdicts depend
on them: positional arguments are dropped, a bare name is text (`true` is `'true'`), every unary operator is a minus
(`not True` is -1), and `2 * 60` is computed. Data is `[{"f": {"a": 1}}, …]`, with JSON text or objects as arguments.

  text                       decoded
  [f(a=1), g(b='x')]         [{"f": {"a": 1}}, {"g": {"b": "x"}}]
  f(a=1)                     [{"f": {"a": 1}}], with the missing brackets
  [f(1, b=true)]             [{"f": {"b": "true"}}]
  [f(a=2 * 60)]              [{"f": {"a": 120}}]
  [f(a=g(b=1))]              [{"f": {"a": {"g": {"b": 1}}}}]
  [f(a=g())], [f(a=x[0])]    [{"f": {"a": "g()"}}], [{"f": {"a": "x[0]"}}]
  [f(a=-x)], hello           UndecodableError

The leaderboard has two decoders. `decode_answer` is for single questions, and `decode_step` for steps of conversations,
whose calls are executed: it also makes a call of `{'b': {'c': 1}}`, a dict of dicts.

Texts come from models, so every size is limited before Python's parser or arithmetic works on it.
"""

import ast
import json
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, cast

from tunecheck.calls import MAX_CHARACTERS, FunctionCall, Reading, UnreadableError
from tunecheck.episodes import NO_CALL, CallMode, at_most_max_calls, decode_entries
from tunecheck.plugins import JSON, plain
from tunecheck_bfcl._data.prompts import parse_python
from tunecheck_bfcl._source_calls import decode_source_text

MOST_CHARACTERS = 1_000_000
"""The longest text that is parsed."""

_WARNED_OF = re.compile(r"\\|\d[^\W\d]|\d\.")
"""A pattern in every text for which CPython's parser gives a warning: an escape, or a number followed by a word."""

# The beginning of an f-string: f", F' or fr".
_FORMATTED = re.compile(r"[fF][rR]?['\"]")
_MOST_PARSED = 1_000_000_000
"""The most braces times characters of a text with an f-string, because CPython's parser needs that many steps."""

_MOST_OPERATIONS = 200  # in a text: each operation may create a value with thousands of elements

Folded: TypeAlias = "int | float | complex | bool | str | bytes | list[Folded] | tuple[Folded, ...] | None"

_MOST_BITS = 10_000
_MOST_ELEMENTS = 10_000
"""Arithmetic on literals, such as `2 * 60`, fails beyond these limits, so that a text cannot fill the memory."""

_OPERATORS: dict[type, Callable[[object, object], object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_SIGNS: dict[type, Callable[[object], object]] = {
    ast.USub: operator.neg,  # type: ignore[dict-item]
    ast.UAdd: operator.pos,  # type: ignore[dict-item]
    ast.Invert: operator.invert,  # type: ignore[dict-item]
}


class UndecodableError(ValueError):
    """The error for a result in which the leaderboard finds no calls. The text gives the reason."""


def decode_text(text: str) -> list[dict[str, object]]:
    """Return the calls of a text as `[{"f": {"a": 1}}, …]`.

    A call as an argument becomes the object `{"g": {…}}`, or text if it has no named arguments. `**values` becomes an
    argument with the name "None".

    Raises:
        UndecodableError: the text is not a list of calls, or contains a value that the leaderboard cannot read.
    """
    try:
        body = _parse(text)
        # A shorter text cannot have so many operations, so they need not be counted.
        if len(text) > _MOST_OPERATIONS < sum(isinstance(node, ast.BinOp) for node in ast.walk(body)):
            raise UndecodableError(f"the text with calls has more than {_MOST_OPERATIONS} arithmetic operations")

        # A single call, or the elements of a list, tuple or set.
        nodes = [body] if isinstance(body, ast.Call) else getattr(body, "elts", None)
        if not isinstance(nodes, list) or not all(isinstance(node, ast.Call) for node in nodes):
            raise UndecodableError("the text is not a list of calls")

        return [_call(node) for node in nodes]
    except UndecodableError:
        raise
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, AttributeError, ArithmeticError) as error:
        reason = " ".join(str(error).replace("<unknown>, ", "").split())  # CPython's name of a source without a file
        raise UndecodableError(reason[:200] or type(error).__name__) from None


def _parse(text: str) -> ast.expr:
    """Return the syntax tree of a text, with missing brackets of the list added.

    Raises:
        UndecodableError: the parser would take too long.
        SyntaxError, ValueError: the text is not Python, or the parser failed.
    """
    if len(text) > MOST_CHARACTERS:
        raise UndecodableError(f"the text with calls has {len(text)} characters; at most {MOST_CHARACTERS} are read")

    braces = text.count("{")
    if braces * len(text) > _MOST_PARSED and _FORMATTED.search(text):
        raise UndecodableError(f"the text with calls has an f-string and {braces} braces; parsing would take too long")

    # The leaderboard strips a code fence's marks, then adds brackets, then strips quotes, in this order.
    text = text.strip("`\n ")
    text = text if text.startswith("[") else f"[{text}"
    text = text if text.endswith("]") else f"{text}]"
    text = text.strip().strip("'")

    # Most texts cause no warning. They skip `catch_warnings`, which changes a global setting.
    if _WARNED_OF.search(text) is None:
        return cast("ast.Expression", parse_python(text, "eval")).body
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about a model's escapes do not concern the user
        return cast("ast.Expression", parse_python(text, "eval")).body


def _call(node: ast.Call) -> dict[str, object]:
    """Return a call as `{"f": {"a": 1}}`. Positional arguments are dropped."""
    arguments = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    return {_name(node.func): arguments}


def _name(node: ast.expr) -> str:
    """Return the dotted name of a called function. Parts that are not names are left out."""
    parts: list[str] = []
    # Attributes are nested from the end: `a.b.f` is f of b of a.
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value

    if isinstance(node, ast.Name):
        parts.append(node.id)

    return ".".join(reversed(parts))


def _value(node: ast.expr | None) -> object:
    """Return the value of an argument by the leaderboard's rules; names and calls without named arguments become text.

    Raises:
        UndecodableError: the leaderboard cannot read such a value.
    """
    match node:
        case ast.Constant(value=value):
            return "..." if value is ... else value
        case ast.UnaryOp(operand=ast.Constant(value=value)):
            return -value  # type: ignore[operator]  # -'text' raises TypeError, reported like an undecodable value
        case ast.Name(id=name):  # true, or a variable's name
            return name
        case ast.List(elts=elements):
            return [_value(element) for element in elements]
        case ast.Tuple(elts=elements):
            return tuple(_value(element) for element in elements)
        case ast.Dict(keys=keys, values=values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.BinOp():  # 2 * 60
            return _fold_literals(node)
        case ast.Call(keywords=[]):  # g(1) or now(), without named arguments
            return ast.unparse(node)
        case ast.Call():  # g(b=1)
            return _call(node)
        case ast.Subscript(value=value, slice=index):  # x[0]
            return f"{ast.unparse(value)}[{ast.unparse(index)}]"
    # A key is None in {**x}.
    raise UndecodableError(f"an argument contains {ast.unparse(node)[:60] if node else '**'}, which is not a literal")


def decode_text_as_bfcl(text: str) -> Reading:
    """Return the calls that BFCL executes for a prompting model's text, or the reason if it executes none.

    Never raises. Unlike in `decode_text`, an argument that is a dict of dicts (`{"g": {"b": 1}}`) becomes the call of
    its first key (`g(b=1)`). An empty dict as an argument makes the whole text unreadable.
    """
    try:
        calls = [_nested_call(name, arguments) for entry in decode_text(text) for name, arguments in entry.items()]
    except (UndecodableError, RecursionError) as error:
        return Reading(problem=str(error))
    return Reading(tuple(calls))


def _nested_call(name: object, arguments: object) -> FunctionCall:
    """Return a decoded call with its arguments rewritten as BFCL does before it executes the call."""
    assert isinstance(arguments, dict)
    rewritten = {str(key): _rewrite(value) for key, value in arguments.items()}
    return FunctionCall(str(name), cast("dict[str, JSON]", rewritten))


def _rewrite(value: object) -> object:
    """Return an argument as BFCL executes it: a dict with only dicts as values becomes a call of its first key.

    Raises:
        UndecodableError: the argument contains an empty dict.
    """
    if not isinstance(value, dict):
        return value

    if not value:
        raise UndecodableError("an argument is an empty dict, which the leaderboard cannot read")

    if all(isinstance(item, dict) for item in value.values()):
        return _nested_call(*next(iter(value.items())))
    return {str(key): _rewrite(item) for key, item in value.items()}


def _fold_literals(node: ast.expr) -> Folded:
    """Return the value of an expression of literals, signs, operators and lists, such as `2 * 60`.

    Raises:
        ValueError: the expression contains anything else, or a value is too large.
        TypeError, ArithmeticError, MemoryError: an operation fails.
    """
    if isinstance(node, ast.Constant) and node.value is not ...:
        return node.value
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _check_value(_SIGNS[type(node.op)](_fold_literals(node.operand)))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _compute(type(node.op), _fold_literals(node.left), _fold_literals(node.right))
    if isinstance(node, ast.List):
        return [_fold_literals(element) for element in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_fold_literals(element) for element in node.elts)
    raise ValueError("the arithmetic in an argument contains values that are not literals")


def _compute(operation: type, left: Folded, right: Folded) -> Folded:
    """Return the result of an operator on two values.

    Raises:
        ValueError: The result is too large.
        TypeError, ArithmeticError, MemoryError: The operation fails.
    """
    if operation is ast.Mod and isinstance(left, (str, bytes)):
        raise ValueError("an argument uses the operator % on a text, which is not arithmetic")

    # The size is estimated before the operation, which could take hours: 9 ** 9 ** 9.
    if operation in (ast.Pow, ast.LShift) and isinstance(left, int) and isinstance(right, int):
        bits = right * left.bit_length() if operation is ast.Pow else right + left.bit_length()
        if bits > _MOST_BITS:
            raise ValueError("a number computed in an argument is too large")

    if operation is ast.Mult:
        for repeated, count in ((left, right), (right, left)):
            if isinstance(count, int) and _size(repeated) * count > _MOST_ELEMENTS:
                raise ValueError(f"a text or list repeated with * has more than {_MOST_ELEMENTS} elements")

    return _check_value(_OPERATORS[operation](left, right))


def _size(value: Folded) -> int:
    """Return the number of characters or elements, including those of nested lists; 0 for other values."""
    if isinstance(value, (list, tuple)):
        return len(value) + sum(map(_size, value))
    return len(value) if isinstance(value, (str, bytes)) else 0


def _check_value(value: object) -> Folded:
    """Return a computed value unchanged.

    Raises:
        ValueError: The value is too large.
    """
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("a number computed in an argument is too large")
    folded = cast("Folded", value)
    if _size(folded) > _MOST_ELEMENTS:
        raise ValueError("a text or list computed in an argument is too long")
    return folded


Names = Literal["auto", "dotted", "underscored"]
"""How the leaderboard expects a function `a.b` to be called: as `a.b`, or as `a_b` because some APIs take no dots."""


def decode_answer(result: object, mode: CallMode, language: str) -> list[object]:
    """Return the calls of a single-turn result, such as `[{"f": {"a": 1}}]`.

    `mode` is how the model was asked. In text mode, `language` is the language of the calls. In tools mode, arguments
    may be any JSON: `as_calls` checks them.

    Raises:
        UndecodableError: the leaderboard's decoder fails on the result.
    """
    if mode == "text":
        if not isinstance(result, str):
            raise UndecodableError("the answer must be text, because the model was asked to write calls as text")
        if language == "python":
            return list(decode_text(result))
        try:
            return decode_source_text(result, language)
        except UnreadableError as error:
            raise UndecodableError(str(error)) from None

    # A text passes here and fails as a list of characters, as on the leaderboard. An empty text has no calls.
    if not isinstance(result, (list, dict, str)):
        raise UndecodableError("the answer is not a list of calls")
    return [_decode_call(item) for item in result]


def _decode_call(item: object) -> object:
    """Return one recorded call as `{"f": {"a": 1}}`, with its arguments parsed from JSON text.

    Raises:
        UndecodableError: the item is not an object, or its arguments are not JSON.
    """
    if not isinstance(item, dict) or not item:
        raise UndecodableError("the answer is not a list of calls, each {name: arguments}")
    name, arguments = next(iter(item.items()))

    if isinstance(arguments, dict):
        return {name: arguments}  # some models' files have the arguments as an object
    if not isinstance(arguments, str):
        raise UndecodableError(f"the arguments of {name!r:.60} must be an object or JSON text")

    try:
        # Not Tunecheck's JSON reader, because the leaderboard's accepts NaN, and verdicts depend on it.
        return {name: json.loads(arguments)}
    except (ValueError, RecursionError) as error:
        raise UndecodableError(f"the arguments of {name!r:.60} are not JSON: {error}") from None


def as_calls(decoded: Sequence[object]) -> list[Mapping[str, object]] | None:
    """Return the decoded values as calls, or None if one of them is not a function name with an object of arguments."""
    calls: list[Mapping[str, object]] = [call for call in decoded if isinstance(call, dict) and len(call) == 1]
    if len(calls) < len(decoded) or not all(isinstance(next(iter(call.values())), dict) for call in calls):
        return None
    return calls


_SURELY_PLAIN = 200  # characters; shorter JSON cannot exceed the limits of `plain`


def decode_step(step: object, *, text_mode: bool = False) -> Reading:
    """Return the calls of one step of a conversation as the leaderboard decodes it. Never raises.

    With `text_mode`, the calls are read from a Python text. Without it, an empty text gives an empty reading; None and
    white space give the problem `NO_CALL`, as does any other text.
    """
    if isinstance(step, str) and text_mode:
        return at_most_max_calls(decode_text_as_bfcl(step))

    if step is None or (isinstance(step, str) and not step.strip()):
        return Reading() if step == "" else Reading(problem=NO_CALL)

    return decode_entries(step, _read_arguments)


def _read_arguments(arguments: object) -> object:
    """Return a call's arguments as data.

    Raises:
        ValueError: the arguments are too long, no JSON, or nested too deeply.
    """
    if isinstance(arguments, str) and len(arguments) > MAX_CHARACTERS:
        raise UnreadableError(f"the arguments have {len(arguments)} characters, but at most {MAX_CHARACTERS} are read")
    # Like BFCL, the standard library's reader accepts NaN and takes the last of two equal keys.
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(arguments, str) or len(arguments) > _SURELY_PLAIN:
        plain(value)  # refuses values that are nested too deeply
    return value
