"""Verdicts as data: the eight keys of a metric, and faults with codes, from which texts and counts are made.

A fault such as

    Fault(code="wrong_argument.number_as_text", call="book_hotel", path="nights", expected=2, actual="2")

is stored as JSON in `<metric>_properties` (`to_json`) and described in `<metric>_reason` (`sentence`). Its code
leads to the cause of the failure (`cause_of_fault`); codes.toml lists the causes in the order in which they are
checked. Faults hold values from users' code and models, so each length here has a limit.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal, TypeAlias

import msgspec

from tunecheck import plugins  # its names load on first use, and worker processes use none
from tunecheck._json import JSON, convert_value, dumps, plain
from tunecheck._messages import clean, common_beginning

MAX_FAULTS = 20
"""Limit of faults in a row's properties; the first fault of each further code is added."""

MOST_VALUE = 80
"""Maximum number of characters of a name or value in a sentence."""

# Limits of a sentence: characters of a call, characters of a whole reason, and number of calls or values named.
_MOST_CALL = 160
_MOST_REASON = 2_000
_MOST_CHOICES = 5

_MOST_STORED = 500
"""Limit of a stored value: characters of a text, bytes of any other value, items of a list or object."""

_MOST_NESTED = 100
"""Limit of lists and objects in a stored value: a row is written up to a depth of 200."""

_LONGEST_CODE = 100
"""Maximum number of characters of a code; a fault with a longer one is invalid."""

_BEFORE_DIFFERENCE = 16
"""Characters shown before the first one in which two long texts differ."""

# Control characters and Unicode's line ends in names would break a line; values are shown as JSON, which escapes them.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

_Unset: TypeAlias = msgspec.UnsetType

Verdict: TypeAlias = dict[str, JSON]
"""An evaluator's result for one row, as it returns it: plain JSON values by key."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a row.

    `code` is a code of codes.toml, or an evaluator's own. `call` is the name of the function; `path` the place in its
    arguments, or in a state (`a.b[0]`); `turn` the turn of a conversation, from 1. `expected` and `actual` are the
    values at the place: an argument, the arguments of a missing or extra call, a whole call as `{"name", "arguments"}`
    if its name is wrong, or a threshold and a score; unset if there is none. `any_of`: `expected` holds lists of
    accepted values. `message` is a text for faults that the other fields do not explain.
    """

    code: str
    call: str | None = None
    path: str | None = None
    turn: int | None = None
    expected: Any = msgspec.UNSET
    actual: Any = msgspec.UNSET
    any_of: bool = False
    message: str | None = None


# -- as data


def to_json(faults: Iterable[Fault]) -> list[JSON]:
    """Return faults as JSON for `<metric>_properties`: the first 20, and the first of each further code up to 40.

    Long texts are cut, and large or unwritable values left out.
    """
    kept: list[JSON] = []
    codes: set[str] = set()
    for fault in faults:
        if len(kept) < MAX_FAULTS or (fault.code not in codes and len(kept) < 2 * MAX_FAULTS):
            codes.add(fault.code)
            kept.append(fault_json(fault))
    return kept


def read_faults(properties: object) -> tuple[Fault, ...]:
    """Return the faults in an evaluator's `<metric>_properties`; invalid entries are ignored."""
    listed = properties.get("faults") if isinstance(properties, Mapping) else None
    return as_faults(listed) if isinstance(listed, (list, tuple)) else ()


def as_faults(items: Iterable[object]) -> tuple[Fault, ...]:
    """Return the items that are faults or the JSON of faults; other items are skipped."""
    return tuple(fault for item in items if (fault := _fault(item)) is not None)


def _fault(item: object) -> Fault | None:
    """Return an item as a fault with checked fields; None if it is no fault, or its code is empty or too long."""
    try:  # a user's instance may hold any values
        fault = convert_value(msgspec.structs.asdict(item) if isinstance(item, Fault) else item, Fault)
    except (msgspec.ValidationError, RecursionError):
        return None
    return fault if 0 < len(fault.code) <= _LONGEST_CODE else None


