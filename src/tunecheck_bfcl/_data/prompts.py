"""BFCL's prompts and hints, read as texts from the user's copy and never run.

`PromptWording` is what is added to function documents, `read_prompts` what the prompting mode and later functions need.
If a copy lacks these files (it holds the data alone), function documents get words of ours with the same meaning.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tunecheck import DataError
from tunecheck.plugins import JSON, raise_as
from tunecheck_bfcl._data.files import HINTS, LONG_CONTEXT, PROMPTS, TOOL_HINTS, BfclFiles, find_bfcl

MAX_BYTES = 4 << 20
"""Largest file that is parsed: a syntax tree takes a hundred times its source."""

_MAX_TEXT = 4 << 20


class _NoLiteralError(Exception):
    """An expression that is not a constant."""


def parse_file(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file.

    Raises:
        DataError: it cannot be read, is too large, or is not Python.
    """
    with raise_as(DataError, path):
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path}: is larger than {MAX_BYTES >> 20} MiB, which no file of constants is")
        source = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the benchmark's texts
            return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        raise DataError(f"{path}, line {error.lineno}: is not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError, SystemError):  # the last: CPython 3.11, nested too deeply
        raise DataError(f"{path}: is not Python that can be parsed") from None


def read_constants(path: Path) -> dict[str, object]:
    """Return the constants that a Python file assigns at its top level by name; the last assignment counts.

    Raises:
        DataError: as `parse_file`.
    """
    constants: dict[str, object] = {}
    for name, expression in _assignments(parse_file(path)):
        try:
            constants[name] = _value(expression, constants)
        except (_NoLiteralError, RecursionError, MemoryError):
            constants.pop(name, None)
    return constants


def text_constants(path: Path) -> Iterator[str]:
    """Yield every text in a Python file, pieces of f-strings included.

    Raises:
        DataError: as `parse_file`.
    """
    for node in ast.walk(parse_file(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _assignments(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _value(node: ast.expr, known: Mapping[str, object]) -> object:
    try:
        literal: object = ast.literal_eval(node)
        return literal
    except (ValueError, TypeError):  # not a literal alone: it may name constants that came before
        pass
    match node:
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.Dict(keys=keys, values=values):
            return {_text(key, known): _value(value, known) for key, value in zip(keys, values, strict=True)}
        case ast.List(elts=items):
            return [_value(item, known) for item in items]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _short(_text(left, known) + _text(right, known))
        case ast.JoinedStr(values=pieces):
            return _short("".join(_text(piece, known) for piece in pieces))
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _text(value, known)
    raise _NoLiteralError


def _text(node: ast.expr | None, known: Mapping[str, object]) -> str:
    value = None if node is None else _value(node, known)
    if not isinstance(value, str):
        raise _NoLiteralError
    return value


def _short(text: str) -> str:
    if len(text) > _MAX_TEXT:  # `A = A + A`, forty times over
        raise _NoLiteralError
    return text


def read_long_context(copy: BfclFiles) -> Mapping[str, JSON]:
    """Return the constants in a copy of BFCL that pad states and answers, by name, such as `FILE_CONTENT_EXTENSION`.

    Only literals are read, nothing is run. Services share the values and copy what they change or hand out.

    Raises:
        DataError: There is no such file, or it is not Python, or holds no constants.
    """
    path = copy.package / LONG_CONTEXT
    if not path.is_file():
        raise DataError(f"{path}: long-context rows need this file of BFCL; get it with: tunecheck bfcl get")
    constants = {name: value for name, value in read_constants(path).items() if _is_plain(value)}
    if not constants:
        raise DataError(f"{path}: holds no constants; get the data again with: tunecheck bfcl get")
    return cast("Mapping[str, JSON]", constants)


def _is_plain(value: object) -> bool:
    """Return True for JSON and for `...`, which one of the published lists holds and answers show."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or value is ... or isinstance(value, (str, int, float))


ADDED_FUNCTIONS = "DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC"
"""The prompt that is the user's message in a turn which adds functions, for models that are given tools."""

ADDED_FUNCTIONS_TEXT = "DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING"
"""The same for models that are given the functions as text, with a place `{functions}` for the new ones."""

_STYLE = "PROMPT_STYLE_TEMPLATES.classic."
_TEMPLATE = "PROMPT_TEMPLATE_MAPPING.plaintext"
_OUTPUT_FORMAT = "OUTPUT_FORMAT_MAPPING.python"
_PARAMETER_TYPES = "PARAM_TYPE_MAPPING.python"

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class PromptWording:
    """Additions to descriptions in function documents; the defaults are ours, for a copy without its own.

    `python`, `java`, `javascript` go behind a function's; the others go behind the description of a parameter that
    loses its declared type: `…_type` around the type, `…_any` for any, `items` around the type of a list's items,
    `entries` before the schema of an object; `floating` where a float became a number.
    """

    python: str = " Write calls in Python 3."
    java: str = " Write calls in Java 8."
    javascript: str = " Write calls in JavaScript."
    java_any: str = " Any Java object, written as text."
    javascript_any: str = " Any JavaScript value, written as text."
    java_type: str = " Java type "
    javascript_type: str = " JavaScript type "
    type_end: str = ", written as text."
    items: str = " Its items, not written as text, have the type "
    items_end: str = "."
    entries: str = " Its entries, not written as text, have this schema: "
    floating: str = " A float."

    @classmethod
    def read(cls, package: Path) -> PromptWording:
        """Read the words of a copy of BFCL; ours stand in for missing ones."""
        words: dict[str, str] = {}
        for path in (package / HINTS, package / TOOL_HINTS):
            for text in text_constants(path) if path.is_file() else ():
                if len(text) <= _LONGEST_WORDING:
                    words |= {name: text for name, mark in _MARKS.items() if re.fullmatch(mark, text)}
        return cls(**words)


# The words that each text holds, in this order, from its start to its end.
_MARKS = {
    "python": r" \w.*\bPython 3\b.*\bsyntax\.",
    "java": r" \w.*\bJava\b.*\bsyntax\.",
    "javascript": r" \w.*\bJavaScript\b.*\bsyntax\.",
    "java_any": r" \w.*\bany\b.*\bJava object\b.*",
    "javascript_any": r" \w.*\bany\b.*\bJavaScript object\b.*",
    "java_type": r" \w.*\bJava ",
    "javascript_type": r" \w.*\bJavaScript ",
    "type_end": r" type parameter\b.*\.",
    "items": r" \w.*\blist elements\b.* ",
    "items_end": r"; .*\.",
    "entries": r" \w.*\bdictionary entries\b.* ",
    "floating": r" \w.*\bfloat type\b.*\.",
}

_LONGEST_WORDING = 300


def read_prompts(folder: Path | None = None) -> Mapping[str, str]:
    """Return the prompts in a copy of BFCL by name; tables have dotted names (`PROMPT_STYLE_TEMPLATES.classic.task`).

    `folder` is looked for as `find_bfcl` does. Only literals are read, nothing is run.

    Raises:
        DataError: there is no copy, or it has no prompts.
    """
    package = find_bfcl(folder).package
    path = package / PROMPTS
    if not path.is_file():
        raise DataError(f"{package}: there is no {PROMPTS.as_posix()} in it; get it with: tunecheck bfcl get")
    return dict(_flat(read_constants(path)))


def _flat(values: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, str):
            yield above + str(name), value
        elif isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")


def system_prompt(prompts: Mapping[str, str], functions: Sequence[JSON]) -> str:
    """Return the system prompt for a model that gets functions as text and answers with `[f(a=1), …]`.

    Args:
        prompts: as `read_prompts` gives them.
        functions: function documents, as a row's `functions`.
    """
    call_format = _fill(
        prompt(prompts, _STYLE + "tool_call_no_tag"),
        {"output_format": prompt(prompts, _OUTPUT_FORMAT), "param_types": prompt(prompts, _PARAMETER_TYPES)},
    )
    available = _fill(
        prompt(prompts, _STYLE + "available_tools"), {"format": "json", "functions": json.dumps(functions, indent=4)}
    )
    return _fill(
        prompt(prompts, _TEMPLATE),
        {
            "persona": prompt(prompts, _STYLE + "persona"),
            "task": prompt(prompts, _STYLE + "task"),
            "tool_call_format": call_format,
            "multiturn_behavior": prompt(prompts, _STYLE + "multiturn_behavior"),
            "available_tools": available,
        },
    )


def prompt(prompts: Mapping[str, str], name: str) -> str:
    if name not in prompts:
        raise DataError(f"the copy of BFCL has no prompt {name}; get it with: tunecheck bfcl get")
    return prompts[name]


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Return the filled template; `str.format` would look into attributes and fail on a brace."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)
