"""Read calls and literals in Python's syntax with a scanner. Nothing is compiled or evaluated.

    [weather.get(city='Paris', days=3), stop(), move('doc', -1.5)]

The scanner reads text (all prefixes except f and b, all escapes), numbers, True/False/None and JSON's true/false/null,
lists, tuples (as lists), dicts, and keyword arguments from a dict (`f(**{'a b': 1})`). Names of functions and arguments
may contain `.` and `-`, because names in schemas do. Everything else (a name, an operation, a call inside a call, a
set, a comprehension) is not a literal and raises an error.

| text                      | value                                                          |
|---------------------------|----------------------------------------------------------------|
| `f(a=1, **{'b c': 2})`    | the call of `f` with `{"a": 1, "b c": 2}`                      |
| `'it' "'s"`               | `"it's"`, because adjacent texts are joined                    |
| `(1, 2)`, `(1,)`, `(1)`   | `[1, 2]`, `[1]`, `1`                                           |
| `{1: None}`               | `{"1": null}`                                                  |
| `0xFF`, `1_000`, `-.5`    | 255, 1000, -0.5                                                |
| `f(a=1, 2)`, `f(a=b)`     | errors: a positional argument after a named one, a name        |
| `f(a=g())`, `f(a=1, a=2)` | errors: a call inside a call, an argument twice                |

**Positional arguments** get their position as key: `move('doc')` is `{"0": "doc"}`. No named argument in this syntax
can have such a key. `bind_positional` replaces the positions by names if there is a definition.
"""

import codecs
import re
from collections.abc import Iterator
from typing import ClassVar, NoReturn

from tunecheck._json import JSON
from tunecheck.calls._model import (
    MAX_TEXT_DEPTH,
    NAME,
    PYTHON_NAME,
    CutOffError,
    FunctionCall,
    UnreadableError,
    decode_at,
    exact,
    place,
    quoted,
)

# white space and comments; matches the empty text, too
_SPACE = re.compile(r"(?:\s++|#[^\n]*+)*+")

# -- texts

# the beginning of a text: `"`, `r'`, `b"""`; not `abc'`, because no prefix has three letters
_QUOTE = re.compile(r"(?P<prefix>[A-Za-z]{0,2})(?P<mark>'''|\"\"\"|'|\")")
# by quotation mark: the rest of the text with its closing mark, `it\'s'`; a single mark must close on the same line
_BODIES = {
    "'": re.compile(r"((?:[^'\\\n]++|\\(?:\r\n|.))*+)'", re.DOTALL),
    '"': re.compile(r'((?:[^"\\\n]++|\\(?:\r\n|.))*+)"', re.DOTALL),
    "'''": re.compile(r"((?:[^'\\]++|\\.|'(?!''))*+)'''", re.DOTALL),
    '"""': re.compile(r'((?:[^"\\]++|\\.|"(?!""))*+)"""', re.DOTALL),
}
# a backslash and its code: `\n`, `\101`, `\x41`, `\u2022`, `\N{BULLET}`; of the broken `\x4` only `\x`
_ESCAPE = re.compile(r"(?s)\\(\r?\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]{1,100}\}|.)")

# -- numbers and constants

_NUMBER_STARTS = frozenset("+-.0123456789")
# `3`, `1_000`, `1.5e-3`, `.5`, `2.`; not `.` or `e3`
_DECIMAL = r"(?:[0-9][0-9_]*+(?:\.[0-9_]*+)?|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9_]++)?"
# `-3`, `+ 1.5`, `0xFF`; not `3px` or `1.2.3`, where a name or a dot follows
_NUMBER = re.compile(rf"(?P<sign>[+-]?)\s*+(?P<digits>0[xXoObB][0-9a-fA-F_]++|{_DECIMAL})(?![\w.])")
_CONSTANTS: dict[str, JSON] = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}


