"""One call in a model's Java or JavaScript text, decoded as the leaderboard decodes it: `[A.f(a=new int[]{1}, b="x")]`.

The leaderboard parses with a tree-sitter grammar of the language. Here a small recogniser tells calls whose arguments
are expressions of the language from those that are not; and each argument becomes the same text: a literal text without
its quotes, a call as it is written, `new` and everything else in Java without white space. Nothing is evaluated.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tunecheck.conversations._bfcl_text import UndecodableError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<text>\"\"\".*?\"\"\"|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)
    |(?P<number>(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)[\w]*)
    |(?P<name>[^\W\d][\w$]*|[$][\w$]*|\#\w+|@\w+)
    |(?P<sign>->|=>|::|\.\.\.|[=!]==?|<<=|>>>?=|[-+*/%&|^]=|<<|>=|<=|&&|\|\||\?\?|\?\.|\+\+|--|\*\*|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")

_SHORTEST_JAVA = 11  # characters below which the leaderboard's parser gives a Java statement without a semicolon up
_DEEPEST = 100

_BINARY = frozenset("+ - * / % & | ^ && || ?? == != === !== < > <= >= << ** = += -= *= /= %= &= |= ^=".split())
_PREFIXES = frozenset("+ - ! ~ ++ --".split())
_WORDS_BEFORE = frozenset("typeof void await delete".split())
_WORDS_BETWEEN = frozenset("instanceof in".split())
_JAVASCRIPT_WORDS = frozenset("class import export if else for while return var const let switch case try".split())
_CLOSERS = {"(": ")", "[": "]", "{": "}", "<": ">"}

_LONGEST = 10_000  # longest text, in characters, that is read: unclosed brackets in it cost the square of its length
_JAVA_CONSTANTS = frozenset({"true", "false", "null", "this", "super"})
_JAVASCRIPT_CONSTANTS = frozenset({"false", "null", "this", "super", "undefined"})
"""Words that are not names, among arguments without a name."""


def decode_source_text(text: str, language: str) -> list[object]:
    """The call of a text as `[{"f": {"a": "1"}}]`; `[None]` where there is something else than one call.

    Raises:
        UndecodableError: it is not text of the language.
    """
    if len(text) > _LONGEST:
        raise UndecodableError(f"a text of {len(text)} characters")
    text = text.strip("`\n ")
    body = text[text.startswith("[") : len(text) - text.endswith("]")]
    reader = _Reader(body.strip(), java=language == "java")
    try:
        return [reader.call()]
    except RecursionError:
        raise UndecodableError("nested too deeply") from None


@dataclass(frozen=True, slots=True)
class _Token:
    """One token: its kind ("text", "number", "name", "sign"), and where it stands."""

    kind: str
    text: str
    start: int
    end: int


def _tokens_of(text: str, *, java: bool) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while place < len(text):
        begins = not tokens or (tokens[-1].kind == "sign" and tokens[-1].text not in (")", "]", "}"))
        match = (_REGEX.match(text, place) if begins and not java else None) or _TOKEN.match(text, place)
        if match is None:
            raise UndecodableError(f"not readable: {text[place : place + 20]!r}")
        kind = match.lastgroup or "number"
        if kind == "sign" and (match[0] in "\"'`" or text.startswith("/*", place)):
            raise UndecodableError("a text or comment that is not closed")
        if kind != "space":
            tokens.append(_Token(kind, match[0], match.start(), match.end()))
        place = match.end()
    return tokens


@dataclass(frozen=True, slots=True)
class _Made:
    """A call, or an object's creation: from which token to which, where its bracket opens, and its arguments."""

    start: int
    end: int
    opening: int
    parts: list[tuple[int, int]]


