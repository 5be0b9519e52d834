"""Arithmetic on literals (`2 * 60`, `'a' + 'b'`), folded without evaluating anything: only these nodes are known.

The leaderboard evaluates such operations in a model's text, so verdicts depend on them; what is no plain arithmetic,
or would grow without bound, is an error here.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TypeAlias

Folded: TypeAlias = "int | float | complex | bool | str | bytes | list[Folded] | tuple[Folded, ...] | None"

_MOST_BITS = 10_000
_MOST_ELEMENTS = 10_000

_OPERATIONS: dict[type, Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_SIGNS: dict[type, Callable[[object], object]] = {
    ast.USub: operator.neg,  # type: ignore[dict-item]
    ast.UAdd: operator.pos,  # type: ignore[dict-item]
    ast.Invert: operator.invert,  # type: ignore[dict-item]
}


def fold(node: ast.expr) -> Folded:
    """The value of an expression made of literals and arithmetic.

    Raises:
        ValueError: it holds anything else, cannot be computed, or would be too large.
    """
    try:
        return _folded(node)
    except (TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ValueError(f"arithmetic that fails: {error}") from None


def _folded(node: ast.expr) -> Folded:
    if isinstance(node, ast.Constant) and node.value is not ...:
        return node.value
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _checked(_SIGNS[type(node.op)](_folded(node.operand)))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _computed(node.op, _folded(node.left), _folded(node.right))
    if isinstance(node, ast.List):
        return [_folded(each) for each in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_folded(each) for each in node.elts)
    raise ValueError("no arithmetic on literals")


def _computed(operation: ast.operator, left: Folded, right: Folded) -> Folded:
    if isinstance(operation, ast.Mod) and isinstance(left, (str, bytes)):
        raise ValueError("formatting is no arithmetic")
    if isinstance(operation, (ast.Pow, ast.LShift)) and isinstance(left, int) and isinstance(right, int):
        bits = right * left.bit_length() if isinstance(operation, ast.Pow) else right + left.bit_length()
        if bits > _MOST_BITS:
            raise ValueError("a number too large")
    if isinstance(operation, ast.Mult) and _repeated(left, right) > _MOST_ELEMENTS:
        raise ValueError("a repetition too long")
    return _checked(_OPERATIONS[type(operation)](left, right))


def _repeated(left: Folded, right: Folded) -> int:
    """How large the product of a text or list with a number would be; 0 where nothing is repeated."""
    for sequence, count in ((left, right), (right, left)):
        if isinstance(sequence, (str, bytes, list, tuple)) and isinstance(count, int):
            return _size(sequence) * max(count, 0)
    return 0


def _size(value: Folded) -> int:
    """Characters and elements, those of lists in it included: `[[0] * 1000] * 1000` has a million."""
    if isinstance(value, (list, tuple)):
        return len(value) + sum(map(_size, value))
    return len(value) if isinstance(value, (str, bytes)) else 0


def _checked(value: object) -> Folded:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("a number too large")
    if isinstance(value, (str, bytes, list, tuple)) and _size(value) > _MOST_ELEMENTS:
        raise ValueError("a text or list too long")
    return value  # type: ignore[return-value]
