"""Secrets: read from the environment, masked in messages, in what a server echoes, and in settings that are kept."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn
from urllib.parse import quote

from tunecheck._json import JSON, content_hash
from tunecheck._messages import clean, printable
from tunecheck.endpoints._config import Place

MASK = "***"

ENV_REFERENCE = re.compile(r"(?<!\$)\$\{env:([^}]*?)(:plain)?\}")
"""`${env:NAME}`, or `${env:NAME:plain}` for a value that is no secret."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
WHOLE_SECRET = re.compile(r"(?:(?:Bearer|Basic|Token|ApiKey|Key)\s+)?\$\{env:[^}]*\}\Z", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"(^|[-_.])(authorization|auth|x?api-?key|apikey|key|token|secret|passw(or)?d|pwd|cookie|credentials?|signature|sig|sas)"
    r"([-_.]|$)",
    re.IGNORECASE,
)

MAX_DEPTH = 100
"""Deepest nesting of an answer that is taken in; below the recursion limit, above anything real."""

SECRET_FIELD = re.compile(
    r"(api[-_]?key|authorization|passw(or)?d|passwd|secret|credentials?|((access|auth|bearer|session)|(?<![a-z])ad)[-_]?token)$",
    re.IGNORECASE,
)

_CREDENTIALS = re.compile(r"(Bearer|Basic|Token|ApiKey|SharedAccessSignature)\s+[^\s$]{16,}\Z", re.IGNORECASE)
"""Values of headers that are credentials, whatever the header is called."""

_HEADERS = ("headers", "extra_headers")
_AUTH_VALUE = ("value", "auth")
_QUERY = re.compile(r"([?&;]([\w.-]{1,60})=)[^&;#\s]+")
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")

WRITTEN_OUT = "a secret is not written here: write ${env:NAME} and set that environment variable"

LEAST_ECHO = 8
"""Shorter secrets are not masked in answers, where they occur by chance; no real key is that short."""

_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]+)?")

_ASCII = "".join(map(chr, range(128)))

_ESCAPE = re.compile(
    r"\\u(?P<json>[0-9a-f]{4})|%(?P<url>[0-7][0-9a-f])|&#x(?P<html>[0-9a-f]{1,6});|&#(?P<decimal>[0-9]{1,7});"
    r"|(?P<named>&(?:amp|lt|gt|quot|apos);)|\\(?P<mark>[^\sa-z0-9])"
)

_NAMED = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}

_MOST_ROUNDS = 3
"""How often a text is unescaped: JSON in JSON in a URL."""

_MOST_TRACED = 1 << 22
"""Characters of a text up to which the places of escaped secrets are found; a longer one is masked as a whole."""


