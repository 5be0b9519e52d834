"""The journal: what is in it is never lost and never doubled, whatever breaks off or is damaged."""

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.pipeline_parts import fail, script, strict_lines
from tests.platforms import posix_only

from tunecheck import ConfigurationError, RunError
from tunecheck.pipeline import CachedResults, Journal, JournalReader
from tunecheck.plugins import Failure, is_held, lock

HEADER = b'{"k":"journal","format_version":1'
EMPTY = HEADER + b',"c":[0,%d]}\n' % zlib.crc32(HEADER)
"""A journal in which nothing is recorded yet."""


def hashed(number: int) -> str:
    return f"{number:016x}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def write(path: Path, *rows: int, **more: Any) -> None:
    """A journal with an answer and two verdicts of each row."""
    journal = Journal(path)
    for row in rows:
        journal.answer(row, f"r{row}", hashed(row), {"response": f"answer {row}", **more})
        journal.verdicts([(row, {"e": (hashed(100 + row), {"n": row}), "closure": (None, {"n": -row})})])
    journal.close()


def recorded(
    path: Path, *, by_row: bool = True, evaluators: tuple[str, ...] = ("e",), answers: bool = True
) -> JournalReader:
    return JournalReader(path, by_row=by_row, evaluators=frozenset(evaluators), answers=answers)


def answers_in(path: Path, count: int, **options: Any) -> list[int]:
    """The rows with an answer in the journal."""
    found = recorded(path, **options)
    present = [row for row in range(count) if found.answer(row, hashed(row)) is not None]
    found.close()
    return present


@pytest.mark.parametrize("by_row", [True, False])
def test_what_was_recorded_is_found_under_its_inputs_and_no_others(path: Path, by_row: bool) -> None:
    write(path, 0, 1, 2)
    found = recorded(path, by_row=by_row)
    assert found.answer(1, hashed(1)) == {"response": "answer 1"}
    assert found.verdict("e", 1, hashed(101)) == {"n": 1}
    assert found.answer(1, hashed(9)) is found.answer(10**9, hashed(9)) is None
    others = [("e", hashed(109)), ("e", None), ("other", hashed(101))]
    assert [found.verdict(evaluator, 1, inputs) for evaluator, inputs in others] == [None] * 3


def test_the_parts_of_an_unfinished_answer_are_found_by_their_names_under_its_inputs(path: Path) -> None:
    journal = Journal(path)
    parts: list[tuple[str, Any]] = [("turn 1", [1]), ("turn 2", {"a": None}), ("turn 1", [2])]
    for part, value in parts:
        journal.step(0, "r0", hashed(0), part, value)
    journal.step(0, "r0", hashed(9), "turn 3", "other inputs")
    journal.step(1, "r1", hashed(0), "turn 4", "another row")
    journal.close()
    found = recorded(path)
    assert found.steps(0, hashed(0)) == {"turn 1": [2], "turn 2": {"a": None}}
    assert found.steps(2, hashed(0)) == {}
    found.close()


def test_by_row_an_answer_without_a_hash_is_found_by_its_row(path: Path) -> None:
    journal = Journal(path)
    journal.answer(3, "r3", None, {"response": 1})
    journal.close()
    assert recorded(path).answer(3, None) == {"response": 1}
    assert recorded(path, by_row=False).answer(3, None) is None


def test_verdicts_without_a_hash_are_never_taken_over(path: Path) -> None:
    write(path, 0)
    assert recorded(path, evaluators=("closure",)).verdict("closure", 0, None) is None


def test_what_may_not_be_taken_over_is_not_found(path: Path) -> None:
    write(path, 0)
    assert recorded(path, answers=False).answer(0, hashed(0)) is None
    assert recorded(path, evaluators=()).verdict("e", 0, hashed(100)) is None


def test_the_last_record_of_a_row_counts(path: Path) -> None:
    write(path, 0)
    journal = Journal(path)
    journal.answer(0, "r0", hashed(0), {"response": "again"})
    journal.close()
    assert recorded(path).answer(0, hashed(0)) == {"response": "again"}


