"""Shared behaviour of the evaluators of calls and of texts, for a row and over a run."""

import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.matching_parts import call

from tunecheck import (
    ArgumentMatchEvaluator,
    ConfigurationError,
    Evaluator,
    FunctionCallMatchEvaluator,
    MatchEvaluator,
    verdict,
)
from tunecheck.calls.matching import MatchPolicy
from tunecheck.evaluators import (
    FAULTS,
    BleuScoreEvaluator,
    CallEvaluator,
    F1ScoreEvaluator,
    GleuScoreEvaluator,
    MeteorScoreEvaluator,
    RougeScoreEvaluator,
)
from tunecheck.plugins import dumps

EVALUATORS: list[type[CallEvaluator]] = [FunctionCallMatchEvaluator, ArgumentMatchEvaluator, MatchEvaluator]
EVERY: list[Evaluator] = [
    *(kind(ordered=True) for kind in EVALUATORS),
    *(BleuScoreEvaluator(), GleuScoreEvaluator(), MeteorScoreEvaluator(), RougeScoreEvaluator(), F1ScoreEvaluator()),
]
every_evaluator = pytest.mark.parametrize("evaluator", EVERY, ids=lambda evaluator: evaluator.primary)
CALL = [{"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}]


def test_a_verdict_that_is_not_applicable_has_no_score() -> None:
    found = verdict("m", score=1.0, passed=True, not_applicable=True)
    assert (found["m"], found["m_score"], found["m_passed"]) == (None, None, None)
    assert (found["m_result"], found["m_status"]) == ("not_applicable", "skipped")


def test_empty_properties_take_no_room() -> None:
    assert verdict("m", score=0, passed=False, properties={})["m_properties"] is None


def test_an_evaluators_arguments_cannot_be_changed_from_outside() -> None:
    evaluator = Evaluator(threshold=0.5)
    evaluator.arguments["threshold"] = 1
    assert evaluator.arguments == {"threshold": 0.5}
    assert repr(evaluator) == "Evaluator(threshold=0.5)"


@pytest.mark.parametrize("kind", EVALUATORS)
def test_every_policy_is_a_keyword_of_every_evaluator_of_calls(kind: type[CallEvaluator]) -> None:
    given: dict[str, Any] = dict(MatchPolicy(ordered=True, absolute_tolerance=1, use_defaults=False).options())
    evaluator = kind(**given)
    assert evaluator.policy == MatchPolicy(ordered=True, absolute_tolerance=1, use_defaults=False)
    assert {name: evaluator.arguments[name] for name in given} == given


@pytest.mark.parametrize("kind", EVALUATORS)
def test_an_unknown_keyword_is_an_error_that_names_it(kind: type[CallEvaluator]) -> None:
    with pytest.raises(ConfigurationError, match="'ignore_cases'; did you mean 'ignore_case'"):
        kind(ignore_cases=True)


@every_evaluator
def test_evaluators_can_be_pickled_and_built_again_from_their_arguments(evaluator: Evaluator) -> None:
    made: Any = type(evaluator)
    for copy in (pickle.loads(pickle.dumps(evaluator)), made(**evaluator.arguments)):
        assert (copy.arguments, repr(copy)) == (evaluator.arguments, repr(evaluator))
        for response, ground_truth in ((CALL, CALL), ("It rains in Paris.", "It is raining in Paris.")):
            row = {"response": response, "ground_truth": ground_truth}
            assert copy(**row) == evaluator(**row)


@every_evaluator
def test_parameters_are_keywords_only_and_the_definitions_optional(evaluator: Evaluator) -> None:
    parameters = inspect.signature(evaluator).parameters
    optional = {"tool_definitions": None} if isinstance(evaluator, CallEvaluator) else {}
    none = inspect.Parameter.empty
    defaults = {name: one.default for name, one in parameters.items()}
    assert defaults == {"response": none, "ground_truth": none, **optional}
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in parameters.values())


@every_evaluator
def test_evaluators_declare_what_their_metrics_mean(evaluator: Evaluator) -> None:
    names = [metric.name for metric in evaluator.metrics]
    assert names[0] == evaluator.primary
    assert len(names) == (3 if isinstance(evaluator, MatchEvaluator) else 1)
    assert all(metric.range == (0, 1) and metric.higher_is_better for metric in evaluator.metrics)
    assert evaluator.cpu_bound is not isinstance(evaluator, CallEvaluator)


def test_threads_get_the_same_verdicts_as_one_alone() -> None:
    texts = [
        {"response": f"The {n} cats can't sit. {n * n}!", "ground_truth": f"{n} cats cannot sit."} for n in range(300)
    ]
    calls = [{"response": [call("f", x=n % 3)], "ground_truth": [call("f", x=n % 2)]} for n in range(300)]
    rows: list[dict[str, Any]] = [*texts, *calls]

    def judge(row: dict[str, Any]) -> list[object]:
        return [evaluator(**row) for evaluator in EVERY]

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(judge, rows * 2))
    assert together == [judge(row) for row in rows] * 2


