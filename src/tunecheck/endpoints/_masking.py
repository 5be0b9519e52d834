"""Read secrets from the environment, and mask them in messages, answers and stored settings.

An endpoint reads its secrets with `sent_secret()` and `resolve()`. They are noted in a `Redactor`, which masks them in
every text from then on. `storable_settings()` masks a definition before it is written to a file.

`Redactor` finds a secret in these forms, in any case:

* the secret itself, or a part of it with at least 12 characters (127 if the secret has more than 256)
* its base64, at each of the three offsets and in both alphabets, and the user name and password of a Basic header
* each of these behind up to eight layers of escapes (JSON, URL, HTML), or with invisible characters in it
* a number with the same digits

Answers are masked only for secrets of at least 8 characters, because shorter ones occur by chance.
"""

from __future__ import annotations

import base64
import bisect
import contextlib
import functools
import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import NoReturn

from tunecheck._json import JSON, ValuePath, content_hash, map_texts
from tunecheck._messages import clean, printable
from tunecheck.endpoints._base import Place

MASK = "***"
"""Replaces a secret in every text."""

ENV_REFERENCE = re.compile(r"(?<!\$)\$\{env:(?P<name>[^}]*?)(?P<plain>:plain)?\}")
"""`${env:NAME}`, or `${env:NAME:plain}` for a value that is not secret."""

# Names that a shell accepts.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# A value that is only a reference, perhaps after the scheme of a header: `${env:KEY}` or `Bearer ${env:KEY}`.
WHOLE_SECRET = re.compile(r"(?:(?:Bearer|Basic|Token|ApiKey|Key)\s+)?\$\{env:[^}]*\}\Z", re.IGNORECASE)
# Names of headers and query parameters: `X-Api-Key`, `access_token`, `sig`; not `monkey` or `tokens_per_minute`.
_SECRET_NAME = re.compile(
    r"(^|[-_.])(authorization|auth|x?api-?key|apikey|key|token|secret|passw(or)?d|pwd|cookie|credentials?|signature|sig|sas)"
    r"([-_.]|$)",
    re.IGNORECASE,
)

MAX_DEPTH = 100
"""The maximum nesting of an answer: below the recursion limit, above any real answer."""

# Endings of keys in definitions: `api_key`, `clientSecret`, `authToken`, `ad_token`; not `max_tokens`.
SECRET_FIELD = re.compile(
    r"(api[-_]?key|authorization|passw(or)?d|passwd|secret|credentials?|((access|auth|bearer|session)|(?<![a-z])ad)[-_]?token)$",
    re.IGNORECASE,
)

_CREDENTIALS = re.compile(r"(Bearer|Basic|Token|ApiKey|SharedAccessSignature)\s+[^\s$]{16,}\Z", re.IGNORECASE)
"""Header values that are credentials, whatever the header's name."""

# Keys of a definition that hold headers, and the place of a sign-in's secret (key, and the key above it).
_HEADERS = ("headers", "extra_headers")
_AUTH_VALUE = ("value", "auth")
# A query parameter in a URL: `?api-version=2024-10-21` or `&sig=abc`.
_QUERY = re.compile(r"(?P<begin>[?&;](?P<name>[\w.-]{1,60})=)[^&;#\s]+")
# The credentials in a URL: `user:password` in `https://user:password@host/`.
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")

# Such as `AccountKey=…` of a connection string, `ghp_…` and `sk-…` tokens, JSON Web Tokens, and webhook addresses.
_SECRET_VALUE = re.compile(
    r"(?:(?:account|sharedaccess|access)key|sharedaccesssignature|password|pwd)\s*=\s*[^;\s]{4,}"
    r"|(?:gh[opusr]_|github_pat_|glpat-|xox[abeprs]-|sk-)[\w-]{16,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{16,}\.[\w-]+"
    r"|(?:hooks\.slack\.com/services|discord\.com/api/webhooks|[\w.]*webhook\.office\.com)/\S+",
    re.IGNORECASE,
)
"""Connection strings, access tokens, and addresses that are themselves secret."""

# The message for a secret that is written out; the secret itself is never shown.
WRITTEN_OUT = "do not write a secret here: write ${env:NAME} and set the environment variable NAME"

LEAST_ECHO = 8
"""Shorter secrets are not masked in answers, because they occur by chance. No real key is that short."""

# A secret that consists of digits may come back as a JSON number: 12345678 or 12345678.5.
_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]+)?")

