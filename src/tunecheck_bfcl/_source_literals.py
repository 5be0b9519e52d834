"""Java and JavaScript text as the strict mode reads it: calls, and literals, lists and maps, nested, as values.

    source_calls('[f(a=new int[]{1, 2}, b="x")]')                  f with the texts 'new int[]{1, 2}' and '"x"'
    source_value('new ArrayList<>(List.of("a,b", "c"))', "java")   ['a,b', 'c']
    source_value("{a: [1, 2], 'b c': null}", "javascript")         {'a': [1, 2], 'b c': None}

What is not a literal (a name, an operation, a call of anything else) is its own text. Nothing is evaluated.
"""

import re
from collections.abc import Iterator

from tunecheck.calls import MAX_CHARACTERS, FunctionCall, Reading
from tunecheck.plugins import JSON

_DEEPEST = 50
_LONGEST = 100_000
_MOST_DIGITS = 4_000  # Python reads integers of up to 4,300 digits from text

_SPACE = re.compile(r"(?:\s++|//[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_STRING = re.compile(r"\"((?:[^\"\\\n]++|\\.)*+)\"|'((?:[^'\\\n]++|\\.)*+)'|`((?:[^`\\]++|\\.)*+)`", re.DOTALL)
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]++|(?:\d[\d_]*+\.?[\d_]*+|\.\d[\d_]*+)(?:[eE][+-]?\d++)?)([lLfFdDn]?)(?![\w.])"
)
_WORD = re.compile(r"(true|false|null|undefined|None)(?![\w.(])")
_KEY = re.compile(r"[\w$]++")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_PLAIN = re.compile(r"[^\"'`(\[{)\]},;]++")
_CLOSER_OF = {"(": ")", "[": "]", "{": "}"}

_GENERIC = r"(?:\s*<[\w\s,.<>?\[\]]*>)?"
_NEW = r"new\s+(?:java\.util\.)?"
_JAVA_ARRAY = re.compile(r"new\s+[\w.]+(?:<[\w\s,.<>?]*>)?(?:\s*\[\s*\])+\s*\{")
_JAVA_LIST = re.compile(
    rf"(?:{_NEW}(?:Array|Linked)List{_GENERIC}|(?:java\.util\.)?(?:Arrays\.asList|(?:List|Set)\.of|Stream\.of))\s*\("
)
_JAVA_MAP = re.compile(rf"(?:{_NEW}(?:Linked)?(?:Hash|Tree)(?:Map|table){_GENERIC}|(?:java\.util\.)?Map\.of)\s*\(")
_BLOCK = re.compile(r"\s*\{\s*\{")
_ADD = re.compile(r"\s*(?:this\s*\.\s*)?(add|put)\s*\(")
_JS_ARRAY = re.compile(r"new\s+Array\s*\(|Array\.of\s*\(")