@pytest.mark.parametrize("kind", EVALUATORS)
def test_verdicts_are_plain_json(kind: type[CallEvaluator]) -> None:
    for response in (CALL, "text", None, [], "<tool_call>{", CALL * 2):
        found = kind()(response=response, ground_truth=CALL)
        assert dumps(found)
        assert all(value is None or isinstance(value, (str, float, bool, dict)) for value in found.values())


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "arguments", "function", "role", "content", "tool_calls", "type", "f"])
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@pytest.mark.parametrize("kind", EVALUATORS)
@given(response=ANY_JSON)
def test_no_response_raises_anything(kind: type[CallEvaluator], response: object) -> None:
    for ground_truth in (CALL, "It is sunny."):
        found = kind()(response=response, ground_truth=ground_truth)
        assert found[f"{kind.primary}_result"] in ("pass", "fail", "not_applicable")


@pytest.mark.parametrize("kind", EVALUATORS)
@given(ground_truth=ANY_JSON, tools=ANY_JSON)
def test_other_input_is_judged_or_a_value_error(kind: type[CallEvaluator], ground_truth: object, tools: object) -> None:
    try:
        found = kind()(response=CALL, ground_truth=ground_truth, tool_definitions=tools)
    except ValueError as error:
        assert str(error)
    else:
        assert found[f"{kind.primary}_result"] in ("pass", "fail")


@pytest.mark.parametrize("unit", ["celsius", "fahrenheit"])
def test_the_verdicts_of_both_stay_small_beside_a_row(unit: str) -> None:
    call = {"get_weather": {"city": "Paris", "unit": "celsius", "days": 3}}
    made = {"get_weather": {"city": "Paris", "unit": unit, "days": 3}}
    row: dict[str, object] = {"id": "row-1", "query": "q" * 400, "ground_truth": call, "response": made}
    written: dict[str, object] = {f"inputs.{name}": value for name, value in row.items()}
    for kind in (FunctionCallMatchEvaluator, ArgumentMatchEvaluator):
        for key, value in kind()(response=made, ground_truth=call).items():
            written[f"outputs.{kind.primary}.{key}"] = value
    assert 540 < len(dumps(row)) < 600
    assert len(dumps(written)) < 4 * len(dumps(row))


F, G, H = call("f", x=1), call("g", x=1), call("h", x=1)
BROKEN = '<tool_call>{"name": "f", "arguments": {</tool_call>'
TOOLS = [{"name": name, "parameters": {"properties": {"x": {"type": "integer"}}}} for name in "fg"]


def over(
    rows: list[tuple[object, object]], tools: object = None, evaluator: Any = FunctionCallMatchEvaluator()
) -> dict[str, float]:
    verdicts = [evaluator(response=one, ground_truth=other, tool_definitions=tools) for one, other in rows]
    aggregated: dict[str, float] = evaluator.__aggregate__(verdicts)
    return aggregated


