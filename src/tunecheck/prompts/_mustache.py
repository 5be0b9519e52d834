"""Mustache templates, as the package prompty renders them: values, sections and inverted sections.

`{{name}}` is written with HTML's signs escaped, `{{{name}}}` and `{{&name}}` as it is; `{{#name}}…{{/name}}` for each
item of a list, or once for what is neither empty nor false; `{{^name}}…{{/name}}` for the rest. A name with points
leads into a mapping, a point alone is the current item; what is not found is empty. Partials and other delimiters are
refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from tunecheck._json import JSON
from tunecheck.prompts._bounds import Budget
from tunecheck.prompts._fragments import Fragment, join, literal
from tunecheck.prompts._language import MAX_PARTS, Language, TemplateError

_ESCAPED = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"})
_SIGNS = ("#", "^", "/", "!", "&", ">", "=", "{")


@dataclass(frozen=True, slots=True)
class _Value:
    keys: tuple[str, ...]
    raw: bool


@dataclass(frozen=True, slots=True)
class _Section:
    keys: tuple[str, ...]
    inverted: bool
    start: int
    body: "_Body"


_Body = list[str | _Value | _Section]


class Mustache(Language):
    """A Mustache template. A variable is required like one of Jinja's where it stands outside all sections."""

    def __init__(self, body: str) -> None:
        self._body = _parsed(body)
        parts = list(_parts(self._body))
        if len(parts) > MAX_PARTS:
            raise TemplateError(f"the template has more than {MAX_PARTS} parts, which no prompt needs")
        keys = [part.keys for part in parts if not isinstance(part, str) and part.keys]
        outside = {part.keys[0] for part in self._body if isinstance(part, _Value) and part.keys}
        self.names = frozenset(first for first, *_ in keys)
        self.optional = self.names - outside
        self.used = frozenset()
        self.own_text = (*(part for part in parts if isinstance(part, str)), *(path[-1] for path in keys))

    def rendered(self, values: Mapping[str, JSON], budget: Budget) -> Fragment:
        texts: list[str] = []
        _write(self._body, [dict(values)], budget, texts)
        return join(texts)

    def line(self, traceback: TracebackType | None) -> int:
        return 1


# -- reading


def _parsed(body: str) -> _Body:
    top: _Body = []
    opened: list[_Section] = []
    position = 0
    for start, sign, name, end in _tags(body):
        current = opened[-1].body if opened else top
        keys = () if name == "." else tuple(name.split("."))
        first, last = _without_its_line(body, position, start, end) if sign in ("#", "^", "/", "!") else (start, end)
        current.append(body[position:first])
        position = last
        if sign in ("", "&", "{"):
            current.append(_Value(keys, raw=bool(sign)))
        elif sign in ("#", "^"):
            opened.append(_Section(keys, sign == "^", start, []))
            current.append(opened[-1])
        elif sign == "/":
            if not opened or opened.pop().keys != keys:
                raise _error(body, start, f"{{{{/{name}}}}} closes a section that is not open")
        elif sign != "!":
            what = "partials are" if sign == ">" else "other delimiters are"
            raise _error(body, start, f"{what} not supported in a prompt")
    if opened:
        raise _error(body, opened[-1].start, f"the section {'.'.join(opened[-1].keys)} is not closed")
    return [*top, body[position:]]


def _tags(body: str) -> Iterator[tuple[int, str, str, int]]:
    """Start, sign, name and end of each tag."""
    start = body.find("{{")
    while start >= 0:
        close = body.find("}}", start + 2)
        if close < 0:
            raise _error(body, start, "a tag is not closed: }} is missing")
        inner, end = body[start + 2 : close], close + 2
        sign = inner[0] if inner.startswith(_SIGNS) else ""
        if sign == "{":
            if not body.startswith("}", end):
                raise _error(body, start, "a tag is not closed: }}} is missing")
            end += 1
        yield start, sign, inner[len(sign) :].strip(), end
        start = body.find("{{", end)


def _without_its_line(body: str, after: int, start: int, end: int) -> tuple[int, int]:
    """Where a tag that writes nothing begins and ends: with its whole line, where nothing else stands there."""
    above, below = body.rfind("\n", after, start), body.find("\n", end)
    before = body[max(after, above + 1) : start]
    opens = above >= 0 or after == 0 or body[after - 1] == "\n"
    if not opens or before.strip() or body[end : below if below >= 0 else len(body)].strip():
        return start, end
    return start - len(before) + len(before.rstrip(" ")), end if below < 0 else below + 1


def _error(body: str, position: int, problem: str) -> TemplateError:
    return TemplateError(problem, body.count("\n", 0, position) + 1)


def _parts(body: _Body) -> Iterator[str | _Value | _Section]:
    todo = [body]
    while todo:
        for part in todo.pop():
            yield part
            if isinstance(part, _Section):
                todo.append(part.body)


# -- writing


def _write(body: _Body, scopes: Sequence[JSON], budget: Budget, texts: list[str]) -> None:
    for part in body:
        budget.charge(1)
        if isinstance(part, str):
            budget.write(len(part))
            texts.append(literal(part))
            continue
        value = _found(part.keys, scopes, budget)
        if isinstance(part, _Value):
            text = budget.text_of(value)
            written = text if part.raw or isinstance(text, Fragment) else text.translate(_ESCAPED)
            budget.write(len(written))
            texts.append(written)
        elif part.inverted:
            if not value:
                _write(part.body, scopes, budget, texts)
        else:
            # As the package has it: what is empty or false is passed over as an item, too.
            for item in value if isinstance(value, list) else [value]:
                if item:
                    _write(part.body, [item, *scopes], budget, texts)


def _found(keys: tuple[str, ...], scopes: Sequence[JSON], budget: Budget) -> JSON:
    if not keys:
        return scopes[0]
    for scope in scopes:
        budget.charge(len(keys))
        value = scope
        for key in keys:
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, (list, str)) and key.isdecimal() and len(key) < 8 and int(key) < len(value):
                value = value[int(key)]
            else:
                break
        else:
            return "" if value is None or value in ("", [], {}) else value
    return ""
