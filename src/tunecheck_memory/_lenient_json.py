"""Read JSON as models write it: fenced, in prose, with comments, trailing commas, or missing quotes and commas."""

import json
import re

from tunecheck.plugins import JSON, loads

MAX_CHARACTERS = 200_000
"""Characters of a text that are read; a reply with a list has a hundredth of them."""

_MAX_DEPTH = 60
_FENCE = re.compile(r"```[ \t]*(?:javascript|json)\b(.*?)```", re.DOTALL | re.IGNORECASE)
_PASSED_OVER = re.compile(r"(?:\s+|//[^\n]*|\.\.\.|…)+")
_WORD = re.compile(r"[^\s,:\]}\[{\"]+")
_AFTER_TEXT = re.compile(r"[\]}]|\"[^\"\n]{0,80}\"\s{0,20}[:,\]}]")
"""The text after a line with a missing closing quote: a bracket, or the next name or item."""

_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?")
_TEXT = re.compile(r'"((?:[^"\\]+|\\.)*)("?)', re.DOTALL)
_LINE_END = re.compile(r"[\r\n]\s*")
_ESCAPE = re.compile(r'(\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))|\\')
_WORDS: dict[str, JSON] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


def read_lenient(text: str) -> JSON:
    """Return the JSON value of a text: the text itself, else its first ```json block, else that at its first bracket.

    Missing commas, quotes at the end of a line and values (`"key",` reads as null) are completed. Comments after `//`,
    `...`, trailing commas and text after the value are ignored. An unclosed bracket is an error, as parts are missing.

    Raises:
        ValueError: The text contains no such value.
    """
    text = text[:MAX_CHARACTERS]
    try:
        return loads(text)
    except ValueError:
        pass
    fenced = _FENCE.search(text) if "```" in text else None
    return _LenientReader(fenced[1] if fenced else text).read()


class _LenientReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> JSON:
        opening = re.search(r"[\[{]", self._text)
        if opening is None:
            raise ValueError("there is no JSON in the text")
        self._at = opening.start()
        return self._value(0)

    def _peek(self) -> str:
        passed = _PASSED_OVER.match(self._text, self._at)
        if passed is not None:
            self._at = passed.end()
        if self._at >= len(self._text):
            raise ValueError("the JSON is not complete")
        return self._text[self._at]

    def _value(self, depth: int) -> JSON:
        if depth > _MAX_DEPTH:
            raise ValueError("the JSON is nested too deeply")
        match self._peek():
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                return self._string()
            case _:
                word = self._bare()
                return loads(word) if _NUMBER.fullmatch(word) else _WORDS.get(word, word)

    def _array(self, depth: int) -> list[JSON]:
        self._at += 1
        items: list[JSON] = []
        while (letter := self._peek()) != "]":
            if letter == ",":
                self._at += 1
            elif letter in "}:":
                raise ValueError(f"a list cannot hold {letter!r}")
            else:
                items.append(self._value(depth + 1))
        self._at += 1
        return items

    def _object(self, depth: int) -> dict[str, JSON]:
        self._at += 1
        items: dict[str, JSON] = {}
        while (letter := self._peek()) != "}":
            if letter == ",":
                self._at += 1
            elif letter in "]:[{":
                raise ValueError(f"an object cannot hold {letter!r} where a name belongs")
            else:
                name = self._string() if letter == '"' else self._bare()
                items[name] = None
                if self._peek() == ":":
                    self._at += 1
                    if self._peek() not in ",}":
                        items[name] = self._value(depth + 1)
        self._at += 1
        return items

    def _string(self) -> str:
        text = _TEXT.match(self._text, self._at)
        assert text is not None  # it begins at the opening quote
        raw, end, closed = text[1], text.end(), bool(text[2])
        for line_end in _LINE_END.finditer(raw):
            if _AFTER_TEXT.match(self._text, text.start(1) + line_end.end()):
                raw, end, closed = raw[: line_end.start()].rstrip(" ,"), text.start(1) + line_end.end(), True
                break
        if not closed:
            raise ValueError("a text in the JSON is not closed")
        self._at = end
        kept = _ESCAPE.sub(lambda escape: escape[1] or "", raw.replace("\r", "").replace("\n", ""))
        value: str = json.loads(f'"{kept}"', strict=False)
        return value

    def _bare(self) -> str:
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise ValueError(f"unexpected {self._text[self._at]!r}")
        self._at = match.end()
        return match[0].strip("'")