def fault_json(fault: Fault) -> dict[str, JSON]:
    """Return one fault as JSON, without unset fields; long texts are cut, large or unwritable values left out."""
    row: dict[str, JSON] = {"code": fault.code[:_LONGEST_CODE]}
    for name, text in (("call", fault.call), ("path", fault.path), ("message", fault.message)):
        if text is not None:
            row[name] = cut(text, _MOST_STORED)

    if fault.turn is not None:
        row["turn"] = fault.turn

    for name, value in (("expected", _stored_value(fault.expected)), ("actual", _stored_value(fault.actual))):
        if not isinstance(value, _Unset):  # None is a value
            row[name] = value
    if fault.any_of:
        row["any_of"] = True
    return row


def _stored_value(value: JSON | _Unset) -> JSON | _Unset:
    """Return a value in the form kept with a fault: long texts are cut; UNSET if it is too large or unwritable."""
    if isinstance(value, _Unset) or value is None or isinstance(value, bool):
        return value

    if isinstance(value, (list, dict)) and len(value) > _MOST_STORED:
        return msgspec.UNSET

    if isinstance(value, str):
        value = cut(value, _MOST_STORED)

    try:
        written = dumps(value)
    except (TypeError, ValueError, RecursionError):  # nested too deeply, half a surrogate pair, too many digits
        return msgspec.UNSET

    if isinstance(value, str):
        return value

    # Each list and object begins with a bracket; brackets in texts count, too, which only makes the check stricter.
    nested = written.count(b"[") + written.count(b"{")

    # A copy, because changes of a verdict must not change the calls.
    return plain(value) if len(written) <= _MOST_STORED and nested <= _MOST_NESTED else msgspec.UNSET


# -- in words


def title(code: str) -> str:
    """Return the title of a code, such as `wrong argument: number as text`.

    The title comes from the core's table, else from a plug-in. An unknown code is turned into words:
    `my_code.some_kind` becomes "my code: some kind", and `judged.rude` "rude".
    """
    titles = fault_titles()
    if code in titles:  # without loading plug-ins, which worker processes do not need
        return titles[code]
    if plugin_code := _plugin_codes(tuple(sys.path)).get(code):
        return plugin_code.title

    head, _, kind = code.partition(".")
    kind = clean(kind.replace("_", " "), _LONGEST_CODE)

    if head == "judged":
        return kind
    name = titles.get(head) or clean(head.replace("_", " "), _LONGEST_CODE)
    return f"{name}: {kind}" if kind else name


def sentence(faults: Iterable[Fault]) -> str | None:
    """Return the faults as one line of limited length for `<metric>_reason`, or None without faults."""
    parts: list[str] = []
    length = left_out = 0

    # The first phrase is always kept, however long it is.
    for part in _phrases(faults):
        length += len(part) + 2
        if parts and length > _MOST_REASON:
            left_out += 1
        else:
            parts.append(part)

    if left_out:
        parts.append(f"and {left_out} more")

    text = "; ".join(parts)
    return (text if text.isprintable() else _CONTROL.sub(" ", text)) or None


def _phrases(faults: Iterable[Fault]) -> Iterator[str]:
    """Yield a phrase for each fault, but one for adjacent calls instead of answers (or the opposite).

    Two faults `called_instead_of_answering` give "called f(), g() when it should have answered", and two faults
    `answered_instead_of_calling` also give one phrase.
    """
    # A fault that has its own message gets its own phrase.
    for code, group in groupby(faults, key=lambda fault: fault.code if fault.message is None else ""):
        if code == "called_instead_of_answering":
            yield f"called {_calls([_call(fault.call, fault.actual) for fault in group])} when it should have answered"
        elif code == "answered_instead_of_calling":
            calls = [_call(fault.call, fault.expected, any_of=fault.any_of) for fault in group]
            yield f"answered instead of calling {_calls(calls)}"
        else:
            yield from map(_words, group)