def test_of_rows_with_equal_inputs_each_gets_its_own_answer(path: Path) -> None:
    journal = Journal(path)
    for row in (2, 0, 1):  # in the order in which they were answered
        journal.answer(row, f"r{row}", hashed(7), {"response": row})
    journal.close()
    found = recorded(path, by_row=False)
    assert [found.answer(row, hashed(7)) for row in (0, 1, 2)] == [{"response": 0}, {"response": 1}, {"response": 2}]


def test_of_more_rows_with_equal_inputs_than_were_recorded_the_last_answer_serves_the_rest(path: Path) -> None:
    journal = Journal(path)
    for row in (0, 1):
        journal.answer(row, f"r{row}", hashed(7), {"response": row})
    journal.close()
    found = recorded(path, by_row=False)
    answers = [found.answer(row, hashed(7)) for row in (5, 6, 7, 8)]
    assert answers[:2] == [{"response": 0}, {"response": 1}]
    assert answers[2:] == [{"response": 1}] * 2


def test_many_equal_rows_take_no_time_square(path: Path) -> None:
    journal = Journal(path)
    journal.verdicts([(row, {"e": (hashed(7), {"n": row})}) for row in range(30_000)])
    journal.close()
    found = recorded(path, by_row=False)
    assert [found.verdict("e", row, hashed(7)) for row in range(30_000)] == [{"n": row} for row in range(30_000)]


def test_records_are_strict_json_a_line_each(path: Path) -> None:
    journal = Journal(path)
    journal.answer(0, "id\n\u2028\ud83d", hashed(0), {"response": "a\nb\0\ud83d", "n": float("nan"), "big": 2**70})
    journal.error(1, "r1", "target", Failure("X", "\ud83d"))
    journal.verdicts([])
    journal.verdicts([(1, {})])
    journal.close()
    header, first, second = strict_lines(path)
    assert header.items() >= {"format_version": 1, "k": "journal"}.items()
    assert first["out"] == {"response": "a\nb\0\ud83d", "n": None, "big": 2**70}
    assert second["stage"] == "target"


def test_records_that_the_fast_reader_refuses_are_found_all_the_same(path: Path) -> None:
    journal = Journal(path)
    journal.answer(0, "\ud83d", hashed(0), {"response": "\ud83d", "big": 2**70})
    journal.verdicts([(0, {"e": (hashed(100), {"reason": "\ud83d"})})])
    journal.close()
    found = recorded(path)
    assert found.answer(0, hashed(0)) == {"response": "\ud83d", "big": 2**70}
    assert found.verdict("e", 0, hashed(100)) == {"reason": "\ud83d"}


def test_a_last_line_torn_at_any_byte_is_cut_off_and_the_rest_is_whole(path: Path) -> None:
    write(path, 0, 1)
    whole = path.read_bytes()
    end = whole[:-1].rindex(b"\n") + 1
    write(path, 2)
    longer = path.read_bytes()
    assert longer.startswith(whole)
    for cut in range(end, len(longer)):
        path.write_bytes(longer[:cut])
        Journal(path).close()
        kept = path.read_bytes()
        assert kept == longer[: longer.rindex(b"\n", 0, cut) + 1]
        assert answers_in(path, 3) == ([0, 1, 2] if cut >= longer.rindex(b'{"k":"verdicts"') else [0, 1])


def test_a_torn_first_line_leaves_an_empty_journal(path: Path) -> None:
    path.write_bytes(b'{"k":"answer","i":0')
    Journal(path).close()
    assert path.read_bytes() == EMPTY


@pytest.mark.parametrize("torn", [b"", b'{"k":"answ'])
def test_a_journal_of_a_later_version_is_refused_and_left_as_it_is(path: Path, torn: bytes) -> None:
    path.write_bytes(content := b'{"format_version":2,"k":"journal"}\n' + torn)
    for read in (Journal, recorded):
        with pytest.raises(
            ConfigurationError, match=r"a newer Tunecheck wrote this file \(format_version 2; .*: update"
        ):
            read(path)
    assert path.read_bytes() == content


