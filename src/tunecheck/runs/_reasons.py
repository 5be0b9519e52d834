"""Why rows failed: the reasons and errors of a run's rows, put into kinds and counted, in one pass and flat memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tunecheck._json import JSON
from tunecheck._messages import clean

MAX_KINDS = 2_000
"""Most different kinds kept for one evaluator; what comes after them is counted as `OTHER`."""

OTHER = "another reason"
BELOW = "below the threshold"
_MOST_READ = 4_000
_LONGEST_KIND = 100

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_NESTED = re.compile(r"(?<=\w)\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_NUMBER = re.compile(r"(?<![\w-])[-+]?\d(?:[\d.,:eE+-]*\d)?(?!\w)|\b[0-9a-f]{8,}\b")

# The wording of our own evaluators (tunecheck.calls._matching.reasons, match), without the names and values in it.
_WORDINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\S+: argument .*\(other\)"), "wrong argument: another value"),
    (re.compile(r"\S+: argument .*\((\w+)\)"), r"wrong argument: \1"),
    (re.compile(r"\S+: (missing|unexpected) argument .*"), r"\1 argument"),
    (re.compile(r"(missing|extra|misnamed) call .*"), r"\1 call"),
    (re.compile(r"call out of order .*"), "call out of order"),
    (re.compile(r"called .* when it should have answered"), "called when it should have answered"),
    (re.compile(r"answered when it should have called .*"), "answered when it should have called"),
    (re.compile(r"ROUGE-L F is …, below …"), "ROUGE-L F below the threshold"),
    (re.compile(r"\S+ is not among the tools"), "called a function that is not among the tools"),
    (re.compile(r"\S+ breaks its schema: .*"), "a call breaks its schema"),
)
_CALL_FOR_TEXT = re.compile(r"the response calls .*; (its text beside|there is no text).*")  # the text metrics' words


@dataclass(slots=True)
class Kind:
    """One kind of failure: how many rows, one of them, and the words it came in there."""

    rows: int
    example: str
    words: str

    def label(self, kind: str) -> str:
        """What to call it: in its one row's own words, values and all, where the kind is but these without them."""
        own = self.rows == 1 and kind == _as_kind(_without_values(self.words))
        return clean(self.words, _LONGEST_KIND) if own else kind


@dataclass(slots=True)
class Failures:
    """What went wrong in a run.

    `failed` counts the rows that each evaluator failed, `reasons` why, by kind; `errors` holds the errors by stage
    (`target`, or an evaluator's name); `simulated_answers` the rows whose answer no model gave.
    """

    failed: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, dict[str, Kind]] = field(default_factory=dict)
    errors: dict[str, dict[str, Kind]] = field(default_factory=dict)
    simulated_answers: int = 0


def read_failures(rows: Iterable[Mapping[str, JSON]], primaries: Mapping[str, str | None]) -> Failures:
    """Read a run's rows once; `primaries` has each evaluator's main metric, where it declares one."""
    failures = Failures()
    for row in rows:
        row_id = str(row.get("row_id"))
        failures.simulated_answers += row.get("outputs.simulated") is True
        for name, primary in primaries.items():
            _note_verdict(failures, row, row_id, name, primary)
        for key, error in row.items():
            if key.startswith("error.") and isinstance(error, dict):
                _note_error(failures, key.removeprefix("error."), error, row_id)
    return failures


def _note_verdict(failures: Failures, row: Mapping[str, JSON], row_id: str, name: str, primary: str | None) -> None:
    metric = _failed_metric(row, name, primary)
    if metric is None:
        return
    failures.failed[name] = failures.failed.get(name, 0) + 1
    kinds = failures.reasons.setdefault(name, {})
    reason = row.get(f"{metric}_reason")
    words = reason if isinstance(reason, str) else ""
    as_data = (*_kinds_by_property(row.get(f"{metric}_properties")), *_kinds_judged(row.get(f"{metric}_differences")))
    # A judge's own words are as many as there are rows.
    found = dict.fromkeys((*as_data, *(() if row.get(f"{metric}_differences") else fault_kinds(words))))
    if not found and isinstance(row.get(f"{metric}_threshold"), (int, float)):
        found = {BELOW: None}
    for kind in found:
        _count(kinds, kind, row_id, words)


def _failed_metric(row: Mapping[str, JSON], name: str, primary: str | None) -> str | None:
    """The beginning of the evaluator's columns, up to its main metric, if the row failed by that."""
    for metric in (primary, name):
        result = row.get(f"outputs.{name}.{metric}_result")
        if result is not None:
            return f"outputs.{name}.{metric}" if result == "fail" else None
    own = f"outputs.{name}."
    found = next((key for key in row if key.startswith(own) and key.endswith("_result")), None)
    return found.removesuffix("_result") if found is not None and row[found] == "fail" else None


def _kinds_by_property(properties: JSON) -> Iterator[str]:
    """Kinds of wrong arguments, where the evaluator gives them as data."""
    wrong = properties.get("wrong") if isinstance(properties, dict) else None
    for kind in wrong if isinstance(wrong, dict) else ():
        if kind in ("missing", "unexpected"):
            yield f"{kind} argument"
        else:
            yield f"wrong argument: {'another value' if kind == 'other' else kind.replace('_', ' ')}"


def _kinds_judged(differences: JSON) -> Iterator[str]:
    """The kinds of differences that a judge lists."""
    for difference in differences if isinstance(differences, list) else ():
        kind = difference.get("kind") if isinstance(difference, dict) else None
        if isinstance(kind, str):
            yield clean(kind, _LONGEST_KIND)


def fault_kinds(reason: str) -> list[str]:
    """The kinds of faults that a reason lists, names and values left out; one kind where its wording is not known."""
    return [*_fault_kinds(reason[:_MOST_READ])]


@lru_cache(maxsize=64)  # several evaluators of one row often give the same reason
def _fault_kinds(reason: str) -> tuple[str, ...]:
    text = _without_values(reason)
    if _CALL_FOR_TEXT.fullmatch(text):
        return ("called when it should have answered",)
    kinds = [_known_kind(fault) for fault in text.split("; ")]
    known = [kind for kind in kinds if kind is not None]
    return tuple(known) if len(known) == len(kinds) else (_as_kind(text),) if text.strip() else ()


def _as_kind(text: str) -> str:
    """A kind's name where the wording is not known: the words themselves."""
    return clean(text, _LONGEST_KIND)


def _known_kind(fault: str) -> str | None:
    for wording, kind in _WORDINGS:
        if wording.fullmatch(fault):
            return wording.sub(kind, fault).replace("_", " ")
    return None


def _without_values(text: str) -> str:
    text = _QUOTED.sub("…", text)
    for _ in range(4):  # innermost brackets first; deeper nesting than this stays as it is
        text, found = _NESTED.subn(lambda match: "(…)" if match[0].startswith("(") else "…", text)
        if not found:
            break
    return _NUMBER.sub("…", text)


def _note_error(failures: Failures, stage: str, error: Mapping[str, JSON], row_id: str) -> None:
    words = f"{error.get('type')}: {error.get('message')}"
    plain = words.replace(row_id, "…") if len(row_id) > 2 else words
    _count(failures.errors.setdefault(stage, {}), clean(_without_values(plain[:_MOST_READ]), 200), row_id, words)


def _count(kinds: dict[str, Kind], kind: str, row_id: str, words: str) -> None:
    if kind not in kinds and len(kinds) >= MAX_KINDS:
        kind = OTHER
    known = kinds.get(kind)
    if known is None:
        kinds[kind] = Kind(1, row_id, words[:_MOST_READ])
    else:
        known.rows += 1