_MOST_LAYERS = 8
"""The most layers of escapes around a secret that are removed: JSON in a URL in HTML has three."""

# Characters without a shape that a text may hold between the letters of a secret: control characters, soft hyphens,
# zero-width spaces and joiners, direction marks, fillers, variation selectors and tags.
_INVISIBLE = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
# Texts without any of these characters, as most are, need no search for escapes.
_SPECIAL = re.compile(rf"[%\\&{_INVISIBLE}]")
# An escape: `%2B`, `\u002b`, `\x2b`, `\"`, `&#43;` or `&plus;`, or a run of invisible characters.
_ESCAPE = re.compile(
    rf"(?P<url>(?:%[0-9a-f]{{2}})++)|\\u(?P<unicode>[0-9a-f]{{4}})|\\x(?P<hex>[0-9a-f]{{2}})|\\(?P<mark>[^\w\s%&{_INVISIBLE}])"
    rf"|(?P<html>&(?:#x?[0-9a-f]{{1,7}}|[a-z][a-z0-9]{{1,31}});)|[{_INVISIBLE}]++",
    re.IGNORECASE | re.ASCII,
)


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
        raise TypeError("a Secret cannot be pickled: read it from the environment again in the other process")


class Redactor:
    """Masks known secrets in texts, in any case and escaping.

    A server may repeat a secret or a part of it, unchanged or inside a URL, JSON, HTML or base64.
    """

    def __init__(self) -> None:
        """Start without secrets. `_forms` are masked in texts for people, `_echoes` in answers."""
        self._forms: dict[str, None] = {}
        self._echoes: dict[str, None] = {}

    def add(self, item: Secret, *, in_answers: bool = True) -> None:
        """Mask this secret from now on in texts for people and, if `in_answers`, in the answers of all endpoints.

        Secrets of fewer than 8 characters are not masked in answers.
        """
        for form in filter(None, map(_same_length_lower, _forms(item.reveal()))):
            self._forms[form] = None
            if in_answers and len(form) >= LEAST_ECHO:
                self._echoes[form] = ALL_SECRETS._echoes[form] = None

    def learn(self, other: Redactor) -> None:
        """From now on, also mask the secrets that another redactor knows now, but not those that it learns later."""
        self._forms |= other._forms
        self._echoes |= other._echoes

    def text(self, text: str) -> str:
        """Return a text for people (an error, a log line) with every known secret masked."""
        return _mask(text, self._forms)

    def line(self, text: str, most: int = 200) -> str:
        """Return a text for people as one printable line of at most `most` characters, with secrets masked."""
        return clean(self.text(printable(text)), most)  # invisible characters could split a secret

    def answer(self, value: JSON) -> JSON:
        """Return an answer's data with secrets masked in all texts, keys and numbers, except very short secrets.

        Raises:
            ValueError: there are secrets, and the data is nested too deeply to look for them.
        """
        if not self._echoes:  # for example an endpoint without a key
            return value

        # One search in all texts is enough for most answers: they repeat no secret, so `_mask` returns the same object.
        # A secret of digits is looked for in all numbers, too: a number may show it rounded or without leading zeros.
        text = "\n".join(_texts_of(value))
        may_repeat = _mask(text, self._echoes) is not text or any(map(_NUMBER.fullmatch, self._echoes))
        return self._masked(value) if may_repeat else value

    def _masked(self, value: JSON) -> JSON:
        """Return a value with the secrets in its texts, keys and numbers masked, at every level."""
        if isinstance(value, str):
            return _mask(value, self._echoes)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return MASK if any(_is_in_number(form, value) for form in self._echoes) else value
        if isinstance(value, list):
            return [self._masked(item) for item in value]
        if isinstance(value, dict):
            return {_mask(key, self._echoes): self._masked(item) for key, item in value.items()}
        return value


ALL_SECRETS = Redactor()
"""Masks the secrets of all endpoints of this process in answers and in errors of users' code."""


def _texts_of(value: JSON) -> list[str]:
    """Return the keys and texts at all levels of a value.

    Raises:
        ValueError: the value is nested too deeply.
    """
    texts: list[str] = []
    level: list[dict[str, JSON] | list[JSON]] = [[value]]  # the list around the value is no level of it
    for _ in range(MAX_DEPTH + 2):
        below: list[dict[str, JSON] | list[JSON]] = []
        for holder in level:
            if isinstance(holder, dict):
                texts.extend(holder)
            # Items are handled inline: a function call for each text and number would take most of the time.
            for item in holder.values() if isinstance(holder, dict) else holder:
                if isinstance(item, str):
                    texts.append(item)
                elif isinstance(item, (dict, list)):
                    below.append(item)
        if not below:
            return texts
        level = below
    raise ValueError(f"lists and objects are nested more than {MAX_DEPTH} levels deep: flatten them")


