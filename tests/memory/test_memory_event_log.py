"""The event log of a session: recorded events are read back exactly, torn or not, and damage is reported."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.pipeline_parts import strict_lines
from tests.tables import cases

from tunecheck import ConfigurationError, RunError
from tunecheck._records import seal_record
from tunecheck.plugins import dumps, loads
from tunecheck_memory import (
    Begin,
    Consult,
    Deregister,
    Effect,
    End,
    Jump,
    Outcome,
    Points,
    Register,
    ResetAgent,
    Send,
    SuiteReset,
    Waiting,
)
from tunecheck_memory._events import EventLog, to_data

MADE_OF: dict[str, Any] = {"tests": "a", "clock": "virtual"}

texts = st.text(st.characters(codec=None), max_size=20)
whole = st.integers(0, 2**60)
numbers = st.floats(0, 1e9, allow_nan=False)
effects = st.one_of(
    st.builds(Send, texts, texts, st.booleans(), st.none() | texts, st.lists(whole, max_size=5).map(tuple)),
    st.builds(Consult, texts, texts, st.dictionaries(texts, st.none() | texts | whole)),
    st.builds(Begin, texts, whole),
    st.builds(End, texts, st.none() | st.builds(Points, numbers, numbers, st.lists(texts, max_size=3).map(tuple))),
    st.builds(Waiting, texts, whole, whole),
    st.builds(Register, texts),
    st.builds(Deregister, texts),
    st.builds(ResetAgent, texts),
    st.builds(Jump, whole),
    st.just(SuiteReset()),
)
outcomes = st.builds(
    Outcome,
    whole,
    st.none() | texts,
    st.none() | numbers,
    st.none() | whole,
    st.none() | whole,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def log_in(folder: Path, made_of: dict[str, Any] = MADE_OF) -> EventLog:
    return EventLog(folder / "session-1" / "events.jsonl", 1_000, made_of)


def path_in(folder: Path) -> Path:
    return folder / "session-1" / "events.jsonl"


def written(folder: Path) -> Path:
    """A log of three events, the last of them in flight."""
    log = log_in(folder)
    log.intend(Send("", "Hello?", draws=(3, 1)), "k0", 1_000)
    log.done(Outcome(2_000, "Yes."))
    log.did(Begin("Colours - 0", 4), Outcome(2_000))
    log.intend(Send("Colours - 0", "Red."), "k2", 2_000)
    log.close()
    return path_in(folder)


@given(effects)
def test_an_effect_comes_back_as_it_was(effect: Effect) -> None:
    assert msgspec.convert(loads(dumps(to_data(effect))), Effect) == effect


@given(outcomes)
def test_an_outcome_comes_back_as_it_was(outcome: Outcome) -> None:
    assert msgspec.convert(loads(dumps(to_data(outcome))), Outcome) == outcome


def test_each_record_is_strict_json_on_a_line_of_its_own(tmp_path: Path) -> None:
    kinds = [record["k"] for record in strict_lines(written(tmp_path))]
    assert kinds == ["session", "do", "done", "did", "do"]


def test_a_log_that_is_taken_up_has_the_events_of_before(tmp_path: Path) -> None:
    written(tmp_path)
    log = log_in(tmp_path)
    log.close()
    assert [event.effect for event in log.recorded] == [
        Send("", "Hello?", draws=(3, 1)),
        Begin("Colours - 0", 4),
        Send("Colours - 0", "Red."),
    ]
    assert [event.outcome for event in log.recorded] == [Outcome(2_000, "Yes."), Outcome(2_000), None]
    assert (log.recorded[-1].key, log.recorded[-1].at_us) == ("k2", 2_000)


def test_the_clock_of_a_log_that_is_taken_up_began_when_it_was_begun(tmp_path: Path) -> None:
    written(tmp_path)
    log = EventLog(path_in(tmp_path), 77_000, MADE_OF)
    log.close()
    assert log.start_us == 1_000


def test_a_log_torn_at_any_byte_keeps_every_whole_record(tmp_path: Path) -> None:
    raw = written(tmp_path).read_bytes()
    ends = [at + 1 for at, byte in enumerate(raw) if byte == ord("\n")]
    for cut in sorted({*range(0, len(raw) + 1, 7), *(end + near for end in ends for near in (-1, 0))}):
        path_in(tmp_path).write_bytes(raw[:cut])
        path_in(tmp_path).with_suffix(".synced").unlink(missing_ok=True)  # it was torn before it could be synced
        log = log_in(tmp_path)
        log.close()
        whole_records = sum(end <= cut for end in ends)
        assert len(log.recorded) == [0, 0, 1, 1, 2, 3][whole_records]
        assert path_in(tmp_path).read_bytes().count(b"\n") == max(1, whole_records)


@cases("memory")
def test_a_log_begun_with_something_else_is_refused(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    written(tmp_path)
    with pytest.raises(ConfigurationError, match=f"session-1: the session was started with {named}; .*--fresh"):
        log_in(tmp_path, changed)
    log_in(tmp_path).close()


@pytest.mark.parametrize(
    "record",
    [
        b"no json",
        b"17",
        b'{"k":"did","n":9,"effect":{"do":"suite_reset"},"outcome":{"at":1}}',
        b'{"k":"did","n":2,"effect":{"do":"jumps"},"outcome":{"at":1}}',
        b'{"k":"did","n":2,"effect":{"do":"jump","until":"x"},"outcome":{"at":1}}',
        b'{"k":"did","n":2,"effect":{"do":"jump","until":3},"outcome":{}}',
        b'{"k":"did","n":2,"effect":{"do":"end","test":"x","points":{"points":true}},"outcome":{"at":1}}',
        b'{"k":"do","n":2,"effect":{"do":"jump","until":3}}',
        b'{"k":"done","n":1,"outcome":{"at":1}}',
        b'{"k":"what"}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_record_is_named_by_its_line(tmp_path: Path, record: bytes) -> None:
    lines = written(tmp_path).read_bytes().split(b"\n")
    path_in(tmp_path).write_bytes(b"\n".join([*lines[:4], record, b""]))
    with pytest.raises(RunError, match=r"events\.jsonl: .* \(line 5\).*--accept-damage .*--fresh"):
        log_in(tmp_path)


@pytest.mark.parametrize("first", [b"{}", b'{"k":"session","start":"x"}'])
def test_a_file_that_is_no_event_log_is_refused(tmp_path: Path, first: bytes) -> None:
    path_in(tmp_path).parent.mkdir()
    path_in(tmp_path).write_bytes(seal_record(first, 0))
    with pytest.raises(RunError, match="at byte 0 cannot be read"):
        log_in(tmp_path)


def test_an_outcome_without_its_call_is_refused(tmp_path: Path) -> None:
    log_in(tmp_path).close()
    outcome = seal_record(b'{"k":"done","n":0,"outcome":{"at":1}}', 1)
    path_in(tmp_path).write_bytes(path_in(tmp_path).read_bytes() + outcome)
    with pytest.raises(RunError, match=r"the record at byte \d+ cannot be read"):
        log_in(tmp_path)


def test_a_log_of_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path_in(tmp_path).parent.mkdir()
    content = seal_record(b'{"k":"session","format_version":9,"start":1,"made_of":{}}', 0) + b'{"torn'
    path_in(tmp_path).write_bytes(content)
    with pytest.raises(
        ConfigurationError, match=r"events\.jsonl: a newer Tunecheck wrote this file \(format_version 9; .*up"
    ):
        log_in(tmp_path)
    assert path_in(tmp_path).read_bytes() == content
