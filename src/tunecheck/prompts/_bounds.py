"""What a template may do, and what one rendering may cost, so that no template can hang or fill the memory.

Steps and text are counted; filters, methods and operators are those listed here, each within bounds. What asks for too
much raises TooMuchError.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sized
from types import BuiltinMethodType, MappingProxyType
from typing import cast

from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.sandbox import safe_range
from jinja2.tests import TESTS
from jinja2.utils import Cycler, Joiner, Namespace, pass_context

from tunecheck._errors import PromptRenderError
from tunecheck.prompts._fragments import Fragment, Role, join

MAX_STEPS = 500_000
"""What a quarter of a second to three quarters of rendering does; a large prompt takes thousands."""

MAX_TEXT = 4 << 20
"""Most characters that are written in one rendering, and that any text in it has."""

MAX_BITS = 14_000
"""Longest whole number, 4,214 digits: Python by default writes none of more than 4,300."""

_PER_STEP = 16
"""Characters of a text that count as one step: copying them takes about as long."""

_NONE: dict[str, object] = {}
_VIEWS = (type(_NONE.keys()), type(_NONE.values()), type(_NONE.items()))
_CONTAINERS: tuple[type[Collection[object]], ...] = (list, tuple, set, frozenset, *_VIEWS)
"""Types rather than abstract ones, which are ten times as slow to ask for and are asked for at each step."""

_SCALARS = (str, int, float, type(None))


class TooMuchError(PromptRenderError):
    """A template that exceeds its limits of time or memory."""


class Budget:
    __slots__ = ("_characters", "_steps")

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._characters = MAX_TEXT

    def charge(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise TooMuchError("the template takes too many steps: are its loops as long as they should be?")

    def write(self, size: int) -> None:
        self._characters -= size
        if self._characters < 0:
            raise TooMuchError(f"the template writes more than {MAX_TEXT >> 20} MB")

    def allow(self, size: int) -> None:
        if size > MAX_TEXT:
            raise TooMuchError(f"the template makes a text or list of {size} and more, which no prompt needs")

    def at_most(self, most: int, number: object, what: str) -> None:
        if isinstance(number, int) and abs(number) > most:
            raise TooMuchError(f"{what} of more than {most} is not allowed")

    def weigh(self, *values: object) -> None:
        todo: list[object] = list(values)
        while todo:
            value = todo.pop()
            if isinstance(value, str):
                self.charge(1 + len(value) // _PER_STEP)
                continue
            if isinstance(value, dict):
                self.charge(1 + len(value))
                todo.extend(value)
                todo.extend(value.values())
            elif isinstance(value, _CONTAINERS):
                self.charge(1 + len(value))
                todo.extend(value)
            else:
                self.charge(1 + (len(value) if isinstance(value, range) else 0))

    def taken(self, value: object) -> object:
        """What an operation gave: weighed, not too long, and written out where it comes bit by bit."""
        if hasattr(type(value), "__next__") and not isinstance(value, Cycler):
            value = list(self.each(cast("Iterator[object]", value)))
        if isinstance(value, str):
            self.allow(len(value))
        elif isinstance(value, int):
            self.at_most(MAX_BITS, value.bit_length(), "a number of bits")
        self.weigh(value)
        return value

    def each(self, values: Iterator[object], cost: int = 1) -> Iterator[object]:
        for value in values:
            self.charge(cost)
            yield value

    def text_of(self, value: object) -> str:
        if type(value) in (int, float, bool, type(None)):
            return str(value)
        self._check(value)
        return str(value)

    def _check(self, value: object) -> None:
        todo, characters = [value], 0
        while todo:
            item = todo.pop()
            self.charge(1)
            if isinstance(item, str):
                characters += len(item)
                self.allow(characters)
            elif isinstance(item, dict):
                todo.extend(item)
                todo.extend(item.values())
            elif isinstance(item, _CONTAINERS):
                todo.extend(item)
            elif not isinstance(item, (*_SCALARS, range)):
                raise TypeError(f"a {type(item).__name__} cannot be written into a prompt")


# -- filters, methods and operators

BUDGET = " budget"
"""Where a rendering's budget stands among its variables: no template can write that name."""