class Secret:
    """A text that must not be shown: only `reveal()` gives it, and only the code that sends it asks."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


class Redactor:
    """Masks known secrets in texts, in any case of letters and however they are written there.

    A server may repeat one as it was sent, or within a URL, JSON, HTML or base64.
    """

    def __init__(self) -> None:
        self._forms: frozenset[str] = frozenset()
        self._echoes: frozenset[str] = frozenset()

    def add(self, item: Secret, *, in_answers: bool = True) -> None:
        """Mask this secret from now on: in texts for people, and unless `in_answers` is False in answers."""
        forms = {_lowered(form) for form in _forms(item.reveal())} - {""}
        self._forms |= forms
        if in_answers:
            self._echoes |= {form for form in forms if len(form) >= LEAST_ECHO}

    def learn(self, other: Redactor) -> None:
        """Mask from now on what another one masks."""
        self._forms |= other._forms
        self._echoes |= other._echoes

    def text(self, text: str) -> str:
        """A text for people (an error, a log line), every known secret masked."""
        return _masked(text, self._forms)

    def line(self, text: str, most: int = 200) -> str:
        """The same as one printable line of so many characters."""
        return clean(self.text(printable(text)), most)  # a secret may stand there with invisible marks inside

    def answer(self, value: JSON, depth: int = 0) -> JSON:
        """An answer's data with long-enough secrets masked in all its texts and numbers, keys included."""
        if isinstance(value, str):
            return _masked(value, self._echoes)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return MASK if any(_is_in_number(form, value) for form in self._echoes) else value
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if isinstance(value, list):
            return [self.answer(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {_masked(key, self._echoes): self.answer(item, depth + 1) for key, item in value.items()}
        return value


def _forms(text: str) -> Iterator[str]:
    """How a secret may be repeated: as it is, in base64, and the user and password that are base64 in it."""
    yield text
    yield quote(text, safe=_ASCII)
    encoded = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    yield from (encoded, encoded.replace("+", "-").replace("/", "_"))
    with contextlib.suppress(ValueError):
        pair = base64.b64decode(text.rpartition(" ")[2], validate=True).decode()
        if ":" in pair and pair.isprintable():
            yield from (pair, pair.partition(":")[2])


def _masked(text: str, forms: frozenset[str]) -> str:
    """The text with a mask in place of each of these forms, also where some of its characters are escaped."""
    if not forms:
        return text
    read = _lowered(text)
    hidden = [*_found(read, forms)]
    for rounds in range(1, _MOST_ROUNDS + 1):
        if _ESCAPE.search(read) is None:
            break
        read = _ESCAPE.sub(_unescaped, read)
        found = [*_found(read, forms)]
        if found and len(text) > _MOST_TRACED:
            return MASK
        places = _places(text, rounds) if found else ()
        hidden += [(places[start], places[end]) for start, end in found]
    # One secret may contain another, or overlap with it: nothing of either is left.
    after = len(text) + 1
    for start, end in sorted(_joined(hidden), reverse=True):
        assert end <= after
        text, after = text[:start] + MASK + text[end:], start
    return text


def _is_in_number(form: str, value: float) -> bool:
    """Whether a number holds a secret of digits, without its leading zeros or rounded as it may be."""
    return _NUMBER.fullmatch(form) is not None and (form in str(value) or float(form) == value)


def _found(read: str, forms: frozenset[str]) -> Iterator[tuple[int, int]]:
    for form in forms:
        start = read.find(form)
        while start >= 0:
            yield start, start + len(form)
            start = read.find(form, start + 1)


def _joined(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _places(text: str, rounds: int) -> Sequence[int]:
    """Where each character, and the end, of the text that was unescaped so often stands in the text."""
    read, places = _lowered(text), [*range(len(text) + 1)]
    for _ in range(rounds):
        kept: list[int] = []
        position = 0
        for match in _ESCAPE.finditer(read):
            kept += places[position : match.start()]
            kept += [places[match.start()]] * len(_unescaped(match))
            position = match.end()
        read, places = _ESCAPE.sub(_unescaped, read), kept + places[position:]
    return places


def _unescaped(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind in ("named", "mark"):
        return _NAMED.get(match[kind], match[kind])
    code = int(match[kind], 10 if kind == "decimal" else 16)
    return _lowered(chr(code)) if code <= sys.maxunicode else ""


def _lowered(text: str) -> str:
    """In lower case, character by character: some have a longer one."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(low if len(low := one.lower()) == 1 else one for one in text)


def environment(text: str, place: Place, redactor: Redactor | None = None, *, in_answers: bool = False) -> str:
    """A text with every `${env:NAME}` replaced by the variable's value, which is masked from now on unless it is plain.

    Raises:
        ConfigurationError: a variable is not set, or cannot be sent.
    """

    def value_of(match: re.Match[str]) -> str:
        value = _variable(match[1], place)
        if redactor is not None and not match[2]:
            redactor.add(Secret(value), in_answers=in_answers)
        return value

    return ENV_REFERENCE.sub(value_of, text)


def is_plain(value: JSON) -> bool:
    """Whether a text refers to the environment, and only to what is no secret."""
    return isinstance(value, str) and bool(ENV_REFERENCE.search(value)) and not hides(value)


def hides(value: JSON) -> bool:
    """Whether a text refers to a variable whose value is not to be shown."""
    return isinstance(value, str) and any(not match[2] for match in ENV_REFERENCE.finditer(value))


def resolved(value: JSON, place: Place, redactor: Redactor) -> JSON:
    """A value of a request's body with the references to the environment in all its texts replaced.

    What is replaced is masked in errors, and in answers too where its key's name says that it is a secret.
    """
    if isinstance(value, list):
        return [resolved(item, place.at(index), redactor) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {name: resolved(item, place.at(name), redactor) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    key = next((step for step in reversed(place.path) if isinstance(step, str)), "")
    secretive = bool(SECRET_FIELD.search(key))
    if secretive and value and "${" not in value:
        raise place.error(WRITTEN_OUT)
    return environment(value, place, redactor, in_answers=secretive)


def shown(value: JSON, key: str = "", above: str = "") -> JSON:
    """Settings as a file may keep them.

    Plain references to the environment stand as their values, the others as they were written. What was written out
    under a name that says secret is masked, and so is what an address carries.
    """
    if isinstance(value, list):
        return [shown(item, key, above) for item in value]
    if isinstance(value, dict):
        return {name: shown(item, name, key) for name, item in value.items()}
    if not isinstance(value, str) or not value:
        return value
    named = SECRET_FIELD.search(key) or (above in _HEADERS and looks_secret(key, value)) or (key, above) == _AUTH_VALUE
    if named:
        return value if ENV_REFERENCE.search(value) else MASK
    text = ENV_REFERENCE.sub(lambda match: os.environ.get(match[1], match[0]).strip() if match[2] else match[0], value)
    return _QUERY.sub(lambda match: match[1] + MASK if looks_secret(match[2]) else match[0], _LOGIN.sub(MASK, text))


def trace(values: JSON) -> str:
    """Four hex digits that tell whether values have changed, and too little of them to guess them by."""
    return content_hash(values)[:4]


def _variable(name: str, place: Place) -> str:
    if not _VARIABLE.match(name):
        raise place.error("write ${env:NAME}, with the name of an environment variable")
    value = os.environ.get(name, "").strip()  # a key that was read from a file ends in a line feed
    if not value:
        state = "is empty" if name in os.environ else "is not set"
        raise place.error(f"the environment variable {name} {state}")
    return value


def sent_secret(value: JSON, place: Place, redactor: Redactor) -> Secret:
    """The secret that a header carries: a whole `${env:NAME}`, never the secret itself; it is masked from now on."""
    if value is None:
        raise place.error("is missing: write ${env:NAME}, with the name of an environment variable")
    if not isinstance(value, str) or not WHOLE_SECRET.match(value.strip()):
        raise place.error(WRITTEN_OUT)  # the value is not shown: it may be the secret
    item = Secret(sent_text(environment(value.strip(), place), place))
    redactor.add(item)
    redactor.add(Secret(item.reveal().rpartition(" ")[2]))  # "Bearer …" may come back without its first word
    return item


def sent_text(text: str, place: Place) -> str:
    """The text, if a header can carry it."""
    if not text.isascii() or not text.isprintable():
        raise place.error("the value holds characters that a header cannot carry")
    return text


def looks_secret(name: str, value: str = "") -> bool:
    """Whether a header or query parameter of that name usually carries a secret, or its value looks like one."""
    return bool(_SECRET_NAME.search(name) or _CREDENTIALS.match(value.strip()))
