"""Read calls and literals in Python's syntax with a scanner. Nothing is compiled or evaluated.

    [weather.get(city='Paris', days=3), stop(), move('doc', -1.5)]

The scanner reads text (all prefixes except f and b, all escapes), numbers, True/False/None and JSON's true/false/null,
lists, tuples (as lists), dicts, and keyword arguments from a dict (`f(**{'a b': 1})`). Names of functions and arguments
may contain `.` and `-`, because names in schemas do. Everything else (a name, an operation, a call inside a call, a
set, a comprehension) is not a literal and raises an error.

**Positional arguments** get their position as key: `move('doc')` is `{"0": "doc"}`. No named argument in this syntax
can have such a key. `bind_positional` replaces the positions by names if there is a definition.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import ClassVar, NoReturn, TypeVar

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._strict_json import MAX_TEXT_DEPTH, CutOffError, UnreadableError, decode_at, exact, place, quoted

_Item = TypeVar("_Item")

NAME = r"[^\s\d!-/:-@\[-^`{-~][^\s!-,/:-@\[-^`{-~]*+"
"""A name of a function or of an argument, dotted or hyphenated, in any script."""

_NAME = re.compile(NAME)
_SPACE = re.compile(r"(?:\s++|#[^\n]*+)*+")
# a prefix (as in r"…"), which may be empty, and the opening quotation mark
_QUOTE = re.compile(r"([A-Za-z]{0,2})('''|\"\"\"|'|\")")
# by opening quotation mark: the text up to the closing one
_BODIES = {
    "'": re.compile(r"((?:[^'\\\n]++|\\.)*+)'", re.DOTALL),
    '"': re.compile(r'((?:[^"\\\n]++|\\.)*+)"', re.DOTALL),
    "'''": re.compile(r"((?:[^'\\]++|\\.|'(?!''))*+)'''", re.DOTALL),
    '"""': re.compile(r'((?:[^"\\]++|\\.|"(?!""))*+)"""', re.DOTALL),
}
_ESCAPE = re.compile(
    r"\\(\r?\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]{1,100}\}|.)", re.DOTALL
)
_PLAIN_ESCAPES: dict[str, str] = dict(zip("\\'\"abfnrtv\n", ["\\", "'", '"', *"\a\b\f\n\r\t\v", ""], strict=True)) | {
    "\r\n": ""
}
_NUMBER = re.compile(
    r"([+-]?)\s*+(0[xXoObB][0-9a-fA-F_]++|(?:[0-9][0-9_]*+(?:\.[0-9_]*+)?|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9_]++)?)(?![\w.])"
)
_WORDS: dict[str, JSON] = {"True": True, "true": True, "False": False, "false": False}
_NOTHING = ("None", "null")
# a Python text or a list or dict that begins with one: JSON has no text in apostrophes
_APOSTROPHE_FIRST = re.compile(r"[\s\[{]*+'")


class PythonScanner:
    """Reads a text from a position on. `position` is the current place, or the place of an error.

    The methods raise `UnreadableError`, which names line and column.
    """

    __slots__ = ("_depth", "position", "text")

    keyword: ClassVar[re.Pattern[str]] = re.compile(rf"({NAME})\s*+=(?!=)")
    """The name and `=` of a named argument."""
    space: ClassVar[re.Pattern[str]] = _SPACE
    """White space and comments, which are skipped."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position
        self._depth = 0

    def calls(self) -> list[FunctionCall]:
        """Read a list of calls, `[f(a=1), g('x')]`, and move past it."""
        self._expect("[")
        return self._sequence("]", self.call)

    def all_calls(self) -> list[FunctionCall]:
        """Read the whole text as calls, `[f(), g()]` or `f(), g()`.

        Raises:
            UnreadableError: the text contains anything else.
        """
        if self.sees("["):
            calls = self.calls()
        else:
            calls = [self.call()]
            while self._take(","):
                calls.append(self.call())
        if not self.at_end():
            raise UnreadableError(f"more text after the calls at {place(self.text, self.position)}")
        return calls

    def call(self) -> FunctionCall:
        """Read one call, `f(a=1)`, and move past it; a positional argument is named by its number ("0", "1", …)."""
        self._skip()
        name = _NAME.match(self.text, self.position)
        if not name:
            self._fail("expected the name of a function")
        self.position = name.end()
        self._expect("(")
        arguments: dict[str, JSON] = {}
        positions = [0]
        self._sequence(")", lambda: self._argument(arguments, positions))
        return FunctionCall(name[0], arguments)

    def value(self) -> JSON:
        """Read one literal as a JSON value and move past it; tuples become lists."""
        self._skip()
        first = self.text[self.position : self.position + 1]
        if first in "[({" and first:
            return self._container(first)
        if _QUOTE.match(self.text, self.position):
            return self._strings()
        if first and first in "+-.0123456789":
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
        space = self.space.match(self.text, self.position)
        if space:
            self.position = space.end()

    def _take(self, token: str) -> bool:
        """Move past this token and return True; return False if another token comes next."""
        if not self.sees(token):
            return False
        self.position += len(token)
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._fail(f"expected {token!r}")

    def _fail(self, what: str) -> NoReturn:
        """Raise an error at this position: CutOffError at the end of the text, else UnreadableError."""
        if self.position >= len(self.text):
            raise CutOffError(f"{what}, but the text ends at {place(self.text, self.position)}")
        raise UnreadableError(f"{what} at {place(self.text, self.position)}")

    def _sequence(self, closer: str, item: Callable[[], _Item]) -> list[_Item]:
        """Read items between commas up to the closer. A comma after the last item is allowed."""
        items: list[_Item] = []
        while not self._take(closer):
            items.append(item())
            if not self._take(",") and not self.sees(closer):
                self._fail(f"expected ',' or {closer!r} after a literal")
        return items

    def _argument(self, arguments: dict[str, JSON], positions: list[int]) -> None:
        """Read one argument of a call and add it to `arguments`.

        `positions[0]` is the number of the next positional argument, or -1 after a named one.
        """
        self._skip()
        if self.text.startswith("**", self.position):
            return self._unpack(arguments, positions)
        if keyword := self.keyword.match(self.text, self.position):
            self.position = keyword.end()
            name = keyword[1]
            positions[0] = -1
        elif positions[0] < 0:
            self._fail("a positional argument follows a named one")
        else:
            name = str(positions[0])
            positions[0] += 1
        return self._give(arguments, name, self.value())

    def _unpack(self, arguments: dict[str, JSON], positions: list[int]) -> None:
        """Read `**{…}` and add its entries to `arguments`; no positional argument may follow."""
        positions[0] = -1
        self.position += 2
        values = self.value()
        if not isinstance(values, dict):
            self._fail("expected an object after '**'")
        for name, value in values.items():
            self._give(arguments, name, value)

    def _give(self, arguments: dict[str, JSON], name: str, value: JSON) -> None:
        """Add an argument to `arguments`; raise UnreadableError for a repeated name."""
        if name in arguments:
            self._fail(f"the argument {quoted(name)} is given twice")
        arguments[name] = value

    def _container(self, opener: str) -> JSON:
        """Read the list, tuple or dict that begins here with this bracket."""
        if self._depth >= MAX_TEXT_DEPTH:
            self._fail(f"the text is nested deeper than {MAX_TEXT_DEPTH} levels")
        self._depth += 1
        self.position += 1
        made: JSON
        if opener == "[":
            made = self._sequence("]", self.value)
        else:
            made = self._tuple() if opener == "(" else self._dict()
        self._depth -= 1
        return made

    def _tuple(self) -> JSON:
        """Read the rest of a parenthesis: a tuple becomes a list, a value in parentheses stays a value."""
        if self._take(")"):
            return []
        first = self.value()
        if self._take(")"):
            return first  # parentheses around one value
        self._expect(",")
        return [first, *self._sequence(")", self.value)]

    def _dict(self) -> JSON:
        made: dict[str, JSON] = {}
        self._sequence("}", lambda: self._entry(made))
        return made

    def _entry(self, made: dict[str, JSON]) -> None:
        """Read `key: value` and add it to the dict; raise UnreadableError for a key that is repeated or no text."""
        key = self._key()
        if not self._take(":"):
            self._fail("expected ':' after a key")
        value = self.value()
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)  # as in JSON
        if not isinstance(key, str):
            self._fail("a key is not text")
        if key in made:
            self._fail(f"the key {quoted(key)} is given twice")
        made[key] = value

    def _key(self) -> JSON:
        return self.value()

    def _strings(self) -> str:
        """Read one text, or adjacent texts, which Python joins."""
        parts: list[str] = []
        while opening := _QUOTE.match(self.text, self.position):
            parts.append(self._text(opening[1].lower(), opening[2], opening.end()))
            self._skip()
        return "".join(parts)

    def _text(self, prefix: str, quote: str, start: int) -> str:
        """Read a text up to its closing quotation mark and return it without escapes.

        `prefix` is what stands before the opening `quote`, such as "r" for raw; `start` is the position after it.
        """
        if prefix not in ("", "r", "u"):
            self._fail(f"a text with the prefix {prefix!r} is not a literal")
        body = _BODIES[quote].match(self.text, start)
        if not body:
            self._fail("a text is not closed")
        written: str = body[1]
        read: str = written if prefix == "r" or "\\" not in written else _ESCAPE.sub(self._unescape, written)
        self.position = body.end()
        return read

    def _unescape(self, escape: re.Match[str]) -> str:
        """Return the character for an escape such as `\\n` or `\\x41`; raise UnreadableError for one that is broken."""
        whole: str = escape[0]
        code = whole[1:]
        plain = _PLAIN_ESCAPES.get(code)
        if plain is not None:
            return plain
        if code[0] in "01234567":
            return chr(int(code, 8))
        if code[0] not in "xuUN":
            return whole  # Python keeps unknown escapes
        try:
            return unicodedata.lookup(code[2:-1]) if code[0] == "N" else chr(int(code[1:], 16))
        except (ValueError, KeyError, OverflowError):
            self._fail(f"a text has the broken escape {quoted(whole)}")

    def _number(self) -> JSON:
        """Read a number in Python's notation, with a sign and underscores, and move past it."""
        match = _NUMBER.match(self.text, self.position)
        if not match:
            self._fail("expected a number")
        try:
            number = _number(match[2])
        except ValueError:
            self._fail("a number cannot be read")
        self.position = match.end()
        return -number if match[1] == "-" else number

    def _word(self) -> JSON:
        """Read True, False, None, or JSON's true, false, null; any other name raises an error."""
        match = _NAME.match(self.text, self.position)
        if not match:
            self._fail("expected a literal")
        word = match[0]
        if word in _WORDS or word in _NOTHING:
            self.position = match.end()
            return _WORDS.get(word)
        space = _SPACE.match(self.text, match.end())
        if space and self.text.startswith("(", space.end()):
            self._fail(f"arguments must be literals, not a call of {quoted(word)}")
        self._fail(f"the name {quoted(word)} is not a literal")


