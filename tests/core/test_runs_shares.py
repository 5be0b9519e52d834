"""What workers share of a run's limits and budget: never more in sum than there is, and nothing of the dead is lost."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tunecheck.runs._claims import STALE_S
from tunecheck.runs._shares import FencedError, Needs, Share, SharedLimits, Shares
from tunecheck.storage._address import open_store


class Process:
    """A process with a clock of its own that sees the shared folder."""

    def __init__(self, folder: Path, name: str, most: float | None = None) -> None:
        self.now = 1000.0 * len(name)
        self.limits = SharedLimits(open_store(str(folder)), name, lambda: self.now)
        if most is not None:
            self.limits.prepare(most)

    @property
    def shares(self) -> Shares:
        return self.limits.read()[0]

    def renew(self, chunk: int, needs: Needs | None = None) -> Share:
        shares, version = self.limits.read()
        renewed = self.limits.renewed(shares, chunk, needs or Needs(least_part=0.01))
        assert self.limits.swap(renewed, version)
        self.limits.entered(chunk)
        return renewed.workers[self.limits.owner]

    def leave(self, chunk: int, needs: Needs, *, finished: bool = True) -> None:
        shares, version = self.limits.read()
        assert self.limits.swap(self.limits.left(shares, chunk, needs, finished=finished), version)
        self.limits.entered(None)


def pair(folder: Path, most: float | None = None) -> tuple[Process, Process]:
    first = Process(folder, "first", most)
    first.limits.prepare(most)
    return first, Process(folder, "another")


def test_two_workers_come_to_half_of_the_limits_each_and_have_never_more_than_all(tmp_path: Path) -> None:
    one, other = pair(tmp_path)
    assert one.renew(0).part == 1.0
    assert other.renew(1).part == 0.0  # until the first one gives half of it back
    assert one.renew(0).part == 0.5
    assert other.renew(1).part == 0.5


def test_a_worker_that_has_no_chunk_leaves_its_part_to_the_others(tmp_path: Path) -> None:
    one, other = pair(tmp_path)
    one.renew(0)
    other.leave(1, Needs())
    one.leave(0, Needs())
    assert other.renew(1).part == 1.0


def test_the_part_of_a_dead_worker_is_given_out_when_its_time_is_over_by_the_observer_s_clock(tmp_path: Path) -> None:
    dead, other = pair(tmp_path)
    dead.renew(0)
    assert other.renew(1).part == 0.0
    other.now += STALE_S - 0.1
    assert other.renew(1).part == 0.0
    other.now += 0.2
    assert other.renew(1).part == 1.0


def test_of_a_limit_that_is_too_small_for_all_some_have_a_part_of_use(tmp_path: Path) -> None:
    one, other = pair(tmp_path)
    needs = Needs(least_part=0.6)
    one.renew(0, needs)
    other.renew(1, needs)
    assert one.renew(0, needs).part == 0.6
    assert other.renew(1, needs).part == 0.0


def test_where_there_are_many_workers_each_part_holds_longer(tmp_path: Path) -> None:
    """As long as all of them take to swap the object, a fifth of a second each."""
    others = {f"w{number}": Share(chunk=number) for number in range(1_000)}
    one = Process(tmp_path, "one")
    assert one.limits.renewed(Shares(workers=others), 1_000, Needs()).workers["one"].lasts_s == 200
    assert one.limits.renewed(Shares(), 1_000, Needs()).workers["one"].lasts_s == STALE_S


def test_what_was_written_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    one, other = pair(tmp_path)
    shares, version = one.limits.read()
    other.renew(1)
    assert not one.limits.swap(one.limits.renewed(shares, 0, Needs()), version)


SPENT = Needs(spent=3.0, held=3.0, least=4.0, wanted=10.0)


def test_money_is_granted_once_and_what_is_not_needed_is_given_back(tmp_path: Path) -> None:
    one, other = pair(tmp_path, 10.0)
    assert one.renew(0, SPENT).money == 6.5  # half of what is left
    assert other.renew(1, SPENT).starved
    assert one.renew(0, SPENT).money <= 6.0
    assert other.renew(1, SPENT).money >= 4.0
    assert other.shares.granted() <= 10.0


def test_money_for_one_more_call_is_all_that_counts_at_the_end(tmp_path: Path) -> None:
    one, other = pair(tmp_path, 7.5)
    assert one.renew(0, SPENT).money >= 4.0
    assert other.renew(1, SPENT).starved


def test_it_is_over_only_when_nobody_has_anything_to_give_back(tmp_path: Path) -> None:
    one, other = pair(tmp_path, 6.5)
    one.renew(0, replace(SPENT, held=3.5))
    assert other.renew(1, SPENT).starved
    assert not other.limits.exhausted(other.shares)
    assert one.renew(0, SPENT).starved  # 0.5 are left, and the next call may cost 1
    assert one.limits.exhausted(one.shares)
    assert other.limits.exhausted(other.shares)


def test_what_a_finished_chunk_has_cost_stays_spent_and_the_rest_is_free(tmp_path: Path) -> None:
    one, other = pair(tmp_path, 10.0)
    one.renew(0, SPENT)
    one.leave(0, SPENT)
    assert other.shares.granted() == 3.0


def test_a_dead_worker_s_money_stays_reserved_until_what_it_recorded_is_read(tmp_path: Path) -> None:
    dead, heir = pair(tmp_path, 10.0)
    granted = dead.renew(0, SPENT).money
    heir.now += 10 * STALE_S
    nothing_read = heir.renew(0, Needs())
    assert nothing_read.money + nothing_read.unread == pytest.approx(granted)
    read = Needs(spent=3.0, read=3.0, held=3.0)  # what the dead one spent, as its segments say
    assert heir.renew(0, read).unread == pytest.approx(granted - 3.0)
    heir.leave(0, read)
    assert heir.shares.granted() == pytest.approx(granted)  # the rest may be spent on calls that nobody recorded
    assert heir.shares.lost == pytest.approx(granted - 3.0)


def test_what_was_spent_on_a_chunk_that_was_left_in_order_is_counted_once(tmp_path: Path) -> None:
    one, heir = pair(tmp_path, 10.0)
    one.renew(0, SPENT)
    one.leave(0, SPENT, finished=False)
    assert heir.shares.granted() == 3.0
    read = Needs(spent=3.0, read=3.0, held=3.0)
    heir.renew(0, read)
    heir.leave(0, read)
    assert (heir.shares.granted(), heir.shares.lost) == (3.0, 0.0)


def test_a_worker_that_was_taken_for_dead_gets_nothing_more_for_its_chunk(tmp_path: Path) -> None:
    frozen, heir = pair(tmp_path, 10.0)
    frozen.renew(0, SPENT)
    heir.renew(0, Needs())
    with pytest.raises(FencedError):
        frozen.renew(0, SPENT)
    before = heir.shares.granted()
    frozen.leave(0, SPENT)
    assert heir.shares.granted() == before
    frozen.renew(1, Needs())  # and goes on with another one


@dataclass
class Spender:
    """A worker as its budget sees it, which spends all that it is granted."""

    limits: SharedLimits
    chunk: int
    spent: float
    read: float
    granted: float = 0.0


@pytest.mark.parametrize("seed", range(5))
def test_whatever_workers_do_they_spend_no_more_than_there_is(tmp_path: Path, seed: int) -> None:
    rng, shares, really_spent, store = random.Random(seed), Shares(most=20.0), 0.0, open_store(str(tmp_path))
    recorded = dict.fromkeys(range(500), 0.0)
    workers, chunks, orphaned = list[Spender](), iter(recorded), list[int]()
    for step in range(400):
        if len(workers) < 3:
            chunk = orphaned.pop() if orphaned else next(chunks)
            workers.append(Spender(SharedLimits(store, f"w{step}"), chunk, recorded[chunk], recorded[chunk]))
        worker, cost, chance = rng.choice(workers), rng.uniform(0.01, 0.3), rng.random()
        needs = Needs(worker.spent, worker.read, worker.spent, worker.spent + cost, worker.spent + 3 * cost)
        if chance < 0.8:
            shares = worker.limits.renewed(shares, worker.chunk, needs)
            worker.limits.entered(worker.chunk)
            worker.granted = shares.workers[worker.limits.owner].money
            if worker.spent + cost <= worker.granted:
                worker.spent += cost
                really_spent += cost
                recorded[worker.chunk] += cost if rng.random() < 0.95 else 0.0
            continue
        workers.remove(worker)
        if chance < 0.9 and worker.granted:
            shares = worker.limits.left(shares, worker.chunk, needs, finished=True)
        else:  # it dies, and another goes on with its chunk
            orphaned.append(worker.chunk)
        assert really_spent <= 20.0
    assert really_spent > 12.0