def test_a_torn_line_longer_than_a_block_is_cut_off(path: Path) -> None:
    write(path, 0)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"k":"answer","out":"' + b"x" * 200_000)
    write(path, 1)
    assert path.read_bytes().startswith(whole)
    assert answers_in(path, 2) == [0, 1]


def test_a_reader_leaves_a_torn_line_alone(path: Path) -> None:
    write(path, 0, 1)
    path.write_bytes(path.read_bytes()[:-5])
    before = path.read_bytes()
    assert answers_in(path, 2) == [0, 1]
    assert path.read_bytes() == before


DAMAGE = [
    b"\0" * 40,
    b"not json",
    b"\xff\xfe",
    b"[]",
    b"3",
    b"null",
    b'{"k":"answer"}',
    b'{"k":"answer","i":-1,"h":"00","out":{}}',
    b'{"k":"answer","i":"x","h":"00","out":{}}',
    b'{"k":"answer","i":99999999999999999999,"h":"00","out":{}}',
    b'{"k":"answer","i":1099511627776,"h":"0000000000000001","out":{}}',
    b'{"k":"answer","i":1,"h":"zz","out":[]}',
    b'{"k":"answer","i":1,"h":7,"out":{}}',
    b'{"k":"answer","i":1,"h":"0000000000000001","out":"text"}',
    b'{"k":"verdicts","rows":7}',
    b'{"k":"verdicts","rows":[[-5,{"e":["00",{}]}]]}',
    b'{"k":"verdicts","rows":[[0,{"e":["00"]}]]}',
    b'{"k":"verdicts","rows":[[1099511627776,{"e":["00",{}]}]]}',
    b'{"k":"unheard of","i":0}',
    b"[" * 5000,
    b"9" * 10_000,
    b"",
]


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
@pytest.mark.parametrize("by_row", [True, False])
def test_a_damaged_line_in_the_middle_costs_nothing_but_itself(path: Path, damage: bytes, by_row: bool) -> None:
    write(path, 0)
    with path.open("ab") as file:
        file.write(damage + b"\n")
    write(path, 2)
    found = recorded(path, by_row=by_row)
    assert found.answer(0, hashed(0)) == {"response": "answer 0"}
    assert found.answer(2, hashed(2)) == {"response": "answer 2"}
    assert found.verdict("e", 2, hashed(102)) == {"n": 2}
    assert found.answer(1, hashed(1)) in (None, {})