class PythonScanner:
    """Reads a text from a position on. `position` is the current place, or the place of an error.

    The methods raise `UnreadableError`, which names line and column. Subclasses read what models write instead of
    Python: they override the patterns `keyword` and `space`, and the methods for single parts, such as `_key`.
    """

    __slots__ = ("_depth", "position", "text")

    keyword: ClassVar[re.Pattern[str]] = re.compile(rf"({NAME})\s*+=(?!=)")
    """The name and `=` of a named argument: `days =`, not `days ==`. Some models write `days:` or `"days"=`."""
    space: ClassVar[re.Pattern[str]] = _SPACE
    """White space and comments, which are skipped. In formats without comments, `#` is part of a value."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position
        self._depth = 0

    def calls(self) -> list[FunctionCall]:
        """Read a list of calls, `[f(a=1), g('x')]`, and move past it."""
        self._expect("[")
        return [self.call() for _ in self._items("]")]

    def all_calls(self) -> list[FunctionCall]:
        """Read the whole text as calls, `[f(), g()]` or `f(), g()`.

        Raises:
            UnreadableError: the text contains anything else.
        """
        if self.sees("["):
            calls = self.calls()
        else:
            calls = [self.call()]
            while self._accept(","):
                calls.append(self.call())
        if not self.at_end():
            raise UnreadableError(f"unexpected text after the calls, at {place(self.text, self.position)}")
        return calls

    def call(self) -> FunctionCall:
        """Read one call, `f(a=1)`, and move past it; a positional argument is named by its number ("0", "1", …)."""
        self._skip()
        name = PYTHON_NAME.match(self.text, self.position)
        if not name:
            self._fail("expected the name of a function")
        self.position = name.end()
        self._expect("(")

        arguments: dict[str, JSON] = {}
        next_position, named_seen = 0, False

        for _ in self._items(")"):
            self._skip()
            if self.text.startswith("**", self.position):
                named_seen = True
                self._unpack(arguments)
            elif keyword := self.keyword.match(self.text, self.position):
                named_seen = True
                self._named_argument(keyword, arguments)
            elif named_seen:
                self._fail("a positional argument follows a named one")
            else:
                arguments[str(next_position)] = self.value()
                next_position += 1

        return FunctionCall(name[0], arguments)

    def value(self) -> JSON:
        """Read one literal as a JSON value and move past it; tuples become lists."""
        self._skip()
        first = self.text[self.position : self.position + 1]

        # The first character decides. A letter may begin a text with a prefix (`r'a'`) or a word (`None`).
        if first in ("[", "(", "{"):
            return self._container(first)
        if _QUOTE.match(self.text, self.position):
            return self._adjacent_texts()
        if first in _NUMBER_STARTS:
            return self._number()
        return self._word()

    def at_end(self) -> bool:
        """Skip white space and return whether the end of the text is reached."""
        self._skip()
        return self.position >= len(self.text)

    def sees(self, token: str) -> bool:
        """Return whether this token comes next; white space and comments before it are skipped."""
        if self.text.startswith(token, self.position):
            return True
        self._skip()
        return self.text.startswith(token, self.position)

    def _skip(self) -> None:
        """Move past white space and comments."""
        space = self.space.match(self.text, self.position)
        if space:
            self.position = space.end()

    def _accept(self, token: str) -> bool:
        """Move past this token and return True; return False if another token comes next.

        In both cases, white space and comments before the token are skipped.
        """
        if not self.sees(token):
            return False
        self.position += len(token)
        return True

    def _expect(self, token: str) -> None:
        """Move past this token; raise an error if another token comes next."""
        if not self._accept(token):
            self._fail(f"expected {token!r}")

    def _fail(self, problem: str) -> NoReturn:
        """Raise an error at this position: CutOffError at the end of the text, else UnreadableError."""
        if self.position >= len(self.text):
            raise CutOffError(f"{problem}, but the text ends at {place(self.text, self.position)}")
        raise UnreadableError(f"{problem} at {place(self.text, self.position)}")

    def _items(self, closer: str) -> Iterator[None]:
        """Yield before each item, for the caller to read it, and move past the commas and the closing bracket.

        A comma after the last item is allowed.
        """
        while not self._accept(closer):
            yield
            if not self._accept(",") and not self.sees(closer):
                self._fail(f"expected ',' or {closer!r} after a literal")

    # -- arguments of a call

    def _named_argument(self, keyword: re.Match[str], arguments: dict[str, JSON]) -> None:
        """Read the value after a name and `=`, and add it to `arguments`."""
        self.position = keyword.end()
        self._add_argument(arguments, keyword[1], self.value())

    def _unpack(self, arguments: dict[str, JSON]) -> None:
        """Read `**{…}` and add its entries to `arguments`."""
        self.position += len("**")
        values = self.value()
        if not isinstance(values, dict):
            self._fail("expected an object after '**'")

        for name, value in values.items():
            self._add_argument(arguments, name, value)

    def _add_argument(self, arguments: dict[str, JSON], name: str, value: JSON) -> None:
        """Add an argument to `arguments`; raise UnreadableError for a repeated name."""
        if name in arguments:
            self._fail(f"the argument {quoted(name)} is given twice")
        arguments[name] = value

    # -- lists, tuples and dicts

    def _container(self, opener: str) -> JSON:
        """Read the list, tuple or dict that begins here with this bracket."""
        if self._depth >= MAX_TEXT_DEPTH:
            self._fail(f"the text is nested deeper than {MAX_TEXT_DEPTH} levels")

        self._depth += 1
        self.position += 1

        container: JSON
        if opener == "[":
            container = [self.value() for _ in self._items("]")]
        elif opener == "(":
            container = self._tuple()
        else:
            container = self._dict()

        self._depth -= 1
        return container

    def _tuple(self) -> JSON:
        """Read the rest of a parenthesis: a tuple becomes a list, a value in parentheses stays a value."""
        if self._accept(")"):
            return []

        first = self.value()
        if self._accept(")"):
            return first  # parentheses around one value
        self._expect(",")
        return [first, *[self.value() for _ in self._items(")")]]

    def _dict(self) -> JSON:
        """Read the rest of a dict; raise UnreadableError for a key that is repeated or neither text nor integer."""
        entries: dict[str, JSON] = {}
        for _ in self._items("}"):
            key = self._key()
            if not self._accept(":"):
                self._fail("expected ':' after a key")
            value = self.value()

            if isinstance(key, int) and not isinstance(key, bool):
                key = str(key)  # as in JSON
            if not isinstance(key, str):
                self._fail("a key is not text")
            if key in entries:
                self._fail(f"the key {quoted(key)} is given twice")

            entries[key] = value
        return entries

    def _key(self) -> JSON:
        """Read the key of a dict, any literal in Python. Subclasses override it for formats with bare keys."""
        return self.value()

    # -- texts, numbers and constants

    def _adjacent_texts(self) -> str:
        """Read one text, or adjacent texts, which Python joins."""
        parts: list[str] = []
        while opening := _QUOTE.match(self.text, self.position):
            parts.append(self._quoted_text(opening["prefix"].lower(), opening["mark"], opening.end()))
            self._skip()
        return "".join(parts)

    def _quoted_text(self, prefix: str, quote: str, start: int) -> str:
        """Read a text up to its closing quotation mark and return it without escapes.

        `prefix` is what stands before the opening `quote`, such as "r" for raw; `start` is the position after it.
        """
        if prefix not in ("", "r", "u"):
            self._fail(f"a text with the prefix {prefix!r} is not a literal")

        body = _BODIES[quote].match(self.text, start)
        if not body:
            self._fail("a text has no closing quote")

        written: str = body[1]
        read: str = written if prefix == "r" or "\\" not in written else _ESCAPE.sub(self._unescape, written)
        self.position = body.end()
        return read

    def _unescape(self, escape: re.Match[str]) -> str:
        """Return the character for an escape such as `\\n` or `\\x41`; raise UnreadableError for one that is broken.

        An unknown escape stays as it is. A backslash at the end of a line joins it with the next line.
        """
        code: str = escape[1]
        if code in ("\n", "\r\n"):
            return ""
        if code[0] in "01234567":
            return chr(int(code, 8))
        if code[0] not in "\\'\"abfnrtvxuUN":
            return escape[0]  # Python keeps unknown escapes
        try:
            return codecs.decode(escape[0], "unicode_escape")
        except UnicodeDecodeError:
            self._fail(f"a text has the broken escape {quoted(escape[0])}")

    def _number(self) -> JSON:
        """Read a number in Python's notation, with a sign and underscores, and move past it."""
        match = _NUMBER.match(self.text, self.position)
        if not match:
            self._fail("expected a number")

        digits = match["digits"]
        is_integer = digits[:2].lower() in ("0x", "0o", "0b") or digits.replace("_", "").isdigit()

        try:
            number = int(digits, 0) if is_integer else float(digits)  # base 0 refuses leading zeros, as Python does
            value = exact(-number if match["sign"] == "-" else number)  # refuses what JSON cannot have, such as 1e999
        except ValueError:
            self._fail("a number cannot be read")
        self.position = match.end()
        return value

    def _word(self) -> JSON:
        """Read True, False, None, or JSON's true, false, null; any other name raises an error."""
        match = PYTHON_NAME.match(self.text, self.position)
        if not match:
            self._fail("expected a literal")

        word = match[0]
        if word in _CONSTANTS:
            self.position = match.end()
            return _CONSTANTS[word]

        # A word before a parenthesis is a call, which cannot be an argument: the error says so.
        space = _SPACE.match(self.text, match.end())
        if space and self.text.startswith("(", space.end()):
            self._fail(f"arguments must be literals, not a call of {quoted(word)}")
        self._fail(f"arguments must be literals, not the name {quoted(word)}")


# brackets up to a text in apostrophes: `'a'`, `['a'`, `[{'a'`; not `["a", 'b'`
_APOSTROPHE_FIRST = re.compile(r"[\s\[{]*+'")


def literal_at(text: str, position: int = 0) -> tuple[JSON, int]:
    """Read the JSON value or Python literal at this position; return it with the position after it.

    Raises:
        UnreadableError: the text is neither JSON nor a Python literal. The error describes the JSON, unless the value
            begins with a text in apostrophes, which only Python has.
    """
    try:
        return decode_at(text, position)
    except UnreadableError as json_error:
        scanner = PythonScanner(text, position)
        try:
            return scanner.value(), scanner.position
        except UnreadableError as python_error:
            if _APOSTROPHE_FIRST.match(text, position):
                raise python_error from None
            raise json_error from None
