"""A memory test's own log, as a row of a report shows it: what was said, waited for, and judged."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TypeGuard

from tunecheck.plugins import JSON, counted
from tunecheck.report import as_json, cut

_MOST_ENTRIES = 300
_MOST_TEXT = 6_000
_MOST_WORDS = 200


def is_test_log(value: JSON) -> bool:
    """Whether a column holds the log of a memory test."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and first.get("what") == "begin" and moment_of(first) is not None


def moment_of(entry: Mapping[str, JSON]) -> tuple[int, int, str] | None:
    """Where in its conversation an entry stands: messages and tokens before it, and when; None where it is unsaid."""
    message, tokens, at = entry.get("message"), entry.get("tokens"), entry.get("at")
    if not _is_count(message) or not _is_count(tokens) or not isinstance(at, str):
        return None
    return message, tokens, at[:40]


def _is_count(value: JSON) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def shown_log(log: JSON) -> list[JSON]:
    """The entries as `[what, where, [[speaker, text], …], note]`."""
    entries = [entry for entry in log if isinstance(entry, dict)] if isinstance(log, list) else []
    shown = [_entry(entry) for entry in entries[:_MOST_ENTRIES]]
    if len(entries) > _MOST_ENTRIES:
        shown.append(["", "", [], f"and {len(entries) - _MOST_ENTRIES:,} more entries"])
    return shown


def _entry(entry: Mapping[str, JSON]) -> JSON:
    what = str(entry.get("what"))[:40]
    moment = moment_of(entry)
    at = moment[2].removesuffix("Z").replace("T", " ") if moment is not None else ""
    where = "" if moment is None else f"message {moment[0]:,} · {moment[1]:,} tokens · {at}"
    return [what, where, [*_said(what, entry)], cut("; ".join(_notes(entry)), _MOST_WORDS)]


def _said(what: str, entry: Mapping[str, JSON]) -> Iterator[JSON]:
    said, reply = entry.get("said"), entry.get("reply")
    if isinstance(said, str):
        yield ["test", cut(said, _MOST_TEXT)]
    if what == "judge":
        yield ["test", cut(f"{entry.get('purpose')}: {as_json(entry.get('values'))}", _MOST_TEXT)]
    if isinstance(thought := entry.get("reasoning"), str):
        yield ["reasoning", cut(thought, _MOST_TEXT)]
    if isinstance(reply, str):
        yield ["judge" if what == "judge" else "agent", cut(reply, _MOST_TEXT)]


def _notes(entry: Mapping[str, JSON]) -> Iterator[str]:
    tokens, seconds, size = entry.get("for_tokens"), entry.get("for_seconds"), entry.get("size")
    if _is_count(tokens) and tokens:
        yield f"for {counted(tokens, 'token')}"
    if _is_count(seconds) and seconds:
        yield f"for {_duration(seconds)}"
    if entry.get("adopted") is True:
        yield "the agent took the reply that was suggested"
    if entry.get("declined") is True:
        yield "the agent's service declined to answer"
    if _is_count(size):
        yield f"{counted(size, 'token')} with the reply"


def _duration(seconds: int) -> str:
    try:
        return str(timedelta(seconds=seconds))
    except OverflowError:
        return f"{seconds:,} s"


def last_question(log: JSON) -> str | None:
    """What the test asked last."""
    for entry in reversed(log) if isinstance(log, list) else ():
        if isinstance(entry, dict) and entry.get("what") == "question" and isinstance(entry.get("said"), str):
            return str(entry["said"])
    return None