_FILTERS = """abs attr batch capitalize center count d default dictsort e escape filesizeformat first float format
    groupby indent int items join last length list lower map max min reject rejectattr replace reverse round safe select
    selectattr slice sort string sum title tojson trim truncate unique upper urlencode wordcount"""
"""Left out: those that read files' worth of text slowly, and `random`, by which a prompt would not be itself twice."""

_QUICK = frozenset({"count", "d", "default", "defined", "first", "last", "length", "undefined"})
"""Filters and tests that do not look through what they are given."""

_CALL = 10
"""Steps of a call: it takes about ten times as long as an iteration."""

_MAX_WIDTH = 10_000
_MAX_PRECISION = 16
_LONGEST_NUMBER = 400
"""Most characters of a number in a format without a width: 1.8e308 has 309 before the point."""

_SPEC = re.compile(r"%(?:\([^()]*\))?[-#0 +]*([0-9]+|\*)?(?:\.([0-9]+|\*))?")
_NESTED_KEY = re.compile(r"%\([^()]*\(")

_METHODS: Mapping[type, frozenset[str]] = MappingProxyType({
    str: frozenset(
        """capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier islower
        isnumeric isprintable isspace istitle isupper join lower lstrip partition removeprefix removesuffix replace
        rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper""".split()
    ),
    dict: frozenset({"copy", "get", "items", "keys", "values"}),
    list: frozenset({"copy", "count", "index"}),
    tuple: frozenset({"count", "index"}),
    int: frozenset({"bit_length"}),
    float: frozenset({"is_integer"}),
})  # fmt: skip
_CALLABLE = (Macro, BlockReference, LoopContext)
_CLASSES = (dict, Namespace, Cycler, Joiner)
_BOUND = (Cycler, Joiner, LoopContext)

OPERATORS: Mapping[str, Callable[[object, object], object]] = MappingProxyType(
    {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
     "%": operator.mod, "**": operator.pow}
)  # fmt: skip


def budget_of(context: Context) -> Budget:
    budget: Budget = context.parent[BUDGET]
    return budget


def bounded_filters() -> dict[str, Callable[..., object]]:
    known: Mapping[str, Callable[..., object]] = FILTERS
    return {name: _bounded(name, known[name]) for name in _FILTERS.split()}


def bounded_tests() -> dict[str, Callable[..., object]]:
    known: Mapping[str, Callable[..., object]] = TESTS  # type: ignore[assignment]  # inferred too narrowly
    return {name: _bounded(name, test) for name, test in known.items()}


def _bounded(name: str, function: Callable[..., object]) -> Callable[..., object]:
    wanted = getattr(getattr(function, "jinja_pass_arg", None), "name", None)
    check = _CHECKS.get(name)

    @pass_context
    def run(context: Context, *args: object, **kwargs: object) -> object:
        budget = budget_of(context)
        budget.weigh(*(args[1:] if name in _QUICK else args), *kwargs.values())
        if check is not None:
            _defined(*args, *kwargs.values())
            check(budget, *args, **kwargs)
        first = {"context": context, "eval_context": context.eval_ctx, "environment": context.environment}
        return budget.taken(function(*([first[wanted]] if wanted else []), *args, **kwargs))

    return run


def _defined(*values: object) -> None:
    for value in values:
        if isinstance(value, Undefined):
            str(value)  # says itself what is undefined


def _numbers_up_to(most: int, what: str) -> Callable[..., None]:
    def check(budget: Budget, value: object, *args: object, **kwargs: object) -> None:
        for number in (*args, *kwargs.values()):
            budget.at_most(most, number, what)

    return check


def _indent(budget: Budget, value: object, width: object = 4, *_: object, **__: object) -> None:
    budget.at_most(_MAX_WIDTH, width, "an indentation")
    size = len(width) if isinstance(width, str) else width if isinstance(width, int) else 0
    text = budget.text_of(value)
    budget.allow(len(text) + (text.count("\n") + 1) * size)


