"""Constants in a Python file, read as data: the file is parsed, and nothing in it is ever run.

Read are assignments of literals at the top level, and what is put together from such constants with `+`, f-strings,
lists and dicts: `NAME = {"a": OTHER}`, `NAME = "text " + OTHER`. Everything else in the file is passed over.
"""

import ast
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from tunecheck import DataError
from tunecheck.plugins import JSON, told_as
from tunecheck_bfcl._data.files import LONG_CONTEXT, BfclFiles

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
    with told_as(DataError, path):
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
