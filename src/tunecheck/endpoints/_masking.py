"""Read secrets from the environment, and mask them in messages, answers and stored settings."""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn
from urllib.parse import quote

from tunecheck._json import JSON, content_hash
from tunecheck._messages import clean, printable
from tunecheck.endpoints._base import Place

MASK = "***"

ENV_REFERENCE = re.compile(r"(?<!\$)\$\{env:([^}]*?)(:plain)?\}")
"""`${env:NAME}`, or `${env:NAME:plain}` for a value that is not secret."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
WHOLE_SECRET = re.compile(r"(?:(?:Bearer|Basic|Token|ApiKey|Key)\s+)?\$\{env:[^}]*\}\Z", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"(^|[-_.])(authorization|auth|x?api-?key|apikey|key|token|secret|passw(or)?d|pwd|cookie|credentials?|signature|sig|sas)"
    r"([-_.]|$)",
    re.IGNORECASE,
)

MAX_DEPTH = 100
"""The maximum nesting of an answer: below the recursion limit, above any real answer."""

SECRET_FIELD = re.compile(
    r"(api[-_]?key|authorization|passw(or)?d|passwd|secret|credentials?|((access|auth|bearer|session)|(?<![a-z])ad)[-_]?token)$",
    re.IGNORECASE,
)

_CREDENTIALS = re.compile(r"(Bearer|Basic|Token|ApiKey|SharedAccessSignature)\s+[^\s$]{16,}\Z", re.IGNORECASE)
"""Header values that are credentials, whatever the header's name."""

_HEADERS = ("headers", "extra_headers")
_AUTH_VALUE = ("value", "auth")
_QUERY = re.compile(r"([?&;]([\w.-]{1,60})=)[^&;#\s]+")
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")

_SECRET_VALUE = re.compile(
    r"(?:(?:account|sharedaccess|access)key|sharedaccesssignature|password|pwd)\s*=\s*[^;\s]{4,}"
    r"|(?:gh[opusr]_|github_pat_|glpat-|xox[abeprs]-|sk-)[\w-]{16,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{16,}\.[\w-]+"
    r"|(?:hooks\.slack\.com/services|discord\.com/api/webhooks|[\w.]*webhook\.office\.com)/\S+",
    re.IGNORECASE,
)
"""Connection strings, access tokens, and addresses that are themselves secret."""

WRITTEN_OUT = "a secret is not written here: write ${env:NAME} and set that environment variable"

_MOST_KEYS, _LONGEST_KEY = 1_024, 40
"""Limits of the cache of keys without a secret. Most answers have the same keys."""

LEAST_ECHO = 8
"""Shorter secrets are not masked in answers, because they occur by chance. No real key is that short."""

_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]+)?")

_MORE = "{0,15}"
"""More backslashes before an escaped character (JSON in JSON in JSON), bounded to limit the search time."""

_NAMED = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
"""Characters that HTML escapes by name."""