def _number(digits: str) -> int | float:
    """Convert a number in Python's notation.

    Raises:
        ValueError: the digits are no number, or the number is infinite or too long.
    """
    if digits[:2].lower() in ("0x", "0o", "0b"):
        number: int | float = int(digits, 0)
    elif digits.replace("_", "").isdigit():
        number = int(digits, 0)  # base 0 refuses leading zeros, as Python does
    else:
        number = float(digits)
    exact(number)
    return number


def literal_at(text: str, position: int = 0) -> tuple[JSON, int]:
    """Read the JSON value or Python literal at this position; return it with the position after it.

    Raises:
        UnreadableError: the text is neither JSON nor a Python literal.
    """
    try:
        return decode_at(text, position)
    except UnreadableError as json_error:
        scanner = PythonScanner(text, position)
        try:
            return scanner.value(), scanner.position
        except UnreadableError as error:
            raise (error if _APOSTROPHE_FIRST.match(text, position) else json_error) from None


def positional_count(arguments: dict[str, JSON]) -> int:
    """Return the number of positional arguments: the keys "0", "1", … without a gap."""
    count = 0
    while str(count) in arguments:
        count += 1
    return count


def bind_positional(call: FunctionCall, parameter_names: Sequence[str]) -> FunctionCall:
    """Return the call with its positional arguments ("0", "1", …) under the names of the parameters, in order.

    A position beyond the last parameter keeps its number. The call is returned unchanged if a parameter is given by
    position and by name, or is itself named "0". The matcher then reports arguments that no definition has.
    """
    count = min(positional_count(call.arguments), len(parameter_names))
    names = {str(place): parameter_names[place] for place in range(count)}
    if not count or "0" in parameter_names or any(name in call.arguments for name in names.values()):
        return call
    return FunctionCall(call.name, {names.get(key, key): value for key, value in call.arguments.items()}, call.id)
