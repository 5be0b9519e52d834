"""Defects of the leaderboard's checker of conversations, one by one: the strict mode has none of them."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_check_parts import (
    Lamp,
    Row,
    as_text,
    as_tools,
    check_conversation,
    entries,
    files,
    lamp_row,
    plain,
    right_result,
    services,
    steps,
    true_calls,
)
from tests.tables import cases

from tunecheck.calls import FunctionCall
from tunecheck.episodes import Attempt, GroundTruth, RowVerdict, Services
from tunecheck_bfcl._data.prompts import read_long_context
from tunecheck_bfcl._scoring import CheckRow

LAMPS = Services({"Lamp": Lamp})

VALID = (True, None)
MISMATCH = (False, "multi_turn:instance_state_mismatch")
EMPTY = (False, "multi_turn:empty_turn_model_response")
ON = ("switch", {"on": True})
LOOK: tuple[str, Row] = ("look", {})

CALLS_ON_THE_SIDE = {
    "GorillaFileSystem": "pwd",
    "TradingBot": "get_account_info",
    "TravelAPI": "list_all_airports",
    "VehicleControlAPI": "check_tire_pressure",
}
"""An operation of each simulator that changes nothing; every entry has one of these simulators."""


def judged(row: Mapping[str, object], result: object, *, compat: bool = False, **more: Any) -> RowVerdict:
    return check_conversation(row, result, compat=compat, **{"services": LAMPS, **more})


def both(row: Mapping[str, object], result: object, **more: Any) -> tuple[object, object]:
    """The verdicts of the leaderboard and of the strict mode."""
    return plain(judged(row, result, compat=True, **more)), plain(judged(row, result, **more))


def wrong(row: CheckRow, mode: str = "tools") -> list[object]:
    """A result that makes all calls in the first turn, so that every simulator is in another state by then."""
    write: Callable[[Any], Any] = as_tools if mode == "tools" else as_text
    turns = true_calls(row)
    return [[write([call for turn in turns for call in turn])], *([] for _ in turns[1:])]


# -- 1: model output that is run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compat", [True, False])
@pytest.mark.parametrize("mode", ["tools", "text"])
def test_nothing_that_a_model_writes_is_run(mode: Any, compat: bool, cwd: Path) -> None:
    code = "__import__('os').system('touch CANARY')"
    written: list[Any] = [f"[{code}]", f"[look({code})]", f"[note(text={code})]", f"[note(text=1 + {code})]", code]
    data: list[Any] = [
        [{"note": f'{{"text={code}, on": 2}}'}],
        [{"note": {f"text={code}, on": 2}}],
        [{code: "{}"}],
        [{f"look(), {code}": "{}"}],
    ]
    for step in written if mode == "text" else data:
        assert not judged(lamp_row(["switch(on=True)"]), [[step]], compat=compat, mode=mode).valid
    assert not list(cwd.iterdir())


@pytest.mark.parametrize("compat", [True, False])
@pytest.mark.parametrize("text", ["globals()", "[g for g in globals()]", "vars()", "().__class__.__base__"])
def test_a_call_sees_nothing_of_the_checker(text: str, compat: bool) -> None:
    verdict = judged(lamp_row(["look()"]), [[f"[note(text={text})]"]], compat=compat, mode="text")
    assert not verdict.valid
    assert "Lamp object" not in str(verdict.message)


# -- 2, 3: attempts that share their simulators ------------------------------------------------------------------------


@pytest.mark.parametrize("compat", [True, False])
@pytest.mark.parametrize(("first", "second"), [("tools", "tools"), ("tools", "text"), ("text", "tools")])
def test_an_attempt_before_changes_no_verdict_of_the_same_model(first: Any, second: Any, compat: bool) -> None:
    options: Any = {"compat": compat, "services": services(), "model": "the_model"}
    for row in list(entries("multi_turn_base").values())[::4]:
        of_one_turn = not any(true_calls(row)[1:])
        assert bool(judged(row, wrong(row, first), mode=first, **options).valid) is of_one_turn
        assert plain(judged(row, right_result(row, second), mode=second, **options)) == VALID, row["id"]


def test_attempts_side_by_side_share_nothing() -> None:
    for row in list(entries("multi_turn_base").values())[::7]:
        entry = GroundTruth.read(row)
        alone, one, other = (Attempt(services(), entry) for _ in range(3))
        calls = [FunctionCall(name, given) for turn in true_calls(row) for name, given in turn]
        expected = [alone.make(call).text for call in calls]
        assert [(one.make(call).text, other.make(call).text) for call in calls] == [(text, text) for text in expected]
        assert one.backend.states() == other.backend.states() == alone.backend.states()


def test_verdicts_in_many_threads_are_those_in_one() -> None:
    rows = list(entries("multi_turn_base").values())[::2]
    cases = [(row, result) for row in rows for result in (wrong(row), right_result(row))]

    def of(case: tuple[CheckRow, list[object]]) -> tuple[bool | None, str | None]:
        return plain(judged(*case, services=services(), model="the_model"))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(of, cases)) == [of(case) for case in cases]


# -- 4: defaults that are shared ---------------------------------------------------------------------------------------

ACCOUNT: Any = {"username": "ann", "password": "pw", "authenticated": True, "tweets": {}, "tweet_counter": 0}


def tweets(*turns: list[str]) -> Row:
    columns = {"involved_classes": ["TwitterAPI"], "initial_config": {"TwitterAPI": ACCOUNT}}
    return {**lamp_row(*turns), **columns}


def test_who_is_mentioned_in_one_tweet_is_not_in_the_next() -> None:
    row = tweets(["post_tweet(content='a')", "mention(tweet_id=0, mentioned_usernames=['@bob'])"], ["post_tweet('b')"])
    mention = ("mention", {"tweet_id": 0, "mentioned_usernames": ["@bob"]})
    variants: list[Row] = [{}, {"mentions": []}, {"mentions": [], "tags": []}]
    for given in variants:
        result = [steps(("post_tweet", {"content": "a", **given}), mention), steps(("post_tweet", {"content": "b"}))]
        for _ in range(2):
            assert both(row, result, services=Services()) == (VALID, VALID)


# -- 5: names of models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["a b", "m@v1", "m+1", "1model", "my_model", "", "x" * 1_000, "(", "É\n"])
def test_wrong_calls_are_wrong_whatever_the_model_is_called(model: str) -> None:
    row = lamp_row(["switch(on=True)", "note(text='x (y)')"])
    result = [steps(("switch", {"on": False}), ("note", {"text": "z (look())"}))]
    assert both(row, result, model=model) == (MISMATCH, MISMATCH)
    perfect = [steps(ON, ("note", {"text": "x (y)"}))]
    assert plain(judged(row, perfect, model=model)) == VALID


# -- 6: texts that are changed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["please look (soon)", "look(", "switch  (on)", "note (a) (b)", "f (x)", "()"])
def test_brackets_in_a_text_stay_what_they_are(text: str) -> None:
    backend = Attempt(LAMPS, GroundTruth.read(lamp_row()))
    backend.make(FunctionCall("note", {"text": text}))
    assert backend.backend.states()["Lamp"]["notes"] == [text]
    row, result = lamp_row([f"note(text={text!r})"]), [steps(("note", {"text": text}))]
    assert plain(judged(row, result)) == VALID
    renamed = any(f"{name}{space}(" in text for name in ("look", "switch", "note") for space in ("", " ", "  "))
    assert plain(judged(row, result, compat=True)) == (MISMATCH if renamed else VALID)


# -- 7: constants that are changed -------------------------------------------------------------------------------------


def test_no_conversation_changes_the_long_context_of_the_next() -> None:
    constants = read_long_context(files())
    before = deepcopy(constants)
    shared = Services(long_context=lambda: constants)
    rows = [*entries("multi_turn_long_context").values()]
    assert len(rows) == 200
    for row in rows[::8]:
        judged(row, wrong(row), services=shared)
        assert plain(judged(row, right_result(row), services=shared)) == VALID, row["id"]
    assert constants == before


# -- 8: calls that do not return: see test_bfcl_check_hostile.py -------------------------------------------------------
# -- 9: results of any shape -------------------------------------------------------------------------------------------


@cases("bfcl")
def test_a_result_of_any_shape_is_a_verdict(result: object) -> None:
    row = lamp_row(["switch(on=True)"], ["look()"])
    for mode in ("tools", "text", None):
        for verdict in both(row, result, mode=mode):
            assert verdict[0] is False  # type: ignore[index]
        assert judged(row, result, mode=mode).message


# -- 11: directories that hold themselves ------------------------------------------------------------------------------


def test_a_directory_never_holds_itself() -> None:
    contents = {"docs": {"type": "directory", "contents": {"deep": {"type": "directory", "contents": {}}}}}
    config = {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": contents}}}}
    columns = {"involved_classes": ["GorillaFileSystem"], "initial_config": config}
    row = {**lamp_row(["find(path='.', name='d')"], ["du()"]), **columns}
    copy = ("cp", {"source": "docs", "destination": "docs"})
    result = [steps(copy, ("find", {"path": ".", "name": "d"})), steps(copy, ("du", {}))]
    assert both(row, result, services=Services()) == (VALID, VALID)
    moved = [steps(("mv", copy[1]), ("find", {"path": ".", "name": "d"})), steps(("du", {}))]
    assert both(row, moved, services=Services()) == (MISMATCH, MISMATCH)


# -- what is never looked at -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("category", ["multi_turn_miss_func", "multi_turn_miss_param"])
def test_a_call_in_a_turn_that_asks_for_none_is_wrong(category: str) -> None:
    for row in entries(category).values():
        operation = next(CALLS_ON_THE_SIDE[name] for name in CALLS_ON_THE_SIDE if name in str(row["involved_classes"]))
        turns = [turn or [as_tools([(operation, {})])] for turn in right_result(row)]
        first = next(at for at, turn in enumerate(right_result(row)) if not turn)
        assert plain(judged(row, turns, compat=True, services=services())) == VALID, row["id"]
        verdict = judged(row, turns, services=services())
        assert (*plain(verdict), verdict.turn) == (False, "multi_turn:irrelevance_error", first), row["id"]
        assert operation in str(verdict.message)


# -- what the leaderboard makes of call text ---------------------------------------------------------------------------


@cases("bfcl")
def test_call_text_means_what_it_says(text: str, truth: str) -> None:
    leaderboard, strict = both(lamp_row([truth]), [[text]], mode="text")
    assert leaderboard in (MISMATCH, EMPTY)
    assert strict == VALID


@pytest.mark.parametrize(
    ("text", "truth"), [("not True", "-1"), ("hello", "'hello'")], ids=["any sign is a minus", "a name is a text"]
)
def test_what_is_no_literal_is_no_argument(text: str, truth: str) -> None:
    result = [[f"[note(text={text})]"]]
    assert both(lamp_row([f"note(text={truth})"]), result, mode="text") == (VALID, EMPTY)
