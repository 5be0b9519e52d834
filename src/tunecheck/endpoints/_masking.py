"""Secrets: read from the environment, masked in messages, in what a server echoes, and in settings that are kept."""

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

_SECRET_VALUE = re.compile(
    r"(?:(?:account|sharedaccess|access)key|sharedaccesssignature|password|pwd)\s*=\s*[^;\s]{4,}"
    r"|(?:gh[opusr]_|github_pat_|glpat-|xox[abeprs]-|sk-)[\w-]{16,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{16,}\.[\w-]+"
    r"|(?:hooks\.slack\.com/services|discord\.com/api/webhooks|[\w.]*webhook\.office\.com)/\S+",
    re.IGNORECASE,
)
"""Connection strings, access tokens, and addresses that are secrets themselves."""

WRITTEN_OUT = "a secret is not written here: write ${env:NAME} and set that environment variable"

_MOST_KEYS, _LONGEST_KEY = 1_024, 40
"""Limits of the keys that are remembered because they hold no secret. Every answer repeats its keys."""

LEAST_ECHO = 8
"""Shorter secrets are not masked in answers, where they occur by chance; no real key is that short."""

_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]+)?")

_MORE = "{0,15}"
"""More backslashes before an escaped character (JSON in JSON in JSON); bounded, so that a long run costs little."""

_NAMED = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
"""Characters that HTML writes by name."""


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
    """Masks known secrets in texts, in upper and lower case and however they are written there.

    A server may repeat one as it was sent, or within a URL, JSON, HTML or base64, or a part of it.
    """

    def __init__(self) -> None:
        self._patterns: dict[str, re.Pattern[str] | None] = {}
        self._echoes: dict[str, re.Pattern[str] | None] = {}
        self._harmless = set[str]()
        """Keys that hold no secret. A new secret replaces the set by an empty one."""

    def add(self, item: Secret, *, in_answers: bool = True) -> None:
        """Mask this secret from now on: in texts for people, and unless `in_answers` is False in answers."""
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
        """Mask from now on what another one masks."""
        self._patterns |= other._patterns
        self._echoes |= other._echoes
        self._harmless = set()

    def text(self, text: str) -> str:
        """Return a text for people (an error, a log line) with every known secret masked."""
        return _mask(text, self._patterns)

    def line(self, text: str, most: int = 200) -> str:
        """Return the same as one printable line of at most this many characters."""
        return clean(self.text(printable(text)), most)  # a secret may stand there with invisible marks inside

    def answer(self, value: JSON, depth: int = 0) -> JSON:
        """Return an answer's data with long-enough secrets masked in all its texts and numbers, keys included."""
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
"""Masks the secrets of all endpoints of this process in answers, and in the errors of users' code."""


def _escaped_forms(text: str) -> Iterator[str]:
    """Yield a text as URLs, JSON and HTML escape it, and within base64."""
    yield from (quote(text, safe=kept) for kept in ("", "/", "!*'()"))  # as in paths, and as JavaScript escapes
    yield from (json.dumps(text)[1:-1], html.escape(text))
    secret = text.encode("utf-8", "surrogatepass")
    for before in range(3):  # how many bytes of another text stand in its first group of three
        first, last = (0, 2, 3)[before], (before + len(secret)) * 4 // 3
        encoded = base64.b64encode(bytes(before) + secret).decode()[first:last]
        yield from (encoded, encoded.replace("+", "-").replace("/", "_"))


def _forms(text: str) -> Iterator[str]:
    """Yield a secret, its base64, and the user name and password that are base64 in it."""
    yield text
    encoded = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    yield from (encoded, encoded.replace("+", "-").replace("/", "_"))
    with contextlib.suppress(ValueError):
        pair = base64.b64decode(text.rpartition(" ")[2], validate=True).decode()
        if ":" in pair and pair.isprintable():
            yield from (pair, pair.partition(":")[2])


_LONG = 256
"""Characters of a secret from which on its letters and digits are not looked for escaped: tokens of Entra have 2,000,
and their pattern would take a second to compile."""


def _pattern(form: str) -> re.Pattern[str]:
    return re.compile("".join(one if len(form) > _LONG and one.isalnum() else _character(one) for one in form))


@functools.lru_cache(maxsize=512)
def _character(one: str) -> str:
    """Return a pattern for a lower-case character, plain or escaped in JSON, a URL or HTML, once or several times.

    Each alternative begins with a literal, so that the search skips quickly to where one can begin.
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
"""Characters of a part of a secret that is masked."""


@functools.lru_cache(maxsize=512)
def _blocks(form: str) -> Sequence[tuple[int, str]]:
    """Return the places and texts of short pieces of a secret; each of its parts to mask holds a whole piece."""
    size = 6 if len(form) <= _LONG else 64
    return [(begin, form[begin : begin + size]) for begin in range(0, len(form) - size + 1, size)]


def _parts(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text holds a secret or a part of it: at least 12 characters, or 127 of a long one."""
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
    """Return the text with a mask in place of each secret; of two that overlap nothing is left."""
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
    """True if a number holds a secret of digits, without its leading zeros or rounded as it may be."""
    return _NUMBER.fullmatch(form) is not None and (form in str(value) or float(form) == value)


def _lower(text: str) -> str:
    """Return the text in lower case, character by character: some have a longer one."""
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
    """True if a text refers to a variable with a secret value."""
    return isinstance(value, str) and any(not match[2] for match in ENV_REFERENCE.finditer(value))


def resolve(value: JSON, place: Place, redactor: Redactor, *, in_answers: bool = False) -> JSON:
    """A value of a request's body with the references to the environment in all its texts replaced.

    The inserted values are masked in errors. They are masked in answers too if `in_answers`, or if the key's name marks
    a secret.
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
    """Settings as a file may keep them.

    Plain references to the environment stand as their values, the others as they were written. Values under names of
    secrets are masked, and so are credentials in addresses.
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
    """Return whether a query parameter of that name usually carries a secret."""
    return looks_secret(name) or name.lower() == "code"


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