def _replace(budget: Budget, value: object, old: object, new: object, *_: object, **__: object) -> None:
    text, longer = budget.text_of(value), budget.text_of(new)
    budget.allow(len(text) + text.count(budget.text_of(old)) * len(longer))


def _join(budget: Budget, value: object, d: object = "", *_: object, **__: object) -> None:
    if isinstance(value, Sized):
        budget.allow(len(value) * len(budget.text_of(d)))


def _sum(budget: Budget, iterable: object, attribute: object = None, start: object = 0) -> None:
    if not isinstance(start, (int, float)):
        raise TypeError("sum adds numbers only")


def _tojson(budget: Budget, value: object, indent: object = None) -> None:
    budget.at_most(_MAX_PRECISION, indent, "an indentation")
    budget.text_of(value)


def _format(budget: Budget, value: object, *args: object, **kwargs: object) -> None:
    """The `%` of texts: at most as long as the longest argument, or the greatest width, in every place."""
    text = budget.text_of(value)
    widths = [width for match in _SPEC.finditer(text) for width in match.groups() if width]
    if "*" in widths or _NESTED_KEY.search(text) or any(len(width) > 4 for width in widths):
        raise TypeError("a width in a format is a number of four digits at most")
    longest = max((len(budget.text_of(item)) for item in (*args, *kwargs.values())), default=0)
    budget.allow(len(text) + text.count("%") * (longest + (_MAX_WIDTH if widths else _LONGEST_NUMBER)))


_widths = _numbers_up_to(_MAX_WIDTH, "a width")

_CHECKS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {"batch": _widths, "slice": _widths, "center": _widths, "truncate": _widths, "indent": _indent,
     "round": _numbers_up_to(_MAX_PRECISION, "a precision"), "replace": _replace, "join": _join, "sum": _sum,
     "tojson": _tojson, "format": _format}
)  # fmt: skip


def check_call(budget: Budget, called: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    budget.charge(_CALL)
    budget.weigh(*args, *kwargs.values())
    _defined(called)
    if isinstance(called, _CALLABLE) or called is safe_range or any(called is kind for kind in _CLASSES):
        return
    owner = getattr(called, "__self__", None)
    name = str(getattr(called, "__name__", ""))
    if (isinstance(owner, _BOUND) and not name.startswith("_")) or (isinstance(owner, Role) and name in _METHODS[str]):
        return
    kind = next((kind for kind in _METHODS if isinstance(owner, kind)), None)
    if not isinstance(called, BuiltinMethodType) or kind is None or name not in _METHODS[kind]:
        raise SecurityError(f"{name or type(called).__name__} cannot be called here")
    budget.weigh(owner)
    if kind is str and name == "replace":
        _replace(budget, owner, *args, **kwargs)
    elif kind is str and name == "join":
        _join(budget, args[0] if args else "", owner)


def binary(budget: Budget, sign: str, left: object, right: object) -> object:
    budget.weigh(left, right)
    if sign == "+" and (isinstance(left, Fragment) or isinstance(right, Fragment)):
        if isinstance(left, str) and isinstance(right, str):
            return budget.taken(join((left, right)))
    elif sign == "*":
        _check_product(budget, left, right)
    elif sign == "**" and isinstance(left, int) and isinstance(right, int):
        budget.at_most(MAX_BITS, left.bit_length() * abs(right), "a number of bits")
    elif sign == "%" and isinstance(left, str):
        _format(budget, left, right)
    return budget.taken(OPERATORS[sign](left, right))


def _check_product(budget: Budget, left: object, right: object) -> None:
    for many, times in ((left, right), (right, left)):
        if isinstance(many, (str, list, tuple)) and isinstance(times, int):
            budget.allow(len(many) * times)
            budget.charge(0 if isinstance(many, str) else max(0, len(many) * times))
    if isinstance(left, int) and isinstance(right, int):
        budget.at_most(MAX_BITS, left.bit_length() + right.bit_length(), "a number of bits")