def _words(fault: Fault) -> str:
    """Describe a fault in words: its message, else the phrase for its code with call, place and both values.

    `wrong_argument.number_as_text` with call, path and values gives
    `book_hotel: argument "nights" expected 2, got "2" (number_as_text)`; `missing_call` gives `missing call f(x=1)`.
    Codes without a phrase of their own get the title of the code (`_plain_words`).
    """
    if fault.message is not None:
        return fault.message

    match fault.code:
        case "missing_call":
            return f"missing call {_call(fault.call, fault.expected, any_of=fault.any_of)}"
        case "extra_call" | "call_out_of_order":
            return f"{fault_titles()[fault.code]} {_call(fault.call, fault.actual)}"
        case "misnamed_call" if isinstance(fault.actual, Mapping) and isinstance(fault.expected, Mapping):
            return f"wrong function: {_whole_call(fault.actual)}, expected {_whole_call(fault.expected, fault.any_of)}"
        case "missing_argument" | "wrong_argument.missing":
            return f"{_shown_name(fault)}: missing argument {_shown_path(fault)}, expected {_expected_text(fault)}"
        case "unexpected_argument" | "wrong_argument.unexpected":
            return f"{_shown_name(fault)}: unexpected argument {_shown_path(fault)}, got {shown_value(fault.actual)}"
        case "unknown_function":
            return f"{_shown_name(fault)} is not among the tools"
        # Rounded down, so that 0.4999 below a threshold of 0.5 does not read "is 0.5, below 0.5".
        case "below_threshold.rouge_l" if _is_number(fault.actual) and _is_number(fault.expected):
            return f"ROUGE-L F is {math.floor(fault.actual * 1000) / 1000:g}, below {fault.expected:g}"

    # All other kinds of a wrong argument, such as `wrong_argument.number_as_text`.
    head, _, kind = fault.code.partition(".")
    has_value = not isinstance(fault.expected, _Unset) or not isinstance(fault.actual, _Unset)
    if head == "wrong_argument" and has_value:
        if isinstance(fault.expected, str) and isinstance(fault.actual, str):
            expected, actual = _around_difference(fault.expected, fault.actual)
        else:
            expected, actual = _expected_text(fault), shown_value(fault.actual)
        end = f" ({kind})" if kind else ""
        return f"{_shown_name(fault)}: argument {_shown_path(fault)} expected {expected}, got {actual}{end}"

    return _plain_words(fault)


def _is_number(value: object) -> bool:
    """Return True for a finite number or a bool."""
    return isinstance(value, (int, float)) and abs(value) < math.inf


def _plain_words(fault: Fault) -> str:
    """Describe a fault by its place, the title of its code, and its expected and actual value, if it has them."""
    place = ": ".join(part for part in (fault.call, fault.path) if part)
    text = f"{cut(place, MOST_VALUE)}: {title(fault.code)}" if place else title(fault.code)

    if not isinstance(fault.expected, _Unset):
        text += f", expected {_expected_text(fault)}"
    return text if isinstance(fault.actual, _Unset) else f"{text}, got {shown_value(fault.actual)}"


def shown_value(value: JSON) -> str:
    """Return a value as JSON, cut to a readable length; long lists and objects are only counted."""
    if isinstance(value, str) and len(value) > MOST_VALUE:
        value = value[:MOST_VALUE] + "…"
    elif isinstance(value, (list, dict)) and len(value) > MOST_VALUE:
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value):,} values"

    try:
        return cut(dumps(value).decode("utf-8"), 2 * MOST_VALUE)
    except (TypeError, ValueError):  # nested too deeply, or an integer with more digits than Python converts
        return "a value too large to show"


