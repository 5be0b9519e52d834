"""Scores as the GoodAI LTM Benchmark v3.5 gives them, its defects included; undecided where it asks a model."""

import json
import re
from collections.abc import Callable, Mapping

from tunecheck._json import JSON
from tunecheck_memory import FinishedTest, Score, judge_by_words, mentions
from tunecheck_memory._kind import plain_title
from tunecheck_memory._kinds.instructions import LIKENESS, expected_quote, letters, likeness
from tunecheck_memory._kinds.replies import (
    MAX_JSON,
    NoExpectationError,
    UndecidedError,
    all_replies,
    expected_text,
    expected_texts,
    last_reply,
    texts,
)
from tunecheck_memory._kinds.spy_meeting import CODES, expected_words
from tunecheck_memory._kinds.statements import MAX_ITEMS, expected_quantities

_ASKS_MODEL = UndecidedError("the reference asks a model")


def score_as_benchmark(given: FinishedTest) -> Score:
    """Score a test exactly as the benchmark does; its shopping scores may exceed 1.

    Raises:
        UndecidedError: the benchmark asks a model, or breaks off.
    """
    rule = _RULES.get(plain_title(given.title))
    if rule is None or given.points is not None:
        return judge_by_words(given)
    return Score(rule(given), ())


def _has_text(given: FinishedTest) -> float:
    return float(expected_text(given).lower() in last_reply(given).lower())


def _has_value(given: FinishedTest) -> float:
    return float(expected_text(given) in last_reply(given))


def _tells_joke(given: FinishedTest) -> float:
    if not _has_text(given):
        raise _ASKS_MODEL
    return 1.0


def _reads_route(given: FinishedTest) -> float:
    raise _ASKS_MODEL


def _names_place(given: FinishedTest) -> float:
    place, said = expected_text(given), _read(last_reply(given))
    if not isinstance(said, dict) or "answer" not in said:
        return 0.0
    if not isinstance(said["answer"], str):
        raise UndecidedError("the reference breaks off: the answer is not text")
    return float(said["answer"].lower() == place)


def _chooses_option(given: FinishedTest) -> float:
    return float(set(re.findall(r"\d+", last_reply(given))) == {expected_text(given).strip()})


def _decodes_messages(given: FinishedTest) -> float:
    reply, expected = last_reply(given), expected_words(given)
    known = {word for words in expected for word in words}
    others = [words for words in CODES if known.isdisjoint(words)]
    wrong = any(mentions(word, reply, cased=True) for words in others for word in words)
    understood = sum(any(mentions(word, reply, cased=True) for word in words) for words in expected)
    return max(0, understood - wrong) / len(expected)


def _quotes_in_reply(given: FinishedTest) -> float:
    quote, turn = expected_quote(given)
    since = texts(given.since_question)
    if not since:
        raise UndecidedError("the row has no replies since the request")
    return float([number for number, reply in enumerate(since, 1) if quote in letters(reply)] == [turn])


def _says_sentence(given: FinishedTest) -> float:
    expected = expected_texts(given)
    if not expected:
        raise NoExpectationError
    said = [
        wanted.lower() in reply.lower() or likeness(wanted, reply) > LIKENESS
        for wanted, reply in zip(expected, all_replies(given), strict=False)
    ]
    if not all(said):
        raise UndecidedError("the reference asks a model for the closest sentence")
    return sum(said) / len(expected)


def _lists_names(given: FinishedTest) -> float:
    said = _read(last_reply(given))
    wanted = [name.strip().lower() for name in expected_texts(given)]
    if not isinstance(said, (list, dict)):
        return 0.0
    named = [name.strip().lower() if isinstance(name, str) else "" for name in list(said)[:MAX_ITEMS]]
    if not wanted and not named:
        raise UndecidedError("the reference breaks off: both lists are empty")
    return sum(name in named for name in wanted) / max(len(wanted), len(named))