@given(st.data())
def test_a_journal_damaged_anywhere_is_read_without_a_crash(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    write(path, 0, 1, 2)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    path.write_bytes(bytes(raw))
    for by_row in (True, False):
        found = recorded(path, by_row=by_row)
        for row in range(3):
            assert isinstance(found.answer(row, hashed(row)), (dict, type(None)))
            assert isinstance(found.verdict("e", row, hashed(100 + row)), (dict, type(None)))
        found.close()


def test_a_journal_that_is_not_there_is_said(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the run's records cannot be read"):
        recorded(path)


@contextmanager
def held_elsewhere(path: Path, *, beside: bool = False) -> Iterator[None]:
    """A journal that another process holds, which is killed in the end; `beside`: by a lock as on Windows."""
    script = f"""if True:
        import sys
        from pathlib import Path
        from tunecheck import _disk
        from tunecheck._records import Journal
        _disk._BESIDE = _disk._BESIDE or {beside}
        Journal(Path(sys.argv[1]))
        print('held', flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.kill()


def test_a_second_writer_in_the_same_process_is_refused(path: Path) -> None:
    journal = Journal(path)
    assert is_held(path)
    with pytest.raises(RunError, match=f"another process is writing the run {path.parent.name}"):
        Journal(path)
    journal.close()
    assert not is_held(path)
    Journal(path).close()


def test_a_second_writer_in_another_process_is_refused_until_the_first_is_gone(path: Path) -> None:
    with held_elsewhere(path):
        assert is_held(path)
        with pytest.raises(RunError, match="another process"):
            Journal(path)
    assert not is_held(path)
    Journal(path).close()


def test_somebody_who_only_looks_whether_it_is_held_does_not_keep_a_writer_out(path: Path) -> None:
    path.touch()
    looking = lock(path, "")
    release = threading.Timer(0.03, looking.close)
    release.start()
    Journal(path).close()
    release.join()


@pytest.fixture
def locked_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows no other process can read a locked file."""
    monkeypatch.setattr("tunecheck._disk._BESIDE", True)


@pytest.mark.usefixtures("locked_beside")
def test_a_lock_beside_the_journal_keeps_a_second_writer_out_and_no_reader(path: Path) -> None:
    write(path, 0)
    journal = Journal(path)
    assert is_held(path)
    with pytest.raises(RunError, match="another process is writing"):
        Journal(path)
    assert answers_in(path, 1) == [0]
    journal.close()
    assert not is_held(path)


@pytest.mark.usefixtures("locked_beside")
def test_a_lock_file_that_a_killed_process_left_holds_nothing(path: Path) -> None:
    with held_elsewhere(path, beside=True):
        assert is_held(path)
    assert path.with_name("journal.jsonl.lock").exists()
    assert not is_held(path)
    Journal(path).close()


def test_whether_it_is_held_is_seen_in_a_folder_where_nothing_can_be_written(path: Path) -> None:
    journal = Journal(path)
    path.chmod(0o444)
    assert is_held(path)
    journal.close()
    assert not is_held(path)


def test_a_journal_that_nobody_wrote_is_not_held(path: Path) -> None:
    assert not is_held(path)


def test_a_folder_that_cannot_be_written_is_said(path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot be written: Not a directory|No such file"):
        Journal(path / "not" / "there")


def disk_with_room_for(most: int) -> Callable[[int, bytes], int]:
    """`os.write` to a disk that takes so many bytes at once, and then nothing."""
    real, parts = os.write, iter([most])

    def write(descriptor: int, data: bytes) -> int:
        for room in parts:
            return real(descriptor, bytes(data)[:room])
        raise OSError(errno.ENOSPC, "No space left on device")

    return write


def test_a_disk_that_fills_within_a_record_leaves_no_torn_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes a part of a record, then nothing, then again everything: what came later must be whole."""
    journal = Journal(path)
    journal.answer(0, "r0", hashed(0), {"response": 0})
    monkeypatch.setattr("tunecheck._records.os.write", disk_with_room_for(20))
    with pytest.raises(RunError, match=r"No space left on device \(its earlier records are kept"):
        journal.answer(1, "r1", hashed(1), {"response": 1})
    monkeypatch.undo()
    journal.answer(2, "r2", hashed(2), {"response": 2})
    journal.close()
    assert [record["i"] for record in strict_lines(path)[1:]] == [0, 2]


def test_a_record_that_cannot_be_taken_back_is_the_last_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path)
    monkeypatch.setattr("tunecheck._records.os.write", disk_with_room_for(10))
    error = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr("tunecheck._records.os.ftruncate", lambda *_: fail(error))
    with pytest.raises(RunError, match="No space left on device"):
        journal.answer(0, "r0", hashed(0), {"response": 0})
    monkeypatch.undo()
    with pytest.raises(RunError, match="a part of an earlier record could not be removed"):
        journal.answer(1, "r1", hashed(1), {"response": 1})
    journal.close()
    Journal(path).close()
    assert path.read_bytes() == EMPTY


def test_a_writer_of_a_few_bytes_at_a_time_gets_whole_records(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr("tunecheck._records.os.write", lambda fd, data: real(fd, bytes(data)[:3]))
    write(path, 0, 1)
    monkeypatch.undo()
    assert answers_in(path, 2) == [0, 1]


FILLS_UP = """
    import resource, signal, sys
    from pathlib import Path
    from tunecheck import evaluate
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    data = [{"id": f"r{n}", "q": n} for n in range(2000)]
    target = lambda q: {"response": f"answer {q} " + "x" * 100}
    try:
        evaluate(data=data, target=target, evaluators={"e": lambda response: 1}, results_dir=sys.argv[1],
                 resume=sys.argv[3] if len(sys.argv) > 3 else None, workers=0)
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("finished")
"""


@posix_only
def test_a_run_on_a_disk_that_is_really_full_stops_in_order_and_goes_on_later(tmp_path: Path) -> None:
    def run(limit: int, *resume: str) -> str:
        done = script(tmp_path, FILLS_UP, tmp_path / "runs", limit, *resume)
        assert not done.stderr, done.stderr
        return done.stdout.strip()

    said = run(60_000)
    assert said.startswith("RunError run rows-")
    assert "File too large (its earlier records are kept); go on with the same Python call and resume=" in said
    (folder,) = (tmp_path / "runs").iterdir()
    before = strict_lines(folder / "journal.jsonl")
    assert len(before) > 100
    assert run(50_000_000, "last") == "finished"
    answered = [record["i"] for record in strict_lines(folder / "journal.jsonl") if record["k"] == "answer"]
    assert sorted(answered) == list(range(2000)), "an answer was asked for twice, or never"


def test_a_run_s_own_journal_comes_before_its_parent_s(tmp_path: Path) -> None:
    own, parent = tmp_path / "own.jsonl", tmp_path / "parent.jsonl"
    write(own, 0, mark="own")
    write(parent, 0, 1, mark="parent")
    cached = CachedResults(recorded(own), recorded(parent, by_row=False))
    assert cached.answer(0, hashed(0)) == ({"response": "answer 0", "mark": "own"}, False, True, True)
    assert cached.answer(1, hashed(1)) == ({"response": "answer 1", "mark": "parent"}, True, True, True)
    assert cached.answer(2, hashed(2)) is None
    assert cached.verdict("e", 1, hashed(101)) == ({"n": 1}, True, True, True)
    cached.close()


def test_a_session_knows_what_it_recorded_itself_and_where_it_failed(path: Path) -> None:
    write(path, 0)
    since = path.stat().st_size
    late, wrong = Failure("TimedOutError", "late", "id-1", "timed_out"), Failure("ValueError", "no", place="f.py:3")
    journal = Journal(path)
    journal.error(1, "r1", "target", late)
    journal.error(0, "r0", "e", wrong)
    journal.close()
    write(path, 2, 70)
    found = JournalReader(path, by_row=True, evaluators=frozenset({"e"}), answers=True, since=since)
    assert [found.failure(1, "target"), found.failure(0, "e")] == [late, wrong]
    assert found.failure(0, "target") is found.failure(1, "e") is found.failure(1, "f") is None
    assert [found.is_new(row) for row in (0, 1, 2, 70)] == [False, False, True, True]
    assert [found.is_new(row, "e") for row in (0, 2)] == [False, True] and not found.is_new(2, "f")
    assert ([*found.answered()], found.answer_hash(70), found.answer_hash(1)) == ([0, 2, 70], hashed(70), None)
    assert (recorded(path).failure(0, "e"), recorded(path).is_new(2)) == (None, False), "of an earlier session"
    assert [*recorded(path, by_row=False).answered()] == []


def test_a_run_that_takes_over_nothing_is_quick_to_say_so() -> None:
    cached = CachedResults()
    assert not cached
    assert cached.answer(0, hashed(0)) is cached.verdict("e", 0, hashed(0)) is None


def test_the_journal_is_not_inherited_by_processes_that_the_run_starts(path: Path) -> None:
    """Else a child that outlives the run would keep the lock."""
    journal = Journal(path)
    child = multiprocessing.get_context("spawn").Process(target=os.getpid)
    child.start()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as other:
        journal.close()
        assert not is_held(path)
        assert other.stdin is not None
        other.stdin.close()
    child.join()