def cut(text: str, most: int) -> str:
    """Return a text; if it has more than `most` characters, its first `most` and an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}…"


def _calls(calls: Sequence[str]) -> str:
    """Return the first five calls, separated by commas, and the number of the others."""
    text = ", ".join(calls[:_MOST_CHOICES])
    return f"{text} and {len(calls) - _MOST_CHOICES} more" if len(calls) > _MOST_CHOICES else text


def _whole_call(call: Mapping[str, Any], any_of: bool = False) -> str:
    """Return `{"name", "arguments"}` as `name(key=json, …)`. With `any_of`, arguments are lists of accepted values."""
    return _call(call.get("name"), call.get("arguments"), any_of=any_of)


def _call(name: str | None, arguments: object, *, any_of: bool = False) -> str:
    """Return `name(key=json, …)`, cut to a readable length, but with one argument at least.

    With `any_of`, each argument is a list of accepted values, and several of them are shown.
    """
    shown: list[str] = []
    length = 0

    for key, value in arguments.items() if isinstance(arguments, Mapping) else ():
        text = f"{cut(str(key), MOST_VALUE)}={_accepted_values(value) if any_of else shown_value(value)}"
        length += len(text) + 2
        if shown and length > _MOST_CALL:
            shown.append("…")
            break
        shown.append(text)

    return f"{cut(name or '?', MOST_VALUE)}({', '.join(shown)})"


def _shown_name(fault: Fault) -> str:
    """Return the name of the called function for a sentence, or "?" without one."""
    return cut(fault.call or "?", MOST_VALUE)


def _shown_path(fault: Fault) -> str:
    """Return the path of the fault in quotation marks for a sentence."""
    return dumps(cut(fault.path or "", MOST_VALUE)).decode("utf-8")


def _expected_text(fault: Fault) -> str:
    """Return the expected value of a fault as text, or "nothing" if it has none."""
    if isinstance(fault.expected, _Unset):
        return "nothing"
    return _accepted_values(fault.expected) if fault.any_of else shown_value(fault.expected)


def _accepted_values(values: JSON) -> str:
    """Return a list of accepted values as `1 or 2`, without the empty text that marks an optional argument."""
    if not isinstance(values, list):
        return shown_value(values)

    choices = [choice for choice in values if choice != ""] or values
    shown = " or ".join(map(shown_value, choices[:_MOST_CHOICES]))
    return f"{shown} or {len(choices) - _MOST_CHOICES} other values" if len(choices) > _MOST_CHOICES else shown


def _around_difference(expected: str, actual: str) -> tuple[str, str]:
    """Return both texts as JSON; if one has over 80 characters, both begin at most 16 characters before they differ."""
    start = common_beginning(expected, actual) - _BEFORE_DIFFERENCE
    if start <= 0 or max(len(expected), len(actual)) <= MOST_VALUE:
        return shown_value(expected), shown_value(actual)
    return shown_value("…" + expected[start:]), shown_value("…" + actual[start:])


# -- verdicts


def verdict(
    metric: str,
    *,
    score: float | None = None,
    passed: bool | None = None,
    threshold: float | None = None,
    reason: str | None = None,
    status: str = "completed",
    properties: Mapping[str, JSON] | None = None,
    faults: Iterable[Fault] = (),
    not_applicable: bool = False,
) -> Verdict:
    """Return one metric's eight keys, in the order of Azure AI Evaluation's evaluators.

    A verdict that is not applicable has neither score nor pass; its result is "not_applicable", its status "skipped".
    Empty properties are None, to keep rows small. Only a failed row keeps its `faults`: they are added to its
    properties, and give the reason if `reason` is None.
    """
    if not_applicable:
        score, passed, status = None, None, "skipped"

    listed = as_faults(faults) if passed is False else ()
    if listed:
        reason = sentence(listed) if reason is None else reason
        properties = {**(properties or {}), "faults": to_json(listed)}

    return {
        metric: score,
        f"{metric}_score": score,
        f"{metric}_passed": passed,
        f"{metric}_result": _RESULTS[None if passed is None else bool(passed)],
        f"{metric}_reason": reason,
        f"{metric}_status": status,
        f"{metric}_threshold": threshold,
        f"{metric}_properties": dict(properties) if properties else None,
    }


_RESULTS = {True: "pass", False: "fail", None: "not_applicable"}
"""The `<metric>_result` of a verdict by whether it passed."""


# -- codes of faults and causes

Side: TypeAlias = Literal["serving", "unknown", "model"]
"""The side that needs a change: the serving of the model, the model, or unknown."""

CAUSE_METRIC = "cause."
"""Prefix of the metrics that hold a cause's share of all rows."""


class _Table(msgspec.Struct, frozen=True):
    causes: dict[str, plugins.Code]
    faults: dict[str, str]
    cause_of_fault: dict[str, str]