def _forms(text: str) -> Iterator[str]:
    """Yield a secret and its base64 at each offset; for base64 of `user:password`, also that text and the password.

    In base64, three bytes become four characters. So the characters of a secret within a longer text depend on the
    number of bytes before it, modulo three; characters that also encode neighbouring bytes are cut off.
    """
    yield text

    secret = text.encode("utf-8", "surrogatepass")
    for before in range(3):  # the number of other bytes in the first group of three
        # With 1 or 2 bytes before the secret, its first 2 or 3 characters also encode these bytes.
        first, last = (0, 2, 3)[before], (before + len(secret)) * 4 // 3
        encoded = base64.b64encode(bytes(before) + secret).decode()[first:last]
        if before == 0 or len(encoded) >= LEAST_ECHO:
            yield from (encoded, encoded.replace("+", "-").replace("/", "_"))

    # The last word is the whole secret, or the base64 in `Basic dXNlcjpwYXNz`.
    with contextlib.suppress(ValueError):
        pair = base64.b64decode(text.rpartition(" ")[2], validate=True).decode()
        if ":" in pair and pair.isprintable():
            yield from (pair, pair.partition(":")[2])


_LONG = 256
"""Of longer secrets (Entra tokens have 2,000 characters), longer parts are searched."""

_LEAST_PART = 12
"""The minimum length of a part of a secret that is masked."""


@functools.lru_cache(maxsize=512)
def _blocks(form: str) -> Sequence[tuple[int, str]]:
    """Split a secret into short blocks, with the position of each. A part that is worth masking contains a whole block.

    `form` is the secret or another form of it, such as its base64. "abcdefghijklmn" gives (0, "abcdef") and
    (6, "ghijkl"): a part of 12 characters contains one of the blocks of six. A form of more than 256 characters has
    blocks of 64.
    """
    size = min(6, len(form)) if len(form) <= _LONG else 64
    return [(begin, form[begin : begin + size]) for begin in range(0, len(form) - size + 1, size)]


