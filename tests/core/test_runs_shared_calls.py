"""Answers of judges that workers buy for each other: bought once, unless whoever buys one is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tunecheck.runs import _shared_calls
from tunecheck.runs._shared_calls import SharedCalls
from tunecheck.storage._address import open_store


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SharedCalls, SharedCalls]:
    monkeypatch.setattr(_shared_calls, "_LOOKED_EVERY_S", 0.005)
    monkeypatch.setattr(_shared_calls, "_PATIENCE_S", 0.1)
    store = open_store(str(tmp_path))
    return SharedCalls(store, "one"), SharedCalls(store, "other")


async def test_an_answer_that_is_being_bought_is_waited_for(workers: tuple[SharedCalls, SharedCalls]) -> None:
    one, other = workers
    assert await one.answer("ab") is None
    waiting = asyncio.create_task(other.answer("ab"))
    await one.settle("ab", {"text": "yes"})
    assert await waiting == {"text": "yes"}
    assert await one.answer("ab") == {"text": "yes"}


async def test_where_one_could_not_buy_it_the_next_one_tries(workers: tuple[SharedCalls, SharedCalls]) -> None:
    one, other = workers
    assert await one.answer("ab") is None
    await one.settle("ab", None)
    assert await other.answer("ab") is None


async def test_nobody_waits_for_ever_for_an_answer_of_the_dead(workers: tuple[SharedCalls, SharedCalls]) -> None:
    dead, other = workers
    assert await dead.answer("ab") is None
    assert await other.answer("ab") is None