_FENCE = re.compile(r"\A```[\w+-]*\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_CALL = re.compile(r"\s*(?:new\s+)?([\w$.]+)\s*\(")
_ARGUMENT_NAME = re.compile(r"\s*([\w$]+)\s*=(?!=)\s*")
_NOT_STRUCTURE = re.compile(
    r"(?:[^\"'`()\[\]{},]++|\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+'|`(?:[^`\\]++|\\.)*+`)++", re.DOTALL
)


class _NotReadError(Exception):
    pass


def source_value(text: str, language: str) -> object:
    """The value that a text stands for in a language ("java" or "javascript"); the text where it is not a literal."""
    if len(text) > _LONGEST:
        return text
    scanner = _Scanner(text, java=language == "java")
    try:
        value = scanner.value()
        return value if scanner.ended() else text
    except (_NotReadError, ValueError):
        return text


class _Scanner:
    def __init__(self, text: str, *, java: bool) -> None:
        self._text = text
        self._place = 0
        self._depth = 0
        self._java = java

    def ended(self) -> bool:
        self._take(_SPACE)
        return self._text[self._place :].strip() in ("", ";")

    def value(self) -> object:
        self._take(_SPACE)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NotReadError
        try:
            patterns = (_JAVA_ARRAY, _JAVA_LIST, _JAVA_MAP) if self._java else (_JS_ARRAY,)
            composed = self._text.startswith("{" if self._java else ("{", "["), self._place) or any(
                pattern.match(self._text, self._place) for pattern in patterns
            )
            return self._composed() if composed else self._simple()
        finally:
            self._depth -= 1

    def _composed(self) -> object:
        if self._java:
            return self._java_composed()
        if self._take(_JS_ARRAY):
            return self._items(")")
        opener = self._next()
        return self._items("]") if opener == "[" else self._members()

    def _java_composed(self) -> object:
        if self._take(_JAVA_ARRAY) or self._skip("{"):
            return self._items("}")
        if self._take(_JAVA_LIST):
            given = self._items(")")
            inner = given[0] if len(given) == 1 and isinstance(given[0], list) else given
            return [*inner, *(arguments[0] for _, arguments in self._block("add", 1))]
        self._take(_JAVA_MAP)
        given = self._items(")")
        if len(given) == 1 and isinstance(given[0], dict):
            made = given[0]
        elif len(given) % 2:
            raise _NotReadError
        else:  # `Map.of("a", 1, "b", 2)`
            made = {_key(given[at]): given[at + 1] for at in range(0, len(given), 2)}
        return {**made, **{_key(arguments[0]): arguments[1] for _, arguments in self._block("put", 2)}}

    def _block(self, method: str, count: int) -> Iterator[tuple[str, list[object]]]:
        """The calls in `{{ add(1); add(2); }}`."""
        if not self._take(_BLOCK):
            return
        while method_call := self._take(_ADD):
            arguments = self._items(")")
            if method_call[1] != method or len(arguments) != count:
                raise _NotReadError
            yield method, arguments
            self._skip(";")
        for _ in range(2):
            self._take(_SPACE)
            if self._next() != "}":
                raise _NotReadError

    def _items(self, closer: str) -> list[object]:
        items: list[object] = []
        while not self._skip(closer):
            items.append(self.value())
            if not self._skip(",") and not self._at(closer):
                raise _NotReadError
        return items

    def _members(self) -> dict[str, object]:
        members: dict[str, object] = {}
        while not self._skip("}"):
            self._take(_SPACE)
            quoted = self._take(_STRING)
            bare = None if quoted else self._take(_KEY)
            key = _unescaped(quoted) if quoted else bare and bare[0]
            if key is None or not self._skip(":"):
                raise _NotReadError
            members[key] = self.value()
            if not self._skip(",") and not self._at("}"):
                raise _NotReadError
        return members

    def _simple(self) -> object:
        start = self._place
        for pattern, read in ((_STRING, _unescaped), (_NUMBER, _number), (_WORD, _constant)):
            literal = self._take(pattern)
            self._take(_SPACE)
            if literal and self._text[self._place : self._place + 1] in ("", ",", ")", "]", "}", ";", ":"):
                return read(literal)
            self._place = start
        self._expression()
        text = self._text[start : self._place].strip()
        if not text:
            raise _NotReadError
        return text

    def _expression(self) -> None:
        """Move past something that is not a literal, up to what ends it outside of its own brackets."""
        open_ones: list[str] = []
        while self._place < len(self._text):
            if self._take(_PLAIN) or self._take(_STRING):
                continue
            here = self._text[self._place]
            if not open_ones and here in ",)]};":
                return
            if here in _CLOSER_OF:
                open_ones.append(_CLOSER_OF[here])
            elif open_ones and here == open_ones[-1]:
                open_ones.pop()
            self._place += 1

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._place)
        if match is None or match.end() == self._place:
            return None
        self._place = match.end()
        return match

    def _at(self, token: str) -> bool:
        self._take(_SPACE)
        return self._text.startswith(token, self._place)

    def _skip(self, token: str) -> bool:
        at = self._at(token)
        self._place += len(token) * at
        return at

    def _next(self) -> str:
        self._place += 1
        return self._text[self._place - 1 : self._place]


def _key(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _unescaped(match: re.Match[str]) -> str:
    inner = next(group for group in match.groups() if group is not None)

    def plain(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(plain, inner)


def _number(match: re.Match[str]) -> int | float:
    suffix = match[1]
    digits = match[0].removesuffix(suffix).replace("_", "") if suffix else match[0].replace("_", "")
    if len(digits) > _MOST_DIGITS:
        raise _NotReadError
    if digits.lstrip("+-")[:2].lower() == "0x":
        return int(match[0].replace("_", ""), 16)
    whole = digits.lstrip("+-").isdigit() and suffix not in ("f", "F", "d", "D")
    return int(digits) if whole else float(digits)


def _constant(match: re.Match[str]) -> bool | None:
    return {"true": True, "false": False}.get(match[0])


def source_calls(text: str) -> Reading:
    """The calls of a text, in brackets or bare. It never raises."""
    if len(text) > MAX_CHARACTERS:
        return Reading(problem=f"a text of {len(text)} characters")
    body = text.strip()
    fenced = _FENCE.match(body)
    body = fenced[1].strip() if fenced else body.strip("`")
    body = body[1:-1] if body.startswith("[") and body.endswith("]") else body
    calls: list[FunctionCall] = []
    place = 0
    while body[place:].strip(" \t\r\n;"):
        opening = _CALL.match(body, place)
        if opening is None:
            return Reading(problem="the answer holds no call")
        arguments, end = _arguments(body, opening.end())
        if arguments is None:
            return Reading(problem=f"a call of {opening[1][:60]!r} whose arguments cannot be read")
        calls.append(FunctionCall(opening[1], arguments))
        rest = body[end:].lstrip()
        place = len(body) - len(rest) + (rest[:1] in (",", ";"))
        if rest and rest[0] not in ",;":
            return Reading(problem="more text stands after a call")
    return Reading(tuple(calls))


def _arguments(text: str, place: int) -> tuple[dict[str, JSON] | None, int]:
    """The arguments up to the closing bracket, positional ones under "0", "1", …; and where they end."""
    arguments: dict[str, JSON] = {}
    while True:
        key = _ARGUMENT_NAME.match(text, place)
        start = key.end() if key else place
        end = _expression_end(text, start)
        if end >= len(text):
            return None, end
        value = text[start:end].strip()
        if value:
            arguments[key[1] if key else str(len(arguments))] = value
        if text[end] == ")":
            return arguments, end + 1
        place = end + 1


def _expression_end(text: str, place: int) -> int:
    """Where an argument ends: at the next comma or closing bracket outside of its own brackets."""
    open_ones: list[str] = []
    while place < len(text):
        plain = _NOT_STRUCTURE.match(text, place)
        if plain:
            place = plain.end()
            continue
        here = text[place]
        if here in _CLOSER_OF:
            open_ones.append(_CLOSER_OF[here])
        elif open_ones and here == open_ones[-1]:
            open_ones.pop()
        elif not open_ones and here in ",)":
            return place
        place += 1
    return place
