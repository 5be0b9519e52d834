"""Secrets: read from the environment, masked in messages, and in what a server echoes."""

import html
import json
import os
import re
from typing import NoReturn
from urllib.parse import quote

from tunecheck._json import JSON
from tunecheck.endpoints._config import Place

MASK = "***"

ENV_REFERENCE = re.compile(r"(?<!\$)\$\{env:([^}]*)\}")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WHOLE_SECRET = re.compile(r"(?:(?:Bearer|Basic|Token|ApiKey|Key)\s+)?\$\{env:[^}]*\}\Z", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"(^|[-_.])(authorization|auth|x?api-?key|apikey|key|token|secret|passw(or)?d|pwd|cookie|credentials?|signature|sig|sas)"
    r"([-_.]|$)",
    re.IGNORECASE,
)

MAX_DEPTH = 100
"""Deepest nesting of an answer that is taken in; below the recursion limit, above anything real."""

_SECRET_FIELD = re.compile(
    r"(api[-_]?key|authorization|passw(or)?d|passwd|secret|credentials?|(access|auth|bearer|session)[-_]?token)$",
    re.IGNORECASE,
)

_CREDENTIALS = re.compile(r"(Bearer|Basic|Token|ApiKey|SharedAccessSignature)\s+[^\s$]{16,}\Z", re.IGNORECASE)
"""Values of headers that are credentials, whatever the header is called."""

_WRITTEN_OUT = "a secret is not written here: write ${env:NAME} and set that environment variable"

_LEAST_ECHO = 8
"""Shorter secrets are not masked in answers, where they occur by chance; no real key is that short."""


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
    """Masks known secrets in texts, in every form in which a server may echo them (URL, JSON, HTML)."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()
        self._echoes: tuple[str, ...] = ()

    def add(self, item: Secret, *, in_answers: bool = True) -> None:
        """Mask this secret from now on: in texts for people, and unless `in_answers` is False in answers."""
        text = item.reveal()
        forms = {text, quote(text, safe=""), quote(text), json.dumps(text)[1:-1], html.escape(text)} - {""}
        self._forms = _longest_first({*self._forms, *forms})
        if in_answers:
            self._echoes = _longest_first({*self._echoes, *(form for form in forms if len(form) >= _LEAST_ECHO)})

    def text(self, text: str) -> str:
        """A text for people (an error, a log line), every known secret masked."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def answer(self, value: JSON, depth: int = 0) -> JSON:
        """An answer's data with long-enough secrets masked in all its texts, keys included."""
        if isinstance(value, str):
            for form in self._echoes:
                value = value.replace(form, MASK)
            return value
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if isinstance(value, list):
            return [self.answer(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {str(self.answer(key)): self.answer(item, depth + 1) for key, item in value.items()}
        return value


def _longest_first(forms: set[str]) -> tuple[str, ...]:
    # Where one secret contains another, masking the shorter one first would leave the rest of the longer one.
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def environment(text: str, place: Place) -> str:
    """A text with every `${env:NAME}` replaced by the variable's value.

    Raises:
        ConfigurationError: a variable is not set, or cannot be sent.
    """
    return ENV_REFERENCE.sub(lambda match: _variable(match[1], place), text)


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
    secretive = bool(_SECRET_FIELD.search(key))
    if ENV_REFERENCE.search(value):
        for match in ENV_REFERENCE.finditer(value):
            redactor.add(Secret(environment(match[0], place)), in_answers=secretive)
        return environment(value, place)
    if secretive and value and "${" not in value:
        raise place.error(_WRITTEN_OUT)
    return value


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
    if not isinstance(value, str) or not _WHOLE_SECRET.match(value.strip()):
        raise place.error(_WRITTEN_OUT)  # the value is not shown: it may be the secret
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