class _Recogniser:
    """Moves over the tokens of a text; `place` is the one that it looks at, `made` the calls it came by.

    Its methods raise `UndecodableError` where the text is none of the language.
    """

    def __init__(self, text: str, *, java: bool) -> None:
        self.text = text
        self.java = java
        self.tokens = _tokens_of(text, java=java)
        self.place = 0
        self.made: list[_Made] = []
        self.created = _Made(0, 0, 0, [])
        self._depth = 0

    def expression(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UndecodableError("nested too deeply")
        self._prefixed()
        while self.place < len(self.tokens):
            token = self.tokens[self.place]
            if not (token.kind == "sign" and token.text in _BINARY) and token.text not in _WORDS_BETWEEN:
                break
            self.place += 1
            self._prefixed()
        if self.skip("?"):
            self.expression()
            if not self.skip(":"):
                raise UndecodableError("a '?' without its ':'")
            self.expression()
        self._depth -= 1

    def _prefixed(self) -> None:
        while self.at(*_PREFIXES) or (not self.java and self.at(*_WORDS_BEFORE, "...")):
            self.place += 1
        self.operand()

    def operand(self) -> str:
        """Move past one operand with what follows it; says what it is: "call", "object", "array" or ""."""
        start = self.place
        shape = self._primary()
        while True:
            if self.skip(".", "::" if self.java else "?."):
                self._name()
                shape = ""
            elif self.at("("):
                opening, parts = self.items("(")
                self.made.append(_Made(start, self.place, opening, parts))
                shape = "call"
            elif self.at("["):
                if len(self.items("[")[1]) != 1 and self.java:
                    raise UndecodableError("an index of several values")
                shape = ""
            elif self.skip("++", "--"):
                shape = ""
            elif not self.java and self.place < len(self.tokens) and self.tokens[self.place].text[0] == "`":
                self.place += 1  # a tagged template
                shape = ""
            else:
                return shape

    def _primary(self) -> str:
        if self.place >= len(self.tokens):
            raise UndecodableError("the text ends too early")
        token = self.tokens[self.place]
        if token.text == "new":
            return self._created()
        if token.kind == "sign":
            return self._bracketed(token.text)
        if (
            token.kind == "number"
            and token.text[-1] in ("n" if self.java else "lLfFdD")
            and token.text[1:2] not in ("x", "X")
        ):
            raise UndecodableError(f"no number: {token.text!r}")
        if token.kind == "text" and (token.text[0] == "`" if self.java else "\n" in token.text.strip("`")):
            raise UndecodableError("no text of this language")
        if not self.java and token.text in _JAVASCRIPT_WORDS:
            raise UndecodableError(f"no value: {token.text!r}")
        self.place += 1
        if not self.java and token.text == "function":
            if not self.at("("):
                self._name()
            self._balanced("(")
            self._balanced("{")
        elif not self.java and token.text == "async":
            self._primary()
        elif self.skip("->" if self.java else "=>"):
            self._body()
        return ""

    def _bracketed(self, opener: str) -> str:
        if opener == "(":
            self.items("(")
            if self.skip("->" if self.java else "=>"):
                self._body()
            elif self.java and self.place < len(self.tokens):
                token = self.tokens[self.place]
                operand = token.kind in ("text", "number", "name") and token.text not in _WORDS_BETWEEN
                if operand or token.text == "(":
                    self.operand()  # what stood in brackets was a type
            return ""
        if self.java or opener not in ("[", "{"):
            raise UndecodableError(f"no value begins with {opener!r}")
        if opener == "[":
            self.items("[")
        else:
            self._members()
        return ""

    def _created(self) -> str:
        start = self.place
        self.place += 1
        self._name()
        while self.skip("."):
            self._name()
        if self.java and self.at("<"):
            self._balanced("<")
        if self.at("("):
            opening, parts = self.items("(")
            if self.java and self.at("{"):
                self._class_body()
            if self.java:
                self.created = _Made(start, self.place, opening, parts)
            return "object" if self.java else ""
        if not self.java or not self.at("["):
            if self.java:
                raise UndecodableError("nothing is created")
            return ""
        while self.at("["):
            self._balanced("[")
        if not self.at("{"):
            raise UndecodableError("an array without its elements")
        self._balanced("{")
        return "array"

    def _class_body(self) -> None:
        """A class's body: `{{ add(1); }}`, or anything else in balanced brackets that holds a method."""
        opening = self.place
        self._balanced("{")
        end, self.place = self.place, opening + 1
        if self.skip("{"):
            while not self.skip("}"):
                first = self.place
                self.expression()
                if not self.skip(";") and (not self.at("}") or self.is_cut_short(first, self.place)):
                    raise UndecodableError("no statement")
        elif not self.at("}") and not any(token.text == "{" for token in self.tokens[opening + 1 : end]):
            raise UndecodableError("no body of a class")
        self.place = end

    def _body(self) -> None:
        if self.at("{"):
            self._balanced("{")
        else:
            self.expression()

    def items(self, opener: str) -> tuple[int, list[tuple[int, int]]]:
        """Expressions between commas, up to the closing bracket: where that was opened, and where each one stands."""
        closer, opening = _CLOSERS[opener], self.place
        parts: list[tuple[int, int]] = []
        self.skip(opener)
        while not self.skip(closer):
            if not self.java and self.skip(","):
                continue
            first = self.place
            self.expression()
            parts.append((first, self.place))
            if not self.skip(",") and not self.at(closer):
                raise UndecodableError("a missing comma or bracket")
            if self.java and self.at(closer) and self.tokens[self.place - 1].text == ",":
                raise UndecodableError("a comma before a bracket")
        return opening, parts

    def _members(self) -> None:
        self.skip("{")
        while not self.skip("}"):
            if self.skip("..."):
                self.expression()
            else:
                self._member()
            if not self.skip(",") and not self.at("}"):
                raise UndecodableError("a missing comma or bracket")

    def _member(self) -> None:
        if self.at("["):
            self.items("[")
        else:
            self.place += 1
        if self.skip(":"):
            self.expression()
        elif self.at("("):
            self._balanced("(")
            self._balanced("{")
        elif not self.at(",", "}"):
            raise UndecodableError("no member of an object")

    def _balanced(self, opener: str) -> None:
        if not self.at(opener):
            raise UndecodableError(f"expected {opener!r}")
        depth = 0
        while self.place < len(self.tokens):
            text = self.tokens[self.place].text
            self.place += 1
            depth += (text == opener) - (text == _CLOSERS[opener])
            depth -= 2 * (opener == "<" and text == ">>")
            if depth <= 0:
                return
        raise UndecodableError(f"{opener!r} is not closed")

    def at(self, *texts: str) -> bool:
        here = self.tokens[self.place : self.place + 1]
        return bool(here) and here[0].kind != "text" and here[0].text in texts

    def skip(self, *texts: str) -> bool:
        at = self.at(*texts)
        self.place += at
        return at

    def _name(self) -> None:
        if self.place >= len(self.tokens) or self.tokens[self.place].kind != "name":
            raise UndecodableError("expected a name")
        self.place += 1

    def source(self, first: int, last: int) -> str:
        return self.text[self.tokens[first].start : self.tokens[last - 1].end] if first < last else ""

    def between(self, first: int, last: int) -> str:
        """The tokens without what stands between them."""
        return "".join(token.text for token in self.tokens[first:last])

    def is_cut_short(self, start: int, end: int) -> bool:
        """Whether a statement without its semicolon is none: too short for Java's parser, or followed on its line."""
        if end < len(self.tokens) and "\n" not in self.text[self.tokens[end - 1].end : self.tokens[end].start]:
            return True
        return self.java and self.tokens[end - 1].end - self.tokens[start].start < _SHORTEST_JAVA


class _Reader(_Recogniser):
    def call(self) -> object:
        if not self.tokens:
            return None
        first = self._statement()
        while self.place < len(self.tokens):
            self._statement()
        if first is None:
            return None
        name = self.between(first.start, first.opening) if self.java else self.source(first.start, first.opening)
        if self.java and self.tokens[first.start].text == "new":
            name = f"new {self.between(first.start + 1, first.opening)}"
        return {name: self._arguments(first.parts)}

    def _statement(self) -> _Made | None:
        """Move past one statement; gives its outermost call, if that counts."""
        self.made.clear()
        start = self.place
        while self.java and self.at("return", "var") and self.place < len(self.tokens) - 1:
            self.place += 1
        self.expression()
        while not self.java and self.skip(","):
            self.expression()
        end = self.place
        if not self.skip(";") and self.is_cut_short(start, end):
            raise UndecodableError("no statement")
        calls = sorted(self.made, key=lambda made: (made.start, -made.end))
        whole = [made for made in calls if self.java or (made.start, made.end) == (start, end)]
        return whole[0] if whole else None

    def _arguments(self, parts: Sequence[tuple[int, int]]) -> dict[str, object]:
        arguments: dict[str, object] = {}
        for first, last in parts:
            name, value = self._argument(first, last)
            if name == "" and value is None:
                continue
            if name in arguments:
                raise UndecodableError("an argument is given twice")
            arguments[name] = value
        return arguments

    def _argument(self, first: int, last: int) -> tuple[str, object]:
        """An argument's name and text; a bare name has none, anything else without a name is passed over."""
        signs = ("=", *(f"{sign}=" for sign in "+-*/%&|^")) if self.java else ("=",)
        for place in range(first, last):
            if self.tokens[place].text in signs and self.tokens[place].kind == "sign":
                return self.between(first, place), self._value(place + 1, last)
            if self.tokens[place].text in ("(", "{"):
                break
        if (
            last - first == 1
            and self.tokens[first].kind == "name"
            and self.tokens[first].text not in (_JAVA_CONSTANTS if self.java else _JAVASCRIPT_CONSTANTS)
        ):
            return "None", self.tokens[first].text
        return "", None

    def _value(self, first: int, last: int) -> str:
        source = self.source(first, last)
        if not self.java:
            quoted = len(source) > 1 and source[0] in "\"'" and source[-1] in "\"'"
            return source[1:-1] if quoted else source
        if last - first == 1:
            return source[1:-1] if self.tokens[first].kind == "text" else source
        self.place = first
        shape = "" if self.at(*_PREFIXES) else self.operand()
        if self.place != last or not shape:
            return self.between(first, last)
        if shape == "object":
            created = self.created
            given = ", ".join(self.source(*part) for part in created.parts)
            return f"new {self.between(first + 1, created.opening)}({given})"
        return f"new {self.between(first + 1, last)}" if shape == "array" else source
