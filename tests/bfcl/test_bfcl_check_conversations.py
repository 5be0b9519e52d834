"""One conversation against its ground truth, on a lamp: the state after every turn, results, error types."""

from typing import Any

import pytest
from tests.bfcl_check_parts import Lamp, Row, as_text, as_tools, check_conversation, lamp_row, plain, steps
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


def note(text: object) -> tuple[str, Row]:
    return "note", {"text": text}


@both_modes
def test_the_same_calls_in_other_steps_are_right(compat: bool) -> None:
    row = lamp_row(["switch(on=True)", "look()"], ["note(text='a')"])
    for turn in ([as_tools([ON, LOOK])], steps(ON, LOOK)):
        assert plain(judged(row, [turn, steps(note("a"))], compat=compat)) == VALID


@both_modes
def test_another_way_to_the_same_state_and_results_is_right(compat: bool) -> None:
    row = lamp_row(["switch(on=True)"])
    assert plain(judged(row, [steps(LOOK, ON, OFF, ON)], compat=compat)) == VALID


@both_modes
def test_another_state_after_a_turn_is_named_with_both_values(compat: bool) -> None:
    row = lamp_row(["look()"], ["switch(on=True)", "note(text='a')"])
    verdict = judged(row, [steps(LOOK), steps(ON, note("b"))], compat=compat)
    assert verdict == RowVerdict(False, "multi_turn:instance_state_mismatch", 1, "Lamp.notes[0] is 'b'; expected 'a'")


@both_modes
def test_what_is_there_too_much_or_too_little_is_named_by_its_path(compat: bool) -> None:
    row = lamp_row(["set_up(settings={'warm': 1, 'dim': 2})"])
    lacking = judged(row, [steps(("set_up", {"settings": {"warm": 1}}))], compat=compat)
    assert lacking.message == "Lamp.settings.dim is missing; expected 2"
    other = judged(row, [steps(("set_up", {"settings": {"warm": 1, "dim": 2, "x y": 3}}))], compat=compat)
    assert other.message == "Lamp.settings['x y'] is 3; expected missing"


@both_modes
def test_lists_that_are_equal_as_far_as_the_shorter_one_goes_differ_in_their_first_item_more(compat: bool) -> None:
    row = lamp_row(["note(text='a')", "note(text='b')"])
    shorter = judged(row, [steps(note("a"))], compat=compat)
    assert shorter.message == "Lamp.notes[1] is missing; expected 'b'"
    assert shorter.path == "Lamp.notes[1]"
    longer = judged(row, [steps(note("a"), note("b"), note("c"), note("d"))], compat=compat)
    assert longer.message == "Lamp.notes[2] is 'c'; expected missing"
    emptied = judged(lamp_row(["note(text=['a', []])"]), [steps(note(["a"]))], compat=compat)
    assert emptied.message == "Lamp.notes[0][1] is missing; expected []"


@both_modes
def test_work_that_is_done_a_turn_too_early_is_wrong_in_that_turn(compat: bool) -> None:
    row = lamp_row(["look()"], ["switch(on=True)"])
    verdict = judged(row, [steps(LOOK, ON), steps(LOOK)], compat=compat)
    assert (*plain(verdict), verdict.turn) == (False, "multi_turn:instance_state_mismatch", 0)


@both_modes
def test_a_result_that_the_model_never_had_is_missing(compat: bool) -> None:
    verdict = judged(lamp_row(["look()", "look()"]), [steps(LOOK)], compat=compat)
    message = """missing the result '{"on": false}'"""
    assert verdict == RowVerdict(False, "multi_turn:execution_response_mismatch", 0, message)
    both = judged(lamp_row(["look()", "look()"]), [steps(("fly", {}))], compat=compat)
    assert both.message == f"{message} (and 1 more)"


@both_modes
def test_a_turn_without_calls_is_wrong_where_the_ground_truth_makes_some(compat: bool) -> None:
    row = lamp_row(["look()"], ["switch(on=True)"])
    turns: list[object] = [[], [[]], ["I did it."], "I did it.", {}]
    for turn in turns:
        verdict = judged(row, [steps(LOOK), turn], compat=compat, mode="tools")
        assert (*plain(verdict), verdict.turn) == (False, "multi_turn:empty_turn_model_response", 1)


@both_modes
def test_a_turn_that_asks_for_no_call_is_right_without_one(compat: bool) -> None:
    row = lamp_row([], ["switch(on=True)"])
    assert plain(judged(row, [["Which lamp?"], steps(ON)], compat=compat)) == VALID


@both_modes
def test_fewer_turns_than_there_are_mean_that_the_conversation_was_ended(compat: bool) -> None:
    row = lamp_row(["look()"], ["look()"], ["look()"])
    verdict = judged(row, [steps(LOOK), steps(LOOK)], compat=compat)
    assert (*plain(verdict), verdict.turn) == (False, "multi_turn:force_terminated", 1)
    assert verdict.message == "2 turns were recorded; the ground truth has 3"
    assert plain(judged(row, [steps(LOOK)] * 4, compat=compat)) == (False, "multi_turn:force_terminated")


@both_modes
@pytest.mark.parametrize("result", ["Error during inference: 500", None, {}, 5])
def test_a_result_that_is_no_list_was_an_error(result: object, compat: bool) -> None:
    assert plain(judged(lamp_row(["look()"]), result, compat=compat)) == (False, "multi_turn:inference_error")


@both_modes
@pytest.mark.parametrize("mode", ["tools", "text"])
def test_calls_come_as_data_or_as_text(mode: Any, compat: bool) -> None:
    write: Any = as_tools if mode == "tools" else as_text
    row = lamp_row(["switch(on=True)"], ["note(text='a, b')"])
    result = [[write([ON])], [write([note("a, b")])]]
    assert plain(judged(row, result, compat=compat, mode=mode)) == VALID
    assert plain(judged(row, result, compat=compat)) == VALID