@cache
def _table() -> _Table:
    """Return the causes and fault titles of the core, read once from codes.toml."""
    import tomllib  # imported here, because worker processes do not need it

    text = files(__package__).joinpath("codes.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Table)


def fault_titles() -> Mapping[str, str]:
    """Return the titles of the core's faults by code."""
    return _table().faults


@lru_cache(maxsize=4)
def _plugin_codes(search_path: tuple[str, ...]) -> Mapping[str, plugins.Code]:
    """Return the codes that plug-ins add; cached for each `sys.path`, because every failed row needs the codes."""
    return plugins.codes()


def causes() -> Mapping[str, plugins.Code]:
    """Return every cause by its code: the core's in the order in which they are checked, then plug-ins'."""
    added = _plugin_codes(tuple(sys.path))
    return _table().causes | {code: entry for code, entry in added.items() if entry.side}


def cause_named(code: str) -> plugins.Code:
    """Return the cause with a code; for an unknown code, make a cause on the model's side from the words of the code.

    The made cause has the advice of `wrong_argument.other`.
    """
    if known := _table().causes.get(code) or causes().get(code):
        return known

    return plugins.Code(title(code), "model", _table().causes["wrong_argument.other"].advice)


def cause_of_fault(code: str) -> str:
    """Return the code of the cause that a fault stands for; by default the fault's own code."""
    return _table().cause_of_fault.get(code, code)


def title_of_cause(code: str, title: str) -> str:
    """Return the title of the cause that a fault stands for; if it stands for no cause, return `title`."""
    known = _table().causes.get(cause_of_fault(code)) or causes().get(code)
    return known.title if known else title


def rank_of_cause(code: str) -> int:
    """Return a cause's place in the order in which causes are checked, from 0.

    All codes outside of the core, also those of plug-ins, share the place after the last one.
    """
    ordered = [*_table().causes]
    return ordered.index(code) if code in ordered else len(ordered)


def order_causes(listed: Iterable[str]) -> list[str]:
    """Return codes in the order in which causes are checked; codes outside of the core come last, sorted by text."""
    return sorted(listed, key=lambda code: (rank_of_cause(code), code))


# -- symptoms of failures in answers and errors: cut off, repeating, refusing, asking back, too long


def in_any_case(words: str) -> frozenset[str]:
    """Return the words of a text as they are, in upper case and capitalized."""
    return frozenset(spelling for word in words.split() for spelling in (word, word.upper(), word.capitalize()))


CUT_OFF = in_any_case("length max_tokens max_output_tokens max_new_tokens model_length token_limit")
"""The `finish_reason`s, of all services, for answers that were cut off at the token limit."""

_LOOP = 40
"""Characters at the end of a text that are counted, to recognise an answer that repeats itself."""

_BEGINNING = 300
"""Characters in which a refusal shows: the beginning of the text."""

_END = 4_000
"""Characters of the end of a text that are searched for a question to the user."""

# One sentence with its end mark, in scripts with Latin or Chinese marks, or one line without a mark.
_SENTENCE = r"[^.!?。！？\n]*+[.!?。！？\n]?"
# Matches "content_filter", "Content policy violation" and "ResponsibleAIPolicyViolation".
_FILTER = r"(?i)content[_ ]?(?:filter|policy|management)|ResponsibleAIPolicy"


def repeats_itself(text: str) -> bool:
    """Return True if a text's last 40 characters occur three times or more: more tokens would not help the model."""
    return len(text) > _LOOP and text.count(text[-_LOOP:]) > 2


def error_cause(error: str) -> str:
    """Return the code of the cause that an error's wording shows: `filtered`, `overflow`, else `server_fault`."""
    if re.search(_FILTER, error):
        return "filtered"
    return "overflow" if _patterns()["overflows"].search(error) else "server_fault"


def refuses(text: str) -> bool:
    """Return True if a text begins like a refusal to answer. Services do not mark refusals reliably."""
    return _patterns()["refusals"].match(text.lstrip()[:_BEGINNING]) is not None


def asks_back(text: str) -> bool:
    """Return True if the end of a text asks the user for information.

    An offer such as "Is there anything else?" does not count.
    """
    requests, offers = _patterns()["requests"], _patterns()["offers"]
    sentences = re.findall(_SENTENCE, text[-_END:])
    return any(requests.search(sentence) and not offers.search(sentence) for sentence in sentences)


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Return the expressions of phrases.toml by name, read and compiled once.

    An entry has alternatives (`any`) and the pattern around them (`around`, with `{any}` in their place). `{word}` in
    an alternative is replaced by the spellings of this word in the table `words`.
    """
    import tomllib

    table = tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))
    words, compiled = table.pop("words"), {}

    for name, entry in table.items():
        pattern = "|".join(entry["any"])
        for word, spellings in words.items():
            pattern = pattern.replace(f"{{{word}}}", spellings)
        compiled[name] = re.compile(entry["around"].replace("{any}", pattern))
    return compiled
