"""Recognises expressions of Java and JavaScript, as far as arguments of calls need it; nothing is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from tunecheck.bfcl._call_text import UndecodableError
from tunecheck.bfcl._source.tokens import tokens_of

_SHORTEST_JAVA = 11
"""Characters below which the leaderboard's parser gives a Java statement without a semicolon up."""

_DEEPEST = 100

_BINARY = frozenset("+ - * / % & | ^ && || ?? == != === !== < > <= >= << ** = += -= *= /= %= &= |= ^=".split())
PREFIXES = frozenset("+ - ! ~ ++ --".split())
_WORDS_BEFORE = frozenset("typeof void await delete".split())
_WORDS_BETWEEN = frozenset("instanceof in".split())
_JAVASCRIPT_WORDS = frozenset("class import export if else for while return var const let switch case try".split())
_CLOSERS = {"(": ")", "[": "]", "{": "}", "<": ">"}


@dataclass(frozen=True, slots=True)
class Made:
    """A call, or an object's creation: from which token to which, where its bracket opens, and its arguments."""

    start: int
    end: int
    opening: int
    parts: list[tuple[int, int]]


class Recogniser:
    """Moves over the tokens of a text; `place` is the one that it looks at, `made` the calls it came by.

    Its methods raise `UndecodableError` where the text is none of the language.
    """

    def __init__(self, text: str, *, java: bool) -> None:
        self.text = text
        self.java = java
        self.tokens = tokens_of(text, java=java)
        self.place = 0
        self.made: list[Made] = []
        self.created = Made(0, 0, 0, [])
        self._depth = 0

    def expression(self) -> None:
        """Move past one expression."""
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
        while self.at(*PREFIXES) or (not self.java and self.at(*_WORDS_BEFORE, "...")):
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
                self.made.append(Made(start, self.place, opening, parts))
                shape = "call"
            elif self.at("["):
                if len(self.items("[")[1]) != 1 and self.java:
                    raise UndecodableError("an index of several values")
                shape = ""
            elif self.skip("++", "--") or self._skip_template():
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
            self._function()
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
            elif self.java and self.place < len(self.tokens) and self._starts_operand():
                self.operand()  # what stood in brackets was a type
            return ""
        if self.java or opener not in ("[", "{"):
            raise UndecodableError(f"no value begins with {opener!r}")
        if opener == "[":
            self.items("[")
        else:
            self._members()
        return ""

    def _starts_operand(self) -> bool:
        token = self.tokens[self.place]
        return (token.kind in ("text", "number", "name") and token.text not in _WORDS_BETWEEN) or token.text == "("

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
                self.created = Made(start, self.place, opening, parts)
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

    def _function(self) -> None:
        if not self.at("("):
            self._name()
        self._balanced("(")
        self._balanced("{")

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
            depth -= 2 * (opener == "<" and text in (">>",))
            if depth <= 0:
                return
        raise UndecodableError(f"{opener!r} is not closed")

    def at(self, *texts: str) -> bool:
        """Whether one of these comes next."""
        here = self.tokens[self.place : self.place + 1]
        return bool(here) and here[0].kind != "text" and here[0].text in texts

    def skip(self, *texts: str) -> bool:
        """Whether one of these comes next; then it is passed."""
        at = self.at(*texts)
        self.place += at
        return at

    def _skip_template(self) -> bool:
        here = self.tokens[self.place : self.place + 1]
        at = bool(here) and not self.java and here[0].kind == "text" and here[0].text[0] == "`"
        self.place += at
        return at

    def _name(self) -> None:
        if self.place >= len(self.tokens) or self.tokens[self.place].kind != "name":
            raise UndecodableError("expected a name")
        self.place += 1

    def source(self, first: int, last: int) -> str:
        """The text of these tokens as it is written."""
        return self.text[self.tokens[first].start : self.tokens[last - 1].end] if first < last else ""

    def between(self, first: int, last: int) -> str:
        """The tokens without what stands between them."""
        return "".join(token.text for token in self.tokens[first:last])

    def is_cut_short(self, start: int, end: int) -> bool:
        """Whether a statement without its semicolon is none: too short for Java's parser, or followed on its line."""
        if end < len(self.tokens) and "\n" not in self.text[self.tokens[end - 1].end : self.tokens[end].start]:
            return True
        return self.java and self.tokens[end - 1].end - self.tokens[start].start < _SHORTEST_JAVA
