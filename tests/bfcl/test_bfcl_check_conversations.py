"""One conversation against its ground truth, on a lamp: the state after every turn, results, error types."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_check_parts import Lamp, Row, check_conversation, lamp_row, plain, steps
from tests.tables import cases

from tunecheck import DataError, MultiTurnStateEvaluator
from tunecheck.episodes import Episode, RowVerdict, Services

LAMPS = Services({"Lamp": Lamp})

VALID = (True, None)
ON = ("switch", {"on": True})
OFF = ("switch", {"on": False})
LOOK: tuple[str, Row] = ("look", {})

both_modes = pytest.mark.parametrize("compat", [True, False], ids=["bfcl", "strict"])


def judged(row: Row, result: object, *, compat: bool, **more: Any) -> RowVerdict:
    return check_conversation(row, result, compat=compat, services=LAMPS, **more)


@cases("bfcl")
def test_a_conversation_about_a_lamp_gets_the_expected_verdict(
    row: Row, result: object, mode: Any, bfcl: Row | None, strict: Row | None
) -> None:
    """A line names what the verdicts of the leaderboard and of the strict mode hold; null: not said here."""
    for compat, wanted in ((True, bfcl), (False, strict)):
        if wanted is not None:
            verdict = judged(row, result, compat=compat, mode=mode)
            assert {name: getattr(verdict, name) for name in wanted} == wanted


@cases("bfcl")
def test_what_a_row_says_of_its_judging_has_one_form(columns: Row, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        judged(lamp_row(["look()"], **columns), [steps(LOOK)], compat=False)


@both_modes
@pytest.mark.parametrize(("by", "words"), [("step_limit", "step limit was reached"), ("overflow", "no longer fits")])
def test_what_ended_a_conversation_is_said_beside_what_is_wrong(by: str, words: str, compat: bool) -> None:
    episode = Episode.of_columns(calls_made=[[["switch(on=True)"], []]], forced_quit=True, ended_by=by)
    verdict = judged(lamp_row(["switch(on=True)"], ["look()"]), [steps(ON)], compat=compat, episode=episode)
    assert plain(verdict) == (False, "multi_turn:force_terminated")
    assert [(fault.code, fault.turn) for fault in verdict.faults] == [("forced_quit", 1), (by, 1)]
    assert words in str(verdict.reason)


@both_modes
def test_an_answer_that_was_cut_off_is_said_up_to_the_turn_that_failed(compat: bool) -> None:
    row = lamp_row(["switch(on=True)"], ["switch(on=False)"])
    cases: list[tuple[Any, list[str]]] = [
        ([["length"], ["stop"]], ["empty_turn", "cut_off"]),
        ([["stop"], ["length"]], ["empty_turn"]),
        ("stop", ["empty_turn"]),
    ]
    for reasons, said in cases:
        verdict = judged(row, [["I"], steps(OFF)], compat=compat, episode=Episode.of_columns(finish_reasons=reasons))
        assert [fault.code for fault in verdict.faults] == said
    assert (
        judged(
            row, [steps(ON), steps(OFF)], compat=compat, episode=Episode.of_columns(finish_reasons=[["length"]])
        ).faults
        == ()
    )


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        (["switch(on=True)"], VALID),
        (["switch(on=False)"], (False, "multi_turn:instance_state_mismatch")),
        ([], (False, "multi_turn:empty_turn_model_response")),
    ],
)
def test_strictly_calls_are_those_that_were_made_and_not_what_would_be_read_today(texts: Any, verdict: Any) -> None:
    for step in ("```python\nswitch(on=True)\n```", [{"switch": '{"on": true}'}]):
        episode = Episode.of_columns(calls_made=[[texts]])
        assert plain(judged(lamp_row(["switch(on=True)"]), [[step]], compat=False, episode=episode)) == verdict


@cases("bfcl")
def test_a_row_that_is_no_conversation_says_which_column(columns: Row, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        judged({**lamp_row(["look()"]), **columns}, [[]], compat=False)


def test_a_row_with_long_context_says_how_to_get_the_constants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="tunecheck bfcl get"):
        judged(lamp_row(["look()"], long_context=True), [steps(LOOK)], compat=False)


@cases("bfcl")
def test_the_evaluator_gives_error_type_and_turn_beside_the_reason(row: Row, properties: Row) -> None:
    result = [steps(("pwd", {})), steps(("mkdir", {"dir_name": "b"}))]
    found: Row = dict(MultiTurnStateEvaluator()(result=result, **row))
    assert found["multi_turn_state"] == 0.0
    why = 'mkdir: argument "dir_name" expected "a", got "b" (other)'
    assert found["multi_turn_state_reason"] == f"GorillaFileSystem.root.w.a is missing; expected {{}}; {why}"
    assert found["multi_turn_state_properties"] == properties
    right = MultiTurnStateEvaluator()(result=[*result[:1], steps(("mkdir", {"dir_name": "a"}))], **row)
    assert right["multi_turn_state_result"] == "pass"


def test_the_signature_of_the_evaluator_names_its_columns() -> None:
    parameters = inspect.signature(MultiTurnStateEvaluator()).parameters
    assert {"result", "ground_truth", "involved_classes", "id"} <= parameters.keys()
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert {*inspect.signature(MultiTurnStateEvaluator).parameters} >= {"compat", "mode"}
