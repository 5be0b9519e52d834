"""2,000 conversations with the eight built-in services: BFCL's own checker passes the ground truth of each, too."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checks.bfcl_verdicts import judged_by_the_reference
from tests.authoring_parts import authored, calls_of, lines, passes

from tunecheck import FunctionCall
from tunecheck.plugins import JSON

EIGHT = (
    *("GorillaFileSystem", "MathAPI", "MessageAPI", "TicketAPI", "TradingBot", "TravelAPI", "TwitterAPI"),
    "VehicleControlAPI",
)
TASKS = int(os.environ.get("TUNECHECK_AUTHORED_TASKS", "2000"))
SAMPLE = 20


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """All rows, variants too; the card is shown."""
    folder = tmp_path_factory.mktemp("authored")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        report = authored("eight", EIGHT, tasks=TASKS, turns="2-4", seed=16)
    print((folder / "datasets/eight.card.md").read_text())
    assert report.variants["base"] == TASKS
    return lines(folder / "datasets/eight.jsonl")


@pytest.mark.timeout(1800)
def test_the_references_own_checker_passes_the_ground_truth_of_every_row(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    cases = [
        _case(row, [[[{each.name: json.dumps(each.arguments)}] for each in turn] for turn in calls_of(row)])
        for row in rows
    ]
    idle = [_case(row, [[] for _ in row["ground_truth"]]) for row in rows]
    verdicts = judged_by_the_reference([*cases, *idle], tmp_path)
    judged = [(row, said) for row, said in zip(rows, verdicts[: len(rows)], strict=True) if not _shares_mentions(row)]
    assert len(judged) > 0.95 * len(rows)
    wrong = [(row["id"], said) for row, said in judged if not said[0]]
    assert not wrong, wrong[:10]
    passed = [row["id"] for row, said in zip(rows, verdicts[len(rows) :], strict=True) if said[0]]
    assert not passed, passed[:10]


def _shares_mentions(row: dict[str, Any]) -> bool:
    """Whether a tweet without mentions gets some later: the reference keeps them in a default of `post_tweet`.

    All accounts share that list, so that the same calls have another result when they are made once more.
    """
    calls = [call for turn in calls_of(row) for call in turn]
    posts = any(call.name == "post_tweet" and "mentions" not in call.arguments for call in calls)
    return posts and any(call.name == "mention" for call in calls)


def _case(row: dict[str, Any], result: list[Any]) -> dict[str, Any]:
    entry = {"id": row["id"], "question": row["turns"], "initial_config": row["initial_config"]}
    return {
        "id": row["id"],
        "category": "multi_turn_base",
        "mode": "tools",
        "entry": {**entry, "involved_classes": row["involved_classes"], "path": [], "function": []},
        "answer": row["ground_truth"],
        "result": result,
    }


@pytest.mark.timeout(1800)
def test_any_call_left_out_or_of_another_value_fails_by_the_evaluator_that_users_have(
    rows: list[dict[str, Any]],
) -> None:
    for row in rows[::SAMPLE]:
        turns = calls_of(row)
        assert passes(row, turns), row["id"]
        for number, turn in enumerate(turns):
            for at, call in enumerate(turn):
                for instead in ([], *([other] for other in _others(call))):
                    changed = [*turns[:number], [*turn[:at], *instead, *turn[at + 1 :]], *turns[number + 1 :]]
                    assert not passes(row, changed), (row["id"], call, instead)


def _others(call: FunctionCall) -> Iterator[FunctionCall]:
    """The call of another function, and with another value in the place of each argument that has a plain one."""
    yield FunctionCall(f"{call.name}_all", call.arguments)
    for name, value in call.arguments.items():
        if isinstance(value, bool):
            other: JSON = not value
        elif isinstance(value, (int, float)):
            other = value + 7
        elif isinstance(value, str):
            other = f"not {value}"
        else:
            continue
        yield FunctionCall(call.name, {**call.arguments, name: other})
