"""An authored set scored as users score theirs: served agents that are right, err in known ways, or do nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.authoring_parts import calls_of, lines, passes
from tests.serve_parts import serving

from tunecheck import FunctionCall
from tunecheck.calls._model import write_calls
from tunecheck.cli._app import main
from tunecheck.datasets._reading import open_dataset
from tunecheck.endpoints import load_endpoint
from tunecheck.episodes import leaves
from tunecheck.simulators._backend import Backends
from tunecheck_serve._conversations import RowAnswers

Row = dict[str, Any]

CAUSES = {
    "left out": {"missing_call", "answered_instead_of_calling", "skipped_lookup", "gave_up"},
    "other value": {
        "unfounded_value",
        "against_state",
        *(f"wrong_argument.{kind}" for kind in ("other", "close_wording")),
    },
    "other function": {"wrong_function", "unknown_function", "against_state"},
}
"""By mistake, what may be said to be the cause of a failed row."""


def carelessly(rows: list[Row]) -> tuple[list[Row], dict[str, list[str]]]:
    """The ground truth of a model that errs in every fourth row, in each way in turn; and which rows those are."""
    wrong: dict[str, list[str]] = {mistake: [] for mistake in CAUSES}
    answers = []
    openings = [str(row["turns"][0]) for row in rows]  # the served agent knows rows by what is said
    for at, row in enumerate(rows):
        turns = calls_of(row)
        mistake = [*CAUSES][at // 4 % len(CAUSES)]
        place = next(
            ((turn, call) for turn, calls in enumerate(turns) for call in calls if _holds_text(call.arguments)), None
        )
        if at % 4 == 0 and place is not None and openings.count(openings[at]) == 1:
            turn, call = place
            wrong[mistake].append(row["id"])
            turns[turn] = [
                each for made in turns[turn] for each in ([made] if made is not call else _mistaken(call, mistake))
            ]
        texts = [[str(write_calls([call], "bfcl_text"))[1:-1] for call in calls] for calls in turns]
        answers.append({**row, "ground_truth": texts})
    return answers, wrong


def _holds_text(value: object) -> bool:
    return any(isinstance(each, str) for each in leaves(value))


def _mistaken(call: FunctionCall, mistake: str) -> list[FunctionCall]:
    if mistake == "left out":
        return []
    if mistake == "other function":
        return [FunctionCall(f"{call.name}_now", call.arguments)]
    name = next(name for name, value in call.arguments.items() if _holds_text(value))
    return [FunctionCall(call.name, {**call.arguments, name: _other(call.arguments[name])})]


def _other(value: Any) -> Any:
    """The value with another first text in it."""
    if isinstance(value, str):
        return "tangerine"
    places = enumerate(value) if isinstance(value, list) else value.items()
    at = next(at for at, each in places if _holds_text(each))
    changed = value.copy()
    changed[at] = _other(value[at])
    return changed


def evaluated(name: str, rows: list[Row], answers: list[Row]) -> dict[str, str | None]:
    """By row, why a served agent that calls what these answers hold failed it; None where it passed."""
    for file, content in ((name, rows), (f"{name}-answers", answers)):
        Path("datasets", f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    sidecar = "target: conversation\nevaluators: [multi_turn_state]\n"
    Path("datasets", f"{name}.yaml").write_text(sidecar)
    known = open_dataset(f"datasets/{name}-answers.jsonl").rows()
    Path("endpoints").mkdir(exist_ok=True)
    with serving(RowAnswers(load_endpoint({"kind": "simulated", "rates": {}}), known, Backends())) as url:
        Path("endpoints/agent.yaml").write_text(f"{{kind: openai, url: '{url}/v1', model: any, auth: {{type: none}}}}")
        assert main(["evaluate", "--dataset", f"{name}.jsonl", "--endpoint", "agent", "--name", name]) == 0
    (folder,) = Path("eval_results").glob(f"{name}-*")
    done = lines(folder / "eval_results.jsonl")
    failed = {row["row_id"] for row in done if row["outputs.multi_turn_state.multi_turn_state_result"] != "pass"}
    assert failed == {row["row_id"] for row in done if row["cause"] is not None}
    return {row["row_id"]: row["cause"] for row in done}


def prove(name: str, rows: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    """See that the right calls pass, nothing else does, and that the audit is sure of no finding.

    The data set is `datasets/NAME.jsonl` of the current folder.
    """
    for row in rows:
        assert passes(row, calls_of(row)), row["id"]
        assert not passes(row, [[] for _ in row["ground_truth"]]), row["id"]
    assert main(["check", f"{name}.jsonl"]) == 0
    base = [row for row in rows if row["variant"] == "base"]
    right = evaluated("right", base, base)
    assert right == dict.fromkeys(right, None), "who calls what is right passes all"
    careless, wrong = carelessly(base)
    causes = evaluated("careless", base, careless)
    assert {row for row, cause in causes.items() if cause is not None} == {
        row for rows in wrong.values() for row in rows
    }
    for mistake, expected in CAUSES.items():
        assert {causes[row] for row in wrong[mistake]} <= expected, mistake
    idle = evaluated("idle", base, [{**row, "ground_truth": [[] for _ in row["ground_truth"]]} for row in base])
    assert None not in idle.values(), "who calls nothing passes nothing"
    capsys.readouterr()
    assert main(["datasets", "audit", f"datasets/{name}.jsonl", "--json"]) in (0, 3)
    audit = json.loads(capsys.readouterr().out)
    sure = [each for each in audit["findings"] if each["certainty"] == "sure"]
    assert not sure, sure[:5]
