"""Conversations of two published runs and those of the ground truth; test_bfcl_check_scoring has all verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from tests.bfcl_check_parts import (
    CONVERSATIONS,
    as_text,
    as_tools,
    check_conversation,
    entries,
    published,
    read_call,
    services,
)

from tunecheck.episodes import CallMode, GroundTruth, deviations
from tunecheck_bfcl._dialect import LeaderboardAttempt


@pytest.mark.parametrize("compat", [True, False])
def test_a_failing_published_row_says_what_is_wrong(shared_data: Path, compat: bool) -> None:
    for path, category, _ in published(shared_data, conversations=True):
        for line in path.read_text("utf-8").splitlines()[:40]:
            record = json.loads(line)
            row = entries(category)[record["id"]]
            verdict = check_conversation(row, record["result"], compat=compat, services=services(), mode="tools")
            assert verdict.valid or verdict.message, record["id"]
            if verdict.error_type in ("multi_turn:instance_state_mismatch", "multi_turn:execution_response_mismatch"):
                assert verdict.turn is not None
                assert verdict.causes, record["id"]


@pytest.mark.parametrize("mode", ["tools", "text"])
@pytest.mark.parametrize("category", CONVERSATIONS)
def test_no_ground_truth_conversation_fails_against_itself(category: str, mode: CallMode) -> None:
    unreadable = 0
    for row in entries(category).values():
        turns = [[read_call(text) for text in turn] for turn in _truth(row)]
        if any(call is None for turn in turns for call in turn):
            unreadable += 1
            continue
        write = as_tools if mode == "tools" else as_text
        result = [[write([call]) for call in turn if call] for turn in turns]
        verdict = check_conversation(row, result, compat=True, services=services(), mode=mode)
        assert verdict.valid, (row["id"], verdict)
    # Some calls of that category are not Python, and no model can make them; they are replayed in the next test.
    assert unreadable == (16 if category == "multi_turn_composite" else 0)


def test_the_ground_truth_of_every_conversation_replayed_twice_gives_the_same_results_and_states() -> None:
    rows = [row for category in CONVERSATIONS for row in entries(category).values()]
    assert len(rows) == 1_000
    for row in rows:
        entry = GroundTruth.read(row)
        one, other = (LeaderboardAttempt(services(), entry, role="model") for _ in range(2))
        for turn in entry.turns:
            for item in turn:
                assert [result.text for result in one.make_truth(item)] == [
                    result.text for result in other.make_truth(item)
                ]
            assert not [*deviations(one.backend.states(), other.backend.states())], row["id"]


@pytest.mark.parametrize("category", [name for name in CONVERSATIONS if name != "multi_turn_composite"])
def test_no_ground_truth_conversation_fails_strictly(category: str) -> None:
    for row in entries(category).values():
        calls = [[call for text in turn if (call := read_call(text))] for turn in _truth(row)]
        result = [[as_tools([call]) for call in turn] for turn in calls]
        verdict = check_conversation(row, result, compat=False, services=services())
        assert verdict.valid, (row["id"], verdict)


def _truth(row: Mapping[str, object]) -> list[list[str]]:
    truth = row["ground_truth"]
    assert isinstance(truth, list)
    return cast("list[list[str]]", truth)
