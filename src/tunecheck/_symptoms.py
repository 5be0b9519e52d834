"""Symptoms of failures in answers and errors: cut off, repeating, refusing, asking back, too long."""

import re
import tomllib
from functools import cache
from importlib.resources import files

CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "token_limit"})
"""The `finish_reason`s of answers that were cut off at the token limit, in the words of any service."""

_LOOP = 40
_BEGINNING = 300  # characters: refusals begin with what they are
_END = 4_000
_SENTENCE = r"[^.!?。！？\n]*+[.!?。！？\n]?"
_FILTER = r"(?i)content[_ ]?(?:filter|policy|management)|ResponsibleAIPolicy"


def repeats_itself(text: str) -> bool:
    """Return whether a text ends in text that it holds twice before: more tokens do not help such a model."""
    return len(text) > _LOOP and text.count(text[-_LOOP:]) > 2


def error_cause(error: str) -> str:
    """Return the cause of a row without an answer, by the words of its error: those of any server."""
    if re.search(_FILTER, error):
        return "filtered"
    return "overflow" if _patterns()["overflows"].search(error) else "server_fault"


def refuses(text: str) -> bool:
    """Return whether a text begins as refusals do. Services do not mark them reliably."""
    return _patterns()["refusals"].match(text.lstrip()[:_BEGINNING]) is not None


def asks_back(text: str) -> bool:
    """Return whether a text asks the user for something, beyond whether there is more to do."""
    requests, offers = _patterns()["requests"], _patterns()["offers"]
    sentences = re.findall(_SENTENCE, text[-_END:])
    return any(requests.search(sentence) and not offers.search(sentence) for sentence in sentences)


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    table = tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))
    words, compiled = table.pop("words"), {}
    for name, entry in table.items():
        pattern = "|".join(entry["any"])
        for word, spellings in words.items():
            pattern = pattern.replace(f"{{{word}}}", spellings)
        compiled[name] = re.compile(entry["around"].replace("{any}", pattern))
    return compiled
