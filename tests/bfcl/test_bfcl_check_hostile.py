"""Answers and rows of any shape, judged: always a verdict, never an exception."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import structs
from tests.bfcl_check_parts import Lamp, Row, check_conversation, lamp_row

from tunecheck import MultiTurnStateEvaluator
from tunecheck.episodes import Episode, RowVerdict, Services
from tunecheck.plugins import dumps_line
from tunecheck_bfcl import CallCheckEvaluator
from tunecheck_bfcl._call_check import check_single_turn
from tunecheck_bfcl._summary import verdict_line

LAMPS = Services({"Lamp": Lamp})

fuzzed = settings(suppress_health_check=list(HealthCheck))

modes = st.sampled_from(["tools", "text", None])


def check_that_it_is_a_verdict(verdict: RowVerdict) -> None:
    assert isinstance(verdict, RowVerdict)
    assert (verdict.valid is True) == (verdict.error_type is None)
    assert verdict.valid or (isinstance(verdict.message, str) and len(verdict.message) < 2_000)
    dumps_line(structs.asdict(verdict_line("a row", verdict)))


# -- results and rows of any shape -------------------------------------------------------------------------------------

TYPES = "integer float string boolean array tuple dict any long String ArrayList HashMap Bigint char".split()
NAMES = ["f", "a", "x", "type", "items", "properties", "required", "default", "name"]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["", "f", "{}", "[f(a=1)]", '{"a": 1}', "NaN", 10**400, -(10**400), 1e308, *TYPES])
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)
argument_names = st.sampled_from(["a", "x"])
kinds = st.sampled_from(TYPES) | anything
schemas = anything | st.fixed_dictionaries(
    {"type": kinds}, optional={"items": anything | st.fixed_dictionaries({"type": kinds}), "default": anything}
)
definitions = st.fixed_dictionaries(
    {
        "name": st.just("f"),
        "parameters": st.fixed_dictionaries(
            {
                "properties": st.dictionaries(argument_names, schemas, max_size=2),
                "required": st.lists(argument_names | anything, max_size=1),
            }
        ),
    }
)
possible = st.fixed_dictionaries(
    {"f": st.dictionaries(argument_names, st.lists(anything, max_size=3) | anything, max_size=2)}
)
sources = st.text(alphabet="{}[]()\"'\\,:;=new ALmap.of0xLf1_", max_size=30) | st.sampled_from(
    ["new int[]{1}", 'new HashMap<String, Object>() {{ put("a", 1); }}', "{a: [1]}", "Map.of([1], 2)", "9" * 5_000]
)
calls = st.fixed_dictionaries({"f": st.dictionaries(argument_names, sources | anything, max_size=2)})


@given(
    check=st.sampled_from(["simple", "multiple", "parallel", "irrelevance", "relevance", None, 5]),
    language=st.sampled_from(["python", "java", "javascript"]) | anything,
    functions=st.lists(definitions, min_size=1, max_size=2) | anything,
    truth=st.lists(possible, min_size=1, max_size=2) | anything,
    result=st.lists(calls, min_size=1, max_size=2) | st.lists(calls | anything, max_size=2) | anything,
    given_answer=st.booleans(),
    mode=modes,
)
@fuzzed
def test_any_answer_to_any_question_is_a_verdict(
    check: Any, language: Any, functions: Any, truth: Any, result: Any, given_answer: bool, mode: Any
) -> None:
    if given_answer and isinstance(truth, list) and truth and isinstance(truth[0], dict) and "f" in truth[0]:
        options = truth[0]["f"]
        if isinstance(options, dict):
            result = [
                {"f": {name: each[0] if isinstance(each, list) and each else each for name, each in options.items()}}
            ]
    row = {"check": check, "language": language, "functions": functions, "ground_truth": truth}
    for compat in (True, False):
        check_that_it_is_a_verdict(check_single_turn(row, result, compat=compat, mode=mode))


@given(
    text=st.text(alphabet="f(){}[]=a1\"'`,.:;\\ new+-*/<>|\n%#@!?&^~", max_size=50)
    | sources.map(lambda source: f"[f(a={source})]"),
    kind=st.sampled_from(TYPES),
    language=st.sampled_from(["python", "java", "javascript"]),
    mode=modes,
)
@fuzzed
def test_any_text_is_a_verdict(text: str, kind: str, language: str, mode: Any) -> None:
    parameters = {"properties": {"a": {"type": kind, "items": {"type": "integer"}}}, "required": ["a"]}
    functions = [{"name": "f", "parameters": parameters}]
    row = {"check": "simple", "language": language, "functions": functions, "ground_truth": [{"f": {"a": [[1], 1]}}]}
    for compat in (True, False):
        check_that_it_is_a_verdict(check_single_turn(row, text, compat=compat, mode=mode))
        check_that_it_is_a_verdict(
            check_conversation(lamp_row(["look()"]), [[text]], compat=compat, mode=mode, services=LAMPS)
        )


operations = st.sampled_from(["switch", "look", "note", "set_up", "smash", "fly", "", "note.text", "__init__"])
arguments = (
    st.sampled_from(
        ['{"on": true}', '{"text": {"a": [1]}}', "{}", '{"settings": {"a": 1}}', '{"text": NaN}', '{"0": 1}']
    )
    | st.dictionaries(st.sampled_from(["on", "text", "self", "0", ""]), anything, max_size=2)
    | anything
)
written = st.sampled_from(
    [
        "[switch(on=True)]",
        "[note(text=look())]",
        "note('a(b)')",
        "[set_up(settings={})]",
        "[note(text={'a':{'b':1}})]",
        "[note(text=-True)]",
        "[note(text=2**99)]",
        "[note(**{'text': 1})]",
        "[a.b.note(text=1)]",
        "[note(text=...)]",
    ]
)
calls_of_a_step = st.lists(st.dictionaries(operations, arguments, max_size=2) | anything, max_size=3)
turns = st.lists(calls_of_a_step | written | anything, max_size=3) | anything
truths = st.lists(
    st.sampled_from(["switch(on=True)", "look()", "note(text='a (b)')", "smash()", "1 +", "f", "switch(True)"])
    | anything,
    max_size=2,
)


@given(
    truth=st.lists(truths, min_size=1, max_size=2),
    result=st.lists(turns, min_size=2, max_size=2) | anything,
    mode=modes,
    forced=st.booleans(),
)
@fuzzed
def test_any_conversation_is_a_verdict(truth: list[list[object]], result: Any, mode: Any, forced: bool) -> None:
    if isinstance(result, list) and len(result) == 2:
        result = result[: len(truth)]
    row = lamp_row(*truth)
    for compat in (True, False):
        options: Any = {
            "compat": compat,
            "mode": mode,
            "episode": Episode.of_columns(forced_quit=forced),
            "services": LAMPS,
        }
        check_that_it_is_a_verdict(check_conversation(row, result, **options))


@given(
    response=anything | st.lists(st.fixed_dictionaries({"function": anything}), max_size=2),
    result=st.none() | anything,
    functions=st.lists(definitions, max_size=1) | anything,
    truth=st.lists(possible, max_size=2) | anything,
    others=st.dictionaries(
        st.sampled_from(["check", "language", "declared", "category", "error"]), anything, max_size=3
    ),
    compat=st.sampled_from(["auto", "bfcl", "strict"]),
)
@fuzzed
def test_the_evaluator_of_questions_scores_anything(
    response: Any, result: Any, functions: Any, truth: Any, others: Row, compat: Any
) -> None:
    evaluator = CallCheckEvaluator(compat=compat)
    found = evaluator(response=response, result=result, functions=functions, ground_truth=truth, **others)
    assert found["call_check_result"] in ("pass", "fail", "not_applicable")


@given(
    result=anything,
    others=st.dictionaries(
        st.sampled_from(["long_context", "category", "id", "error", "forced_quit"]), anything.filter(bool), max_size=3
    ).filter(lambda columns: columns.get("long_context") is not True),
    compat=st.sampled_from(["auto", "bfcl", "strict"]),
)
@fuzzed
def test_the_evaluator_of_conversations_scores_anything(result: Any, others: Row, compat: Any) -> None:
    truth = {"ground_truth": [["pwd()"]], "involved_classes": ["GorillaFileSystem"], "initial_config": {}}
    found = MultiTurnStateEvaluator(compat=compat)(result=result, **truth, **others)
    assert found["multi_turn_state_result"] in ("pass", "fail", "not_applicable")


def test_a_wrong_function_is_found_before_names_that_are_no_texts() -> None:
    parameters = {"type": "dict", "properties": {"x": {"type": "integer"}}, "required": [["x"], {}]}
    functions, truth = [{"name": "f", "parameters": parameters}], [{"f": {"x": [1]}}]
    row = {"check": "simple", "language": "python", "functions": functions, "ground_truth": truth}
    for name, error in (("g", "simple_function_checker:wrong_func_name"), ("f", "checker_crash")):
        assert check_single_turn(row, [{name: {"x": 1}}], compat=True).error_type == error
    assert check_single_turn(row, [{"f": {"x": 1}}], compat=False).error_type == "invalid_entry"


@pytest.mark.parametrize("depth", [40, 150])
@pytest.mark.parametrize("in_lists", [True, False], ids=["alternatives", "the value itself"])
def test_an_answer_nested_in_itself_is_compared_once_at_each_depth(in_lists: bool, depth: int) -> None:
    answer: Any = [1] if in_lists else 1
    value: Any = 2
    for _ in range(depth):
        answer, value = ([{"a": answer}] if in_lists else {"a": answer}), {"a": value}
    parameters = {"type": "dict", "properties": {"x": {"type": "dict"}}, "required": ["x"]}
    functions = [{"name": "f", "parameters": parameters}]
    truth = [{"f": {"x": answer if in_lists else [answer]}}]
    row = {"check": "simple", "language": "python", "functions": functions, "ground_truth": truth}
    for compat in (True, False):
        assert not check_single_turn(row, [{"f": {"x": value}}], compat=compat).valid
    right = json.loads(json.dumps(value).replace("2", "1"))
    assert check_single_turn(row, [{"f": {"x": right}}], compat=False).valid is (depth < 100)