def _lists_items(given: FinishedTest) -> float:
    expected, said = expected_quantities(given), _read(last_reply(given))
    if not isinstance(said, list) or len(said) > MAX_ITEMS:
        return 0.0
    if not all(isinstance(each, dict) and isinstance(each.get("item"), str) and "quantity" in each for each in said):
        return 0.0
    if not expected:
        raise UndecidedError("the reference breaks off: nothing was expected")
    present = quantities = 0
    for each in said:
        assert isinstance(each, dict)
        meant = next((name for name in expected if name in str(each["item"]).lower()), None)
        if meant is not None:
            present += 1
            quantities += expected[meant] == each["quantity"]
    count = len(expected)
    return (present / count + quantities / count + (present == len(said))) / 3


_RULES: Mapping[str, Callable[[FinishedTest], float]] = {
    "names": _has_text,
    "namelist": _lists_names,
    "colours": _has_text,
    "shopping": _lists_items,
    "locations": _reads_route,
    "locationsdirections": _reads_route,
    "jokes": _tells_joke,
    "sallyanne": _names_place,
    "keyvaluepairs": _has_value,
    "kv": _has_value,
    "chapterbreak": _chooses_option,
    "prospectivememory": _quotes_in_reply,
    "triggerresponse": _says_sentence,
    "spymeeting": _decodes_messages,
}


def _read(reply: str) -> JSON:
    try:
        return read_as_reference(reply)
    except ValueError:
        return None


_FEWEST_REPAIRS, _CHARACTERS_A_REPAIR = 5, 50


def read_as_reference(text: str) -> JSON:
    """The JSON value of a text, or of its last fenced block, by the repairs that the benchmark knows.

    Raises:
        ValueError: the benchmark cannot read it: a list in single quotes, for instance.
    """
    text = text[:MAX_JSON]
    try:
        return _loads(text)
    except json.JSONDecodeError:
        text = _block(text)
    for _ in range(max(_FEWEST_REPAIRS, len(text) // _CHARACTERS_A_REPAIR)):
        text = text.strip()
        try:
            return _loads(text)
        except json.JSONDecodeError as error:
            text = _repaired(text, error)
    raise ValueError("the JSON has too many mistakes")


def _loads(text: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return value


def _block(text: str) -> str:
    """What stands between the last two fences, or from the last that says JavaScript on."""
    inside = text.rpartition("```")[0]
    fence = "```javascript" if "```javascript" in inside else "```"
    return inside.rpartition(fence)[2].removeprefix("json") if fence in inside else text


def _repaired(text: str, error: json.JSONDecodeError) -> str:
    """The text without its first mistake, or with what is missing there."""
    at, rest = error.pos, text[error.pos :].lstrip()
    match error.msg.split(" at")[0]:
        case "Extra data":
            return text[:at]
        case "Expecting ',' delimiter":
            return f"{text[:at]},{text[at:]}"
        case "Expecting ':' delimiter" if rest.startswith(("}", ",")):
            return f"{text[:at]}: null{text[at:]}"
        case "Invalid control character" if text[at] == "\n":
            return text[:at] + text[at + 1 :]
        case "Expecting value" if at == 0 and (opening := re.search(r"[\[{]", text)):
            return text[opening.start() :]
        case "Expecting value" if at:
            return _without(text, at, "]") or f'{text[:at]}"{text[at:]}'
        case "Expecting property name enclosed in double quotes":
            if (shorter := _without(text, at, "}")) is not None:
                return shorter
        case other if other.startswith("Illegal trailing comma"):  # as newer versions of Python call it
            return text[:at] + text[at + 1 :]
    raise error


def _without(text: str, at: int, closing: str) -> str | None:
    """The text without the comment, dots or comma before a closing bracket that stand there; None if there are none."""
    rest = text[at:].lstrip()
    if rest.startswith("//"):
        comment = text.index("//", at)
        return text[:comment] + text[comment:].partition("\n")[2]
    if rest.startswith("..."):
        return text[:at] + text[at:].replace("...", "", 1)
    if rest.startswith(closing) and "," in text[:at]:
        comma = text.rindex(",", 0, at)
        return text[:comma] + text[comma + 1 :]
    return None
