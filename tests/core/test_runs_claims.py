"""Chunks of a shared run: who holds one, when it is taken over, and what of it counts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tunecheck import ConfigurationError, RunError
from tunecheck._files import WorkerEntry
from tunecheck._records import sealed
from tunecheck.runs._claims import STALE_S, Claim, Claims, LostLeaseError, Moment, Results
from tunecheck.runs._manifest import check_versions, versions
from tunecheck.storage._address import open_store


class Observer:
    """A process with a clock of its own that sees the shared folder."""

    def __init__(self, folder: Path, name: str, chunks: int = 1) -> None:
        self.now = 1000.0 * len(name)
        self.claims = Claims(open_store(str(folder)), name, lambda: self.now)
        self.claims.prepare([[(number, number + 1)] for number in range(chunks)])

    def claim(self) -> Claim:
        claim = self.claims.claim()
        assert claim is not None
        return claim


def journal(*records: bytes, begin: int = 0) -> bytes:
    return b"".join(sealed(record, number) for number, record in enumerate(records, begin))


HEADER = b'{"k":"journal"}'


def finish(claim: Claim, records: int, rows: int = 1) -> None:
    worker = WorkerEntry(id="w", host="h", versions={}, started="s", ended="e")
    claim.commit(worker, Moment(rows, rows), records, {}, Results())


def test_a_chunk_has_one_owner(tmp_path: Path) -> None:
    one, other = Observer(tmp_path, "one", 2), Observer(tmp_path, "another", 2)
    assert {one.claim().chunk, other.claim().chunk} == {0, 1}
    assert one.claims.claim() is None


def test_a_journal_of_many_segments_is_read_from_one_place(tmp_path: Path) -> None:
    one = Observer(tmp_path, "one")
    claim = one.claim()
    records = [HEADER, *(b'{"k":"row","i":%d}' % number for number in range(20))]
    for number, record in enumerate(records):
        claim.ship(sealed(record, number))
    assert claim.is_scattered
    worker = WorkerEntry(id="w", host="h", versions={}, started="s", ended="e")
    kept = Results(journal=claim.keep("journal", [journal(*records)]))
    claim.commit(worker, Moment(1, 1), len(records), {}, kept)
    shutil.rmtree(tmp_path / "segments")
    assert [*one.claims.records()] == journal(*records).splitlines(keepends=True)[1:]


def test_the_largest_chunk_is_claimed_first(tmp_path: Path) -> None:
    claims = Claims(open_store(str(tmp_path)), "one")
    claims.prepare([[(0, 2)], [(2, 12)], [(12, 16)]])
    assert [claim.size for claim in iter(claims.claim, None)] == [10, 4, 2]


def test_a_lease_that_stands_still_for_its_time_is_taken_over_by_the_observer_s_own_clock(tmp_path: Path) -> None:
    dead, alive = Observer(tmp_path, "dead"), Observer(tmp_path, "alive one")
    dead.claim()
    assert alive.claims.claim() is None  # seen for the first time
    alive.now += STALE_S - 0.1
    assert alive.claims.claim() is None
    alive.now += 0.2
    assert alive.claim().taken_over


def test_a_lease_that_is_renewed_is_not_taken_over(tmp_path: Path) -> None:
    owner, other = Observer(tmp_path, "owner"), Observer(tmp_path, "other one")
    claim = owner.claim()
    for _ in range(5):
        assert other.claims.claim() is None
        claim.renew(Moment())
        other.now += STALE_S - 0.1


def test_an_owner_that_was_taken_for_dead_is_told_when_it_renews(tmp_path: Path) -> None:
    frozen, other = Observer(tmp_path, "frozen"), Observer(tmp_path, "other one")
    claim = frozen.claim()
    other.claims.held()
    other.now += STALE_S + 0.1
    other.claim()
    with pytest.raises(LostLeaseError):
        claim.renew(Moment())


def test_a_released_chunk_is_claimed_at_once(tmp_path: Path) -> None:
    leaving, other = Observer(tmp_path, "leaving"), Observer(tmp_path, "other one")
    leaving.claim().release()
    assert other.claim().taken_over


def test_what_a_dead_process_held_is_released_by_its_name(tmp_path: Path) -> None:
    dead, other = Observer(tmp_path, "host.17.abc"), Observer(tmp_path, "host.18.abc")
    dead.claim()
    other.claims.release("host.17.")
    assert other.claim().taken_over


def test_who_takes_over_goes_on_from_what_was_shipped(tmp_path: Path) -> None:
    dead, other = Observer(tmp_path, "dead"), Observer(tmp_path, "other one")
    claim = dead.claim()
    claim.ship(journal(HEADER, b'{"k":"answer"}'))
    other.claims.release("dead")
    assert other.claim().journal() == journal(HEADER, b'{"k":"answer"}')


def test_what_was_shipped_behind_a_gap_is_asked_again(tmp_path: Path) -> None:
    dead, alive = Observer(tmp_path, "dead"), Observer(tmp_path, "alive one")
    claim = dead.claim()
    for number, record in enumerate((HEADER, b"1", b"2")):
        claim.ship(journal(record, begin=number))
    claim.release()
    (tmp_path / "segments/0/dead.1-1").unlink()
    assert alive.claim().journal() == journal(HEADER)


def test_a_worker_of_a_run_whose_folder_was_removed_does_not_make_it_anew(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    claim = Observer(tmp_path / "run" / "shared", "one").claim()
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(RunError, match="cannot be written"):
        claim.ship(journal(HEADER))
    assert not (tmp_path / "run").exists()


def test_what_a_fenced_owner_ships_does_not_count(tmp_path: Path) -> None:
    frozen, second, third = (Observer(tmp_path, name) for name in ("frozen", "second", "third one"))
    lost = frozen.claim()
    lost.ship(journal(HEADER))
    second.claims.release("frozen")
    claim = second.claim()
    lost.ship(journal(b'{"k":"late"}', begin=1))
    claim.ship(journal(b'{"k":"answer"}', begin=1))
    third.claims.release("second")
    last = third.claim()
    finish(last, records=2)
    assert last.journal() == journal(HEADER, b'{"k":"answer"}')
    assert list(third.claims.records()) == [journal(b'{"k":"answer"}', begin=1)]


def test_a_chunk_is_finished_once(tmp_path: Path) -> None:
    frozen, other = Observer(tmp_path, "frozen"), Observer(tmp_path, "other one")
    late = frozen.claim()
    other.claims.release("frozen")
    claim = other.claim()
    claim.ship(journal(HEADER))
    finish(claim, records=1)
    with pytest.raises(LostLeaseError, match="finished by another"):
        finish(late, records=0, rows=0)
    assert other.claims.finished


@pytest.mark.parametrize(("records", "rows"), [(3, 1), (2, 0)])
def test_a_wrong_count_is_an_error_and_no_smaller_result(tmp_path: Path, records: int, rows: int) -> None:
    one = Observer(tmp_path, "one")
    claim = one.claim()
    claim.ship(journal(HEADER, b'{"k":"answer"}'))
    finish(claim, records, rows)
    with pytest.raises(RunError, match="chunk 0 has"):
        list(one.claims.records())


def test_a_segment_that_is_gone_or_damaged_is_an_error(tmp_path: Path) -> None:
    one = Observer(tmp_path, "one")
    claim = one.claim()
    claim.ship(journal(HEADER, b'{"k":"answer"}'))
    finish(claim, records=2)
    segment = tmp_path / "segments" / "0" / "one.1-0"
    segment.write_bytes(segment.read_bytes().replace(b"answer", b"ANSWER"))
    with pytest.raises(RunError, match="damaged"):
        list(one.claims.records())
    segment.unlink()
    with pytest.raises(RunError, match="is gone"):
        list(one.claims.records())


@pytest.mark.parametrize("name", ["../../private", "/etc/passwd", "segments/0/../../../private-0", "chunks"])
def test_what_others_have_written_down_leads_to_no_other_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "private-0").write_bytes(journal(HEADER, b'{"k":"answer"}'))
    (tmp_path / "runs").mkdir()
    shared = tmp_path / "runs" / "shared"
    one = Observer(shared, "one")
    one.claim().ship(journal(HEADER))
    for file in ("lease/0-1", "done/0"):
        (shared / file).parent.mkdir(exist_ok=True)
        worker = {"id": "w", "host": "h", "versions": {}, "started": "s", "ended": "e"}
        done = {"worker": worker, "moment": {}, "rows": 1, "records": 2, "segments": [name]}
        (shared / file).write_text(json.dumps({"owner": "one", "base": [name]} if "lease" in file else done))
    other = Observer(shared, "another")
    with pytest.raises(RunError, match=r"lease/0-1 is damaged: .*; remove it, and go on"):
        other.claims.held()
    with pytest.raises(RunError, match=r"done/0 is damaged: .*; remove it, and go on"):
        list(other.claims.records())


def test_an_owner_s_name_leads_to_no_other_folder(tmp_path: Path) -> None:
    one = Observer(tmp_path, "one")
    one.claim()
    (tmp_path / "lease" / "0-1").write_text('{"owner": "../../../../.."}')
    with pytest.raises(RunError, match=r"lease/0-1 is damaged: .*; remove it, and go on"):
        Observer(tmp_path, "another").claims.claim()


def test_files_that_are_none_of_the_run_s_change_nothing(tmp_path: Path) -> None:
    one = Observer(tmp_path, "one", 2)
    claim = one.claim()
    claim.ship(journal(HEADER))
    finish(claim, records=1)
    for name in (
        "done/0 (copy)",
        "done/7",
        "done/00",
        "done/01",
        "lease/0-1~",
        "lease/5-5",
        f"segments/{claim.chunk}/one.1-0 (copy)",
    ):
        (tmp_path / name).write_bytes(b"")
    other = Observer(tmp_path, "another")
    assert other.claims.done() == {claim.chunk}
    other.claim().renew(Moment())


def test_how_far_all_are_is_the_sum_of_what_is_done_and_what_is_worked_on(tmp_path: Path) -> None:
    one, other = Observer(tmp_path, "one", 2), Observer(tmp_path, "another", 2)
    first = one.claim()
    first.ship(journal(HEADER))
    finish(first, records=1)
    second = other.claim()
    second.renew(Moment(answered=5, finished=3, failed=1))
    assert one.claims.moment() == Moment(answered=6, finished=4, failed=1)


def test_what_is_cleared_leaves_nothing(tmp_path: Path) -> None:
    one = Observer(tmp_path / "shared", "one")
    one.claim().ship(journal(HEADER))
    one.claims.clear()
    assert not (tmp_path / "shared").exists()


def test_who_comes_when_the_results_are_written_finds_nothing_to_do(tmp_path: Path) -> None:
    late, driver = Observer(tmp_path / "shared", "late"), Observer(tmp_path / "shared", "driver")
    assert not late.claims.finished
    driver.claims.clear()
    assert late.claims.claim() is None
    assert late.claims.finished


def test_a_worker_of_another_version_is_refused() -> None:
    check_versions("r", versions())
    with pytest.raises(ConfigurationError, match="tunecheck 9, here"):
        check_versions("r", {**versions(), "tunecheck": "9"})