@pytest.mark.parametrize("free", ["read_only", ["look", "note"]])
def test_a_row_lets_functions_be_called_where_no_call_is_asked_for(free: Any) -> None:
    refused = (False, "multi_turn:irrelevance_error")
    row = lamp_row([], ["switch(on=True)"])
    assert plain(judged(row, [steps(LOOK), steps(ON)], compat=False)) == refused
    row = {**row, "free_calls": free}
    assert plain(judged(row, [steps(LOOK), steps(ON)], compat=False)) == VALID
    assert not judged(row, [steps(ON), steps(ON)], compat=False).valid
    assert not judged(row, [steps(note("x")), steps(ON)], compat=False).valid


def test_a_row_is_judged_by_its_last_state_alone() -> None:
    row = lamp_row(["switch(on=True)"], [], ["look()"], final_state_only=True)
    assert plain(judged(row, [[], steps(ON), ["It is on."]], compat=False)) == VALID
    wrong = judged(row, [steps(ON), steps(OFF), ["It is off."]], compat=False)
    assert (*plain(wrong), wrong.turn) == (False, "multi_turn:instance_state_mismatch", 2)


def test_another_ground_truth_of_the_row_may_be_followed() -> None:
    row = lamp_row(["switch(on=True)"], alternative_ground_truths=[[["note(text='a')"]], [["note(text='b')"]]])
    for calls, valid in (([ON], True), ([note("a")], True), ([note("b")], True), ([note("c")], False)):
        assert judged(row, [steps(*calls)], compat=False).valid is valid


def test_paths_in_the_state_that_the_row_ignores_are_not_compared() -> None:
    row = lamp_row(["switch(on=True)"], ignored_state=["Lamp.notes"])
    assert plain(judged(row, [steps(ON, note("x"))], compat=False)) == VALID
    wrong = judged(row, [steps(note("x"), OFF)], compat=False)
    assert wrong.path == "Lamp.on"
    assert not judged({**row, "ignored_state": ["Lamp.note"]}, [steps(ON, note("x"))], compat=False).valid


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


@both_modes
def test_the_ground_truth_may_stand_in_another_format(compat: bool) -> None:
    call = {"type": "function", "function": {"name": "switch", "arguments": '{"on": true}'}}
    for item in (call, {"name": "switch", "arguments": {"on": True}}, "switch(True)"):
        assert plain(judged(lamp_row([item]), [steps(ON)], compat=compat)) == VALID
        assert plain(judged(lamp_row([item]), [steps(OFF)], compat=compat))[1] == "multi_turn:instance_state_mismatch"


def test_calls_that_fail_in_the_ground_truth_need_not_be_made_strictly() -> None:
    row = lamp_row(["switch(on=True)", "smash()"])
    assert plain(judged(row, [steps(ON)], compat=True)) == (False, "multi_turn:execution_response_mismatch")
    assert plain(judged(row, [steps(ON)], compat=False)) == VALID


@cases("bfcl")
def test_a_row_that_is_no_conversation_says_which_column(columns: Row, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        judged({**lamp_row(["look()"]), **columns}, [[]], compat=False)


def test_a_row_with_long_context_says_how_to_get_the_constants() -> None:
    with pytest.raises(DataError, match="tunecheck bfcl get"):
        judged(lamp_row(["look()"], long_context=True), [steps(LOOK)], compat=False)


@pytest.mark.parametrize("columns", [{"involved_classes": ["Lampp"]}, {"initial_config": {"Lamp": 5}}])
def test_an_entry_that_cannot_be_replayed_is_not_scored_strictly(columns: Row) -> None:
    row = {**lamp_row(["look()"]), **columns}
    assert plain(judged(row, [steps(LOOK)], compat=False)) == (None, "invalid_entry")
    assert plain(judged(row, [steps(LOOK)], compat=True)) == (False, "invalid_entry")


def test_the_evaluator_gives_error_type_and_turn_beside_the_reason() -> None:
    row = {
        "id": "r",
        "ground_truth": [["pwd()"], ["mkdir(dir_name='a')"]],
        "involved_classes": ["GorillaFileSystem"],
        "initial_config": {"GorillaFileSystem": {"root": {"w": {"type": "directory", "contents": {}}}}},
    }
    result = [steps(("pwd", {})), steps(("mkdir", {"dir_name": "b"}))]
    found: Row = dict(MultiTurnStateEvaluator()(result=result, **row))
    assert found["multi_turn_state"] == 0.0
    why = 'mkdir: argument "dir_name" expected "a", got "b" (other)'
    assert found["multi_turn_state_reason"] == f"GorillaFileSystem.root.w.a is missing; expected {{}}; {why}"
    assert found["multi_turn_state_properties"] == {
        "error_type": "multi_turn:instance_state_mismatch",
        "turn": 1,
        "state_differences": [
            ["GorillaFileSystem.root.w.a", "{}", "missing"],
            ["GorillaFileSystem.root.w.b", "missing", "{}"],
        ],
        "faults": [
            {
                "code": "state_mismatch",
                "path": "GorillaFileSystem.root.w.a",
                "turn": 2,
                "message": "GorillaFileSystem.root.w.a is missing; expected {}",
            },
            {
                "code": "wrong_argument.other",
                "call": "mkdir",
                "path": "dir_name",
                "turn": 2,
                "expected": "a",
                "actual": "b",
            },
        ],
    }
    right = MultiTurnStateEvaluator()(result=[*result[:1], steps(("mkdir", {"dir_name": "a"}))], **row)
    assert right["multi_turn_state_result"] == "pass"