def test_precision_recall_and_f1_are_of_all_calls_of_the_run() -> None:
    rows: list[tuple[object, object]] = [
        ([F], [F]),  # 1 expected, 1 called, 1 right
        ([F, G], [F]),  # 1, 2, 1
        ([F], [F, G, H]),  # 3, 1, 1
        ("text", [G]),  # 1, 0, 0
        ([H], "text"),  # 0, 1, 0
        ("text", "text"),
    ]
    assert over(rows) == {
        "call_precision": 3 / 5,
        "call_recall": 3 / 6,
        "call_f1": 2 * (3 / 5) * (1 / 2) / (3 / 5 + 1 / 2),
        "unreadable_call_rate": 0.0,
    }


def test_unreadable_calls_are_a_share_of_all_that_were_tried() -> None:
    found = over([([F], [F]), ([F, G], [F, G]), (BROKEN, [F]), ("text", "text")])
    assert found["unreadable_call_rate"] == 1 / 4
    assert found["call_recall"] == 3 / 4
    assert found["call_precision"] == 1.0


def test_schema_invalid_calls_are_a_share_of_those_that_were_checked() -> None:
    bad = call("f", x="one")
    found = over([([F, bad], [F, F]), ([G], [G]), ([H, H], [H, H])], TOOLS)
    assert found["schema_invalid_call_rate"] == 1 / 3
    assert found["unknown_function_count"] == 2


def test_a_run_of_answers_only_has_no_rates() -> None:
    assert over([("text", "text")]) == {}
    assert over([]) == {}


def test_every_way_in_which_arguments_are_wrong_is_counted() -> None:
    rows: list[tuple[object, object]] = [
        ([call("f", a=1, b="x", c=True)], [call("f", a=1, b="x", c=True)]),  # 3 right of 3
        ([call("f", a="1", b="X")], [call("f", a=1, b="x")]),  # 0 of 2
        ([call("f", a=1, d=1)], [call("f", a=1, b=2)]),  # 1 of 3
        ([call("f", a="Jan 5, 2024", l=[2, 1])], [call("f", a="2024-01-05", l=[1, 2])]),  # 0 of 2
        ([call("f", a="10k", b="colour", c=2)], [call("f", a=10_000, b="color", c=7)]),  # 0 of 3
        ("text", [call("f", a=1)]),  # a call without a partner counts nowhere here
        ("text", "text"),
    ]
    assert over(rows, evaluator=ArgumentMatchEvaluator()) == {
        "argument_accuracy": 4 / 13,
        "wrong_arguments.number_as_text": 1,
        "wrong_arguments.number_conversion": 1,
        "wrong_arguments.date_or_time_format": 1,
        "wrong_arguments.case_or_spacing": 1,
        "wrong_arguments.list_order": 1,
        "wrong_arguments.close_wording": 1,
        "wrong_arguments.other": 1,
        "wrong_arguments.missing": 1,
        "wrong_arguments.unexpected": 1,
    }


def test_counts_are_there_even_where_they_are_zero() -> None:
    assert over([], evaluator=ArgumentMatchEvaluator()) == {f"wrong_arguments.{name}": 0 for name in FAULTS}


@pytest.mark.parametrize("evaluator", [FunctionCallMatchEvaluator(), ArgumentMatchEvaluator()])
def test_rows_of_another_shape_are_passed_over(evaluator: Any) -> None:
    metric = evaluator.primary
    odd: list[Any] = [{}, {f"{metric}_properties": None}, {f"{metric}_properties": float("nan")}]
    odd += [{f"{metric}_properties": {"expected": "x", "right": None, "wrong": 5}}, {"other": 1}]
    assert evaluator.__aggregate__(odd) == evaluator.__aggregate__([])
