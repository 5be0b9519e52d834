"""The `headers:` of a definition: checked names, secrets only from the environment."""

from __future__ import annotations

from tunecheck._json import JSON
from tunecheck._version import __version__
from tunecheck.endpoints._definition import Definition, Section
from tunecheck.endpoints._masking import ENV_REFERENCE, Redactor, Secret, environment, looks_secret, secret, sent_text

_RESERVED = frozenset(
    {"content-length", "content-type", "host", "idempotency-key", "transfer-encoding", "connection", "tunecheck-time"}
)


def read_headers(definition: Definition, redactor: Redactor) -> dict[str, str]:
    """All fixed headers of a request: ours, and over them the definition's.

    Raises:
        ConfigurationError: a name or value cannot be sent, or a secret is written out.
    """
    section = definition.section("headers")
    given = {name: _value(name, section, redactor) for name in definition.mapping("headers")}
    names = {name.lower() for name in given}
    if "authorization" in names and definition.has("auth"):
        raise section.error("Authorization", "stands beside auth, which sends it too: leave one of them out")
    ours = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": f"tunecheck/{__version__}"}
    return {**{name: value for name, value in ours.items() if name.lower() not in names}, **given}


def _value(name: str, section: Section, redactor: Redactor) -> str:
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise section.error(name, "is not the name of a header")
    if name.lower() in _RESERVED:
        raise section.error(name, "is set for each request and cannot be given")
    if looks_secret(name, str(section.value(name))):
        item = secret(section, name)
        redactor.add(item)
        redactor.add(Secret(item.reveal().rpartition(" ")[2]))  # "Bearer …" may come back without its first word
        return item.reveal()
    text = sent_text(environment(_text(name, section), section, name), section, name)
    if ENV_REFERENCE.search(_text(name, section)):
        redactor.add(Secret(text), in_answers=False)
    return text


def _text(name: str, section: Section) -> str:
    value: JSON = section.value(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise section.error(name, "must be a text or a number")
    return str(value)