class Secret:
    """A text that must not be shown. Only code that sends the text calls `reveal()`."""

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
    """Masks known secrets in texts, in any case and escaping.

    A server may repeat a secret or a part of it, unchanged or inside a URL, JSON, HTML or base64.
    """

    def __init__(self) -> None:
        self._patterns: dict[str, re.Pattern[str] | None] = {}
        self._echoes: dict[str, re.Pattern[str] | None] = {}
        self._harmless = set[str]()
        """Cache of keys without a secret, emptied when a secret is added."""

    def add(self, item: Secret, *, in_answers: bool = True) -> None:
        """Mask this secret from now on in texts for people and, if `in_answers`, in answers."""
        for form in filter(None, map(_lower, _forms(item.reveal()))):
            pattern = self._patterns.get(form) or _pattern(form)
            self._patterns[form] = pattern
            if in_answers and len(form) >= LEAST_ECHO:
                self._echoes[form] = ALL_SECRETS._echoes[form] = pattern
        for form in map(_lower, _escaped_forms(item.reveal())):
            if len(form) >= LEAST_ECHO:
                self._patterns.setdefault(form, None)
                for echoes in (self._echoes, ALL_SECRETS._echoes) if in_answers else ():
                    echoes.setdefault(form, None)
        self._harmless, ALL_SECRETS._harmless = set(), set()

    def learn(self, other: Redactor) -> None:
        """From now on, also mask the secrets of another redactor."""
        self._patterns |= other._patterns
        self._echoes |= other._echoes
        self._harmless = set()

    def text(self, text: str) -> str:
        """Return a text for people (an error, a log line) with every known secret masked."""
        return _mask(text, self._patterns)

    def line(self, text: str, most: int = 200) -> str:
        """Return the same as one printable line of at most this many characters."""
        return clean(self.text(printable(text)), most)  # invisible characters could split a secret

    def answer(self, value: JSON, depth: int = 0) -> JSON:
        """Return an answer's data with secrets masked in all texts, keys and numbers, except very short secrets."""
        if isinstance(value, str):
            return _mask(value, self._echoes)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return MASK if any(_is_in_number(form, value) for form in self._echoes) else value
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if isinstance(value, list):
            return [self.answer(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._mask_key(key): self.answer(item, depth + 1) for key, item in value.items()}
        return value

    def _mask_key(self, key: str) -> str:
        harmless = self._harmless
        if key in harmless:
            return key
        masked = _mask(key, self._echoes)
        if masked is key and len(key) <= _LONGEST_KEY and len(harmless) < _MOST_KEYS:
            harmless.add(key)
        return masked


ALL_SECRETS = Redactor()
"""Masks the secrets of all endpoints of this process in answers and in errors of users' code."""


def _escaped_forms(text: str) -> Iterator[str]:
    """Yield a text as escaped in URLs, JSON and HTML, and as part of base64."""
    yield from (quote(text, safe=kept) for kept in ("", "/", "!*'()"))  # as in paths, and as JavaScript escapes
    yield from (json.dumps(text)[1:-1], html.escape(text))
    secret = text.encode("utf-8", "surrogatepass")
    for before in range(3):  # the number of other bytes in the first group of three
        first, last = (0, 2, 3)[before], (before + len(secret)) * 4 // 3
        encoded = base64.b64encode(bytes(before) + secret).decode()[first:last]
        yield from (encoded, encoded.replace("+", "-").replace("/", "_"))


def _forms(text: str) -> Iterator[str]:
    """Yield a secret, its base64, and the decoded user name and password if the secret is base64 of them."""
    yield text
    encoded = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    yield from (encoded, encoded.replace("+", "-").replace("/", "_"))
    with contextlib.suppress(ValueError):
        pair = base64.b64decode(text.rpartition(" ")[2], validate=True).decode()
        if ":" in pair and pair.isprintable():
            yield from (pair, pair.partition(":")[2])


_LONG = 256
"""In longer secrets, letters and digits are not searched in escaped form: Entra tokens have 2,000 characters, and their
pattern would take a second to compile."""


def _pattern(form: str) -> re.Pattern[str]:
    return re.compile("".join(one if len(form) > _LONG and one.isalnum() else _character(one) for one in form))


@functools.lru_cache(maxsize=512)
def _character(one: str) -> str:
    """Return a pattern for a lower-case character, plain or escaped in JSON, a URL or HTML, once or several times.

    Each alternative begins with a literal, so that the regex engine can skip quickly to possible starts.
    """
    ways = [re.escape(one)]
    if not one.isalnum():
        ways.append(rf"\\\\{_MORE}{re.escape(one)}")
    if one in _NAMED:
        ways.append(rf"&(?:amp;)*{_NAMED[one]};")
    for written in {one, *(other for other in (one.upper(),) if len(other) == 1)}:
        code, encoded = ord(written), written.encode("utf-8", "surrogatepass")
        ways += [rf"\\\\{_MORE}u{code:04x}", rf"&(?:amp;)*#x0*{code:x};", rf"&(?:amp;)*#0*{code};"]
        ways.append("".join(f"%(?:25)*{byte:02x}" for byte in encoded))
    return f"(?:{'|'.join(ways)})"


_LEAST_PART = 12
"""The minimum length of a part of a secret that is masked."""


@functools.lru_cache(maxsize=512)
def _blocks(form: str) -> Sequence[tuple[int, str]]:
    """Return the positions and texts of short pieces of a secret. Every part to mask contains a whole piece."""
    size = 6 if len(form) <= _LONG else 64
    return [(begin, form[begin : begin + size]) for begin in range(0, len(form) - size + 1, size)]


def _parts(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text with a secret or a part of it (at least 12 characters, or 127 of a long secret)."""
    for begin, block in _blocks(form):
        at = text.find(block)
        while at >= 0:
            first, last = at, at + len(block)
            while first and begin - at + first > 0 and text[first - 1] == form[begin - at + first - 1]:
                first -= 1
            while last < len(text) and begin - at + last < len(form) and text[last] == form[begin - at + last]:
                last += 1
            if last - first >= min(_LEAST_PART, len(form)):
                yield first, last
            at = text.find(block, last)


def _mask(text: str, patterns: Mapping[str, re.Pattern[str] | None]) -> str:
    """Replace each secret in a text by a mask. Overlapping secrets are removed completely."""
    read = _lower(text) if patterns else text
    spans = [span for form in patterns if len(text) >= LEAST_ECHO for span in _parts(form, read)]
    for pattern in filter(None, patterns.values()):
        found = pattern.search(read)
        while found:
            spans.append(found.span())
            found = pattern.search(read, found.start() + 1)
    pieces: list[str] = []
    after = 0
    for start, end in sorted(spans):
        if start >= after:
            pieces += (text[after:start], MASK)
        after = max(after, end)
    return "".join([*pieces, text[after:]]) if spans else text


def _is_in_number(form: str, value: float) -> bool:
    """Return whether a number contains a secret of digits, perhaps rounded or without leading zeros."""
    return _NUMBER.fullmatch(form) is not None and (form in str(value) or float(form) == value)


def _lower(text: str) -> str:
    """Return the text in lower case with the same length; a few characters have a longer lower case."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(low if len(low := one.lower()) == 1 else one for one in text)


def environment(text: str, place: Place, redactor: Redactor | None = None, *, in_answers: bool = False) -> str:
    """Replace every `${env:NAME}` in a text by the variable's value, and mask that value unless it is plain.

    Raises:
        ConfigurationError: a variable is not set or empty, or its name is invalid.
    """

    def value_of(match: re.Match[str]) -> str:
        value = _variable(match[1], place)
        if redactor is not None and not match[2]:
            redactor.add(Secret(value), in_answers=in_answers)
        return value

    return ENV_REFERENCE.sub(value_of, text)


def is_plain(value: JSON) -> bool:
    """Return whether a text refers to the environment, but not to a secret variable."""
    return isinstance(value, str) and bool(ENV_REFERENCE.search(value)) and not hides(value)


def hides(value: JSON) -> bool:
    """Return whether a text refers to a variable with a secret value."""
    return isinstance(value, str) and any(not match[2] for match in ENV_REFERENCE.finditer(value))


def resolve(value: JSON, place: Place, redactor: Redactor, *, in_answers: bool = False) -> JSON:
    """Replace the references to the environment in all texts of a request's body.

    The inserted values are masked in errors. They are also masked in answers if `in_answers`, or if the name of the key
    indicates a secret.
    """
    if isinstance(value, list):
        return [resolve(item, place.at(at), redactor, in_answers=in_answers) for at, item in enumerate(value)]
    if isinstance(value, dict):
        return {name: resolve(item, place.at(name), redactor, in_answers=in_answers) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    key = next((step for step in reversed(place.path) if isinstance(step, str)), "")
    secretive = bool(SECRET_FIELD.search(key))
    if secretive and value and "${" not in value:
        raise place.error(WRITTEN_OUT)
    return environment(value, place, redactor, in_answers=in_answers or secretive)


def storable_settings(value: JSON, key: str = "", above: str = "") -> JSON:
    """Return settings that may be stored in files.

    Plain references to the environment are replaced by their values, other references are kept. Values under keys that
    indicate a secret, and credentials in addresses, are masked.
    """
    if isinstance(value, list):
        return [storable_settings(item, key, above) for item in value]
    if isinstance(value, dict):
        return {name: storable_settings(item, name, key) for name, item in value.items()}
    if not isinstance(value, str) or not value:
        return value
    named = SECRET_FIELD.search(key) or (above in _HEADERS and looks_secret(key, value)) or (key, above) == _AUTH_VALUE
    if named:
        return value if ENV_REFERENCE.search(value) else MASK
    text = ENV_REFERENCE.sub(lambda match: os.environ.get(match[1], match[0]).strip() if match[2] else match[0], value)
    text = _QUERY.sub(lambda match: match[1] + MASK if is_secret_query(match[2]) else match[0], _LOGIN.sub(MASK, text))
    return _SECRET_VALUE.sub(MASK, text)


def is_secret_query(name: str) -> bool:
    """Return whether a query parameter of this name usually contains a secret."""
    return looks_secret(name) or name.lower() == "code"


def trace(values: JSON) -> str:
    """Return four hex digits of a hash: they show a change, but are too short to guess the values."""
    return content_hash(values)[:4]


def _variable(name: str, place: Place) -> str:
    if not _VARIABLE.match(name):
        raise place.error("write ${env:NAME}, with the name of an environment variable")
    value = os.environ.get(name, "").strip()  # keys read from a file end in a line feed
    if not value:
        state = "is empty" if name in os.environ else "is not set"
        raise place.error(f"the environment variable {name} {state}")
    return value


def sent_secret(value: JSON, place: Place, redactor: Redactor) -> Secret:
    """Return the secret of a header and mask it from now on. The value must be `${env:NAME}`, not a secret."""
    if value is None:
        raise place.error("is missing: write ${env:NAME}, with the name of an environment variable")
    if not isinstance(value, str) or not WHOLE_SECRET.match(value.strip()):
        raise place.error(WRITTEN_OUT)  # the value is not shown: it may be the secret
    item = Secret(sent_text(environment(value.strip(), place), place))
    redactor.add(item)
    redactor.add(Secret(item.reveal().rpartition(" ")[2]))  # a server may repeat "Bearer …" without the first word
    return item


def sent_text(text: str, place: Place) -> str:
    """Return the text if it is valid in a header, else raise ConfigurationError."""
    if not text.isascii() or not text.isprintable():
        raise place.error("the value holds characters that a header cannot carry")
    return text


def looks_secret(name: str, value: str = "") -> bool:
    """Return whether a header or query parameter is probably secret, by its name or its value."""
    return bool(_SECRET_NAME.search(name) or _CREDENTIALS.match(value.strip()))