def _find_parts(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of a secret in a text. A part has at least 12 characters of the secret.

    A shorter secret (`form`) is found as a whole. Each block of the secret is searched, and each place where it is
    found is extended in both directions.

    A part of a secret with more than 256 characters is found if it contains a whole block of 64 characters. Each part
    of 127 characters or more contains one.
    """
    for begin, block in _blocks(form):
        position = text.find(block)
        while position >= 0:
            start, end = position, position + len(block)
            shift = begin - position  # from a position in the text to the same position in the form

            # Extend the block to the left, then to the right, as long as text and secret agree.
            while start and start + shift > 0 and text[start - 1] == form[start + shift - 1]:
                start -= 1
            while end < len(text) and end + shift < len(form) and text[end] == form[end + shift]:
                end += 1

            if end - start >= min(_LEAST_PART, len(form)):
                yield start, end
            position = text.find(block, end)


_PIECE, _OVERLAP = 1 << 18, 1 << 16
"""A long text is searched in overlapping pieces, because the positions of its escapes need much memory."""


def _mask(text: str, forms: Collection[str]) -> str:
    """Replace each secret in a text by a mask. Overlapping secrets are removed completely.

    `forms` are the secrets and their other forms, such as base64, all in lower case. A text without secrets is returned
    as the same object.
    """
    # Pieces of a long text overlap, so that a secret at the end of one is found in the next.
    spans = [
        (begin + start, begin + end)
        for begin in range(0, len(text) if forms else 0, _PIECE)
        for start, end in _find_spans(text[begin : begin + _PIECE + _OVERLAP], forms)
    ]

    pieces: list[str] = []
    copied = 0
    for start, end in sorted(spans):
        # A span that begins within the one before it needs no mask of its own.
        if start >= copied:
            pieces += (text[copied:start], MASK)
        copied = max(copied, end)
    return "".join([*pieces, text[copied:]]) if pieces else text


def _find_spans(text: str, forms: Collection[str], layers: int = _MOST_LAYERS) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret, or part of one, in a text, also behind escapes or invisible characters.

    `forms` are the secrets and their other forms, such as base64, all in lower case. If the text has escapes, it is
    searched again without one layer of them: a secret in JSON in a URL has two layers. `layers` is the number that may
    still be removed.
    """
    lower = _same_length_lower(text)
    for form in forms:
        yield from _find_parts(form, lower)

    escapes = list(_ESCAPE.finditer(text)) if layers and _SPECIAL.search(text) else []
    if not escapes:
        return

    pieces, copied = list[str](), 0
    for escape in escapes:
        pieces += (text[copied : escape.start()], _unescape(escape))
        copied = escape.end()

    # The end of each piece in the unescaped text, to find the spans in the original text again.
    ends = list(accumulate(map(len, pieces)))
    for start, end in _find_spans("".join([*pieces, text[copied:]]), forms, layers - 1):
        yield _original_span(start, ends, escapes)[0], _original_span(end - 1, ends, escapes)[1]


def _unescape(escape: re.Match[str]) -> str:
    """Return the characters that an escape stands for; "" for invisible characters."""
    if escape["url"]:
        return bytes.fromhex(escape["url"].replace("%", "")).decode("utf-8", "replace")
    if escape["html"]:
        from html import unescape  # imported here because it loads a table of all entity names

        return unescape(escape["html"])
    code = escape["unicode"] or escape["hex"]
    return chr(int(code, 16)) if code else escape["mark"] or ""


def _original_span(position: int, ends: list[int], escapes: list[re.Match[str]]) -> tuple[int, int]:
    """Return the start and end, in the original text, of the character at this position of the unescaped text.

    `ends` are the ends of the pieces of the unescaped text: text between escapes, an escape, text, and so on. For the
    text `a%2Bc`, unescaped `a+c`, the ends are 1 and 2. Position 1, the plus sign, gives (1, 4).
    """
    piece = bisect.bisect_right(ends, position)
    if piece % 2:  # pieces with an odd index are escapes
        return escapes[piece // 2].span()

    before = escapes[piece // 2 - 1].end() if piece else 0
    start = before + position - (ends[piece - 1] if piece else 0)
    return start, start + 1


def _is_in_number(form: str, value: float) -> bool:
    """Return whether a number shows a secret that consists of digits, also rounded or without leading zeros."""
    return _NUMBER.fullmatch(form) is not None and (form in str(value) or float(form) == value)


def _same_length_lower(text: str) -> str:
    """Return the text in lower case; a letter that would become two characters, such as "İ", stays unchanged."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def insert_env(text: str, place: Place, redactor: Redactor | None = None, *, in_answers: bool = False) -> str:
    """Return a text with every `${env:NAME}` and `${env:NAME:plain}` replaced by the variable's value.

    The redactor, if there is one, masks the values of references without `:plain` from now on: in errors, with
    `in_answers` also in answers. `place` is where the text stands, for errors.

    Raises:
        ConfigurationError: a variable is empty or not set, or its name is invalid.
    """

    def value_of(match: re.Match[str]) -> str:
        """Return the variable's value and mask it from now on, unless the reference ends with `:plain`."""
        value = _variable(match["name"], place)
        if redactor is not None and not match["plain"]:
            redactor.add(Secret(value), in_answers=in_answers)
        return value

    return ENV_REFERENCE.sub(value_of, text)


def is_plain(value: JSON) -> bool:
    """Return whether a text refers to the environment, but not to a secret variable."""
    return isinstance(value, str) and bool(ENV_REFERENCE.search(value)) and not hides(value)


def hides(value: JSON) -> bool:
    """Return whether a text has a reference to the environment without `:plain`, so that its value is secret."""
    return isinstance(value, str) and any(not match["plain"] for match in ENV_REFERENCE.finditer(value))


def resolve(value: JSON, place: Place, redactor: Redactor, *, in_answers: bool = False) -> JSON:
    """Return a request's body, or a part of it, with the references to the environment in all its texts replaced.

    `place` is the value's place in the definition. The redactor masks the inserted values in errors. It also masks them
    in answers if `in_answers`, or if the text's own key, the last one of its path, indicates a secret.

    Raises:
        ConfigurationError: a variable is empty or not set, or a key for a secret holds the secret itself.
    """

    def resolved(text: str, path: ValuePath) -> str:
        """Return a text with its references replaced, or refuse a secret that is written out."""
        # The text's own key, the last one of its path, tells whether it is a secret.
        text_place, is_secret = Place(place.document, path), bool(SECRET_FIELD.search(_last_keys(path)[1]))
        if is_secret and text and "${" not in text:
            raise text_place.error(WRITTEN_OUT)
        return insert_env(text, text_place, redactor, in_answers=in_answers or is_secret)

    return map_texts(value, resolved, place.path)


def _last_keys(path: ValuePath) -> tuple[str, str]:
    """Return the last two keys of a path, without indexes of lists; "" for a key that it does not have."""
    keys = [step for step in path if isinstance(step, str)]
    return keys[-2] if len(keys) > 1 else "", keys[-1] if keys else ""


def storable_settings(settings: JSON, key: str = "") -> JSON:
    """Return the settings under `key` in the form that may be stored in files.

    A text under a key for a secret (`api_key`, a header such as `Authorization`, `value` of `auth`) stays if it has a
    reference to the environment, else it is masked. In all other texts:

        ${env:REGION:plain}              becomes the variable's value
        ${env:KEY}                       stays
        https://user:password@host/      becomes https://***@host/
        https://host/?sig=abc            becomes https://host/?sig=***
        a connection string or a token   becomes *** (`_SECRET_VALUE`)
    """
    return map_texts(settings, _storable_text, (key,))


def _storable_text(text: str, path: ValuePath) -> str:
    """Return the text at this path of settings, masked if it is or contains a secret."""
    above, key = _last_keys(path)
    is_secret_header = above in _HEADERS and looks_secret(key, text)
    if text and (SECRET_FIELD.search(key) or is_secret_header or (key, above) == _AUTH_VALUE):
        return text if ENV_REFERENCE.search(text) else MASK

    with_values = ENV_REFERENCE.sub(_plain_value, text)

    # Innermost first: credentials before the host, then query parameters, then secrets that the value's form shows.
    return _SECRET_VALUE.sub(MASK, _QUERY.sub(_masked_query, _LOGIN.sub(MASK, with_values)))


def _plain_value(reference: re.Match[str]) -> str:
    """Return the value of a plain reference to the environment if the variable is set, else the reference itself."""
    return os.environ.get(reference["name"], reference[0]).strip() if reference["plain"] else reference[0]


def _masked_query(parameter: re.Match[str]) -> str:
    """Return a query parameter of a URL, with its value masked if its name indicates a secret."""
    return parameter["begin"] + MASK if is_secret_query(parameter["name"]) else parameter[0]


def is_secret_query(name: str) -> bool:
    """Return whether a query parameter of this name usually contains a secret."""
    return looks_secret(name) or name.lower() == "code"


def trace(values: JSON) -> str:
    """Return the first four hex digits of a hash of the values. They show most changes and do not reveal the values."""
    return content_hash(values)[:4]


def _variable(name: str, place: Place) -> str:
    """Return the value of an environment variable, without white space around it.

    Raises:
        ConfigurationError: the name is invalid, or the variable is empty or not set.
    """
    if not _VARIABLE.match(name):
        raise place.error("a reference to the environment is not valid: write ${env:NAME}, with the name of a variable")
    value = os.environ.get(name, "").strip()  # keys read from a file end in a line feed

    if not value:
        state = "is empty" if name in os.environ else "is not set"
        raise place.error(f"the environment variable {name} {state}: set it before the run")
    return value


def sent_secret(value: JSON, place: Place, redactor: Redactor) -> Secret:
    """Return the secret for a header that the definition writes as `${env:NAME}`; the redactor masks it from now on.

    `value` is the reference, `place` where it stands in the definition.

    Raises:
        ConfigurationError: the value has another form (it may be a written-out secret), the variable is missing, or a
            header cannot contain its value.
    """
    if value is None:
        raise place.error("the secret is missing: write ${env:NAME} and set the environment variable NAME")

    if not isinstance(value, str) or not WHOLE_SECRET.match(value.strip()):
        raise place.error(WRITTEN_OUT)  # the value is not shown: it may be the secret

    item = Secret(sent_text(insert_env(value.strip(), place), place))
    redactor.add(item)
    redactor.add(Secret(item.reveal().rpartition(" ")[2]))  # a server may repeat "Bearer …" without the first word
    return item


def sent_text(text: str, place: Place) -> str:
    """Return the text unchanged.

    Raises:
        ConfigurationError: a header cannot contain the text.
    """
    if not text.isascii() or not text.isprintable():
        raise place.error("the header's value has characters other than printable ASCII: remove them")
    return text


def looks_secret(name: str, value: str = "") -> bool:
    """Return whether a header or query parameter is probably secret, by its name or its value."""
    return bool(_SECRET_NAME.search(name) or _CREDENTIALS.match(value.strip()))
