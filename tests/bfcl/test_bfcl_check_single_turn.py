"""One answer against possible answers: the leaderboard's rules, and where the strict mode is right instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.bfcl_check_parts import Row, plain

from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._single_turn import check_single_turn

WEATHER: Row = {
    "name": "weather.get",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "limit": {"type": "float"},
            "detailed": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "points": {"type": "array", "items": {"type": "float"}},
            "place": {"type": "dict"},
            "people": {"type": "array", "items": {"type": "dict"}},
            "unit": {"type": "string", "default": "metric"},
        },
        "required": ["city"],
    },
}


def row(check: str = "simple", *answers: Row, functions: list[Row] | None = None) -> Row:
    truth = [{"weather.get": answer} for answer in answers] or None
    return {"check": check, "language": "python", "functions": functions or [WEATHER], "ground_truth": truth}


def call(name: str = "weather_get", **arguments: Any) -> Row:
    return {name: arguments}


def judged(answer: Row, given: Row, *, compat: bool = True) -> tuple[bool | None, str | None]:
    """The verdict of one call with these arguments."""
    return plain(check_single_turn(row("simple", answer), [call(**given)], compat=compat))


VALID = (True, None)
PARIS: Row = {"city": ["Paris", "Paris, France"]}

both_modes = pytest.mark.parametrize("compat", [True, False], ids=["bfcl", "strict"])


@both_modes
@pytest.mark.parametrize("city", ["Paris", "paris", "PARIS, FRANCE", "paris,france"])
def test_text_is_one_of_the_answers_whatever_its_case_and_spaces(city: str, compat: bool) -> None:
    assert judged(PARIS, {"city": city}, compat=compat) == VALID


@pytest.mark.parametrize("city", ["Paris-France", "paris france", "Paris."])
def test_punctuation_counts_strictly_and_not_on_the_leaderboard(city: str) -> None:
    assert judged(PARIS, {"city": city}) == VALID
    assert judged(PARIS, {"city": city}, compat=False)[0] is False


def test_another_text_is_wrong() -> None:
    assert judged(PARIS, {"city": "London"}) == (False, "value_error:string")
    assert judged(PARIS, {"city": "London"}, compat=False) == (False, "wrong_argument.other")


@both_modes
def test_an_argument_may_be_left_out_where_the_answer_says_so(compat: bool) -> None:
    assert judged({**PARIS, "days": ["", 3]}, {"city": "Paris"}, compat=compat) == VALID
    missing = judged({**PARIS, "days": [3]}, {"city": "Paris"}, compat=compat)
    assert missing == (False, "simple_function_checker:missing_optional" if compat else "missing_argument")


@both_modes
def test_a_required_argument_must_be_given(compat: bool) -> None:
    found = judged({**PARIS, "days": ["", 3]}, {"days": 3}, compat=compat)
    assert found == (False, "simple_function_checker:missing_required" if compat else "missing_argument")


@both_modes
def test_an_argument_that_no_answer_has_is_unexpected(compat: bool) -> None:
    found = judged(PARIS, {"city": "Paris", "days": 3}, compat=compat)
    assert found == (False, "simple_function_checker:unexpected_param" if compat else "unexpected_argument")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"days": "3"}, "type_error:simple"),
        ({"days": True}, "type_error:simple"),
        ({"detailed": 1}, "type_error:simple"),
        ({"tags": "a"}, "type_error:simple"),
        ({"days": 4}, "value_error:others"),
        ({"tags": ["b", "a"]}, "value_error:list/tuple"),
    ],
)
def test_a_value_of_another_type_is_no_answer(given: Row, error: str) -> None:
    answer = {**PARIS, "days": ["", 3], "detailed": ["", True], "tags": ["", ["a", "b"]]}
    assert judged(answer, {"city": "Paris", **given}) == (False, error)
    valid, code = judged(answer, {"city": "Paris", **given}, compat=False)
    assert valid is False
    assert str(code).startswith("wrong_argument.")


def test_a_whole_number_written_as_a_float_is_an_integer_strictly_as_in_json_schema() -> None:
    answer = {**PARIS, "days": ["", 3]}
    assert judged(answer, {"city": "Paris", "days": 3.0}) == (False, "type_error:simple")
    assert judged(answer, {"city": "Paris", "days": 3.0}, compat=False) == VALID
    assert judged(answer, {"city": "Paris", "days": 3.5}, compat=False)[0] is False


@both_modes
def test_an_integer_stands_for_a_float(compat: bool) -> None:
    assert judged({**PARIS, "limit": [5.0]}, {"city": "Paris", "limit": 5}, compat=compat) == VALID


@both_modes
def test_an_object_has_alternatives_for_each_key(compat: bool) -> None:
    answer = {**PARIS, "place": [{"zip": [75001], "name": ["Louvre", "the Louvre"], "floor": ["", 2]}]}
    assert judged(answer, {"city": "Paris", "place": {"zip": 75001, "name": "louvre"}}, compat=compat) == VALID
    wrong = judged(answer, {"city": "Paris", "place": {"zip": 75002, "name": "louvre"}}, compat=compat)
    assert wrong == (False, "value_error:dict_value" if compat else "wrong_argument.other")


@both_modes
def test_a_list_of_objects_is_compared_in_order(compat: bool) -> None:
    answer = {**PARIS, "people": [[{"name": ["Ann"]}, {"name": ["Bob"], "age": ["", 9]}]]}
    assert judged(answer, {"city": "Paris", "people": [{"name": "Ann"}, {"name": "Bob"}]}, compat=compat) == VALID
    assert not judged(answer, {"city": "Paris", "people": [{"name": "Bob"}, {"name": "Ann"}]}, compat=compat)[0]


@both_modes
def test_more_or_fewer_calls_than_one_are_wrong(compat: bool) -> None:
    for calls, code in (([], "missing_call"), ([call(city="Paris")] * 2, "extra_call")):
        verdict = check_single_turn(row("simple", PARIS), calls, compat=compat)
        assert plain(verdict) == (False, "simple_function_checker:wrong_count" if compat else code)


def test_of_several_functions_the_answers_must_be_called() -> None:
    other = {**WEATHER, "name": "weather.set"}
    chosen = row("multiple", PARIS, functions=[other, WEATHER])
    assert plain(check_single_turn(chosen, [call(city="Paris")], compat=True)) == VALID
    wrong = check_single_turn(chosen, [call("weather_set", city="Paris")], compat=True)
    assert plain(wrong) == (False, "simple_function_checker:wrong_func_name")
    assert wrong.message == "called 'weather_set'; expected weather_get"
    counted = check_single_turn(chosen, [], compat=True)
    assert plain(counted) == (False, "multiple_function_checker:wrong_count")


DOTTED = ("[weather.get(city='Paris')]", [call("weather.get", city="Paris")])
UNDERSCORED = ("[weather_get(city='Paris')]", [call("weather_get", city="Paris")])


@pytest.mark.parametrize("result", [*DOTTED, *UNDERSCORED])
def test_dots_in_a_name_may_be_underscores_where_nothing_says_how_the_model_was_told_to_call(result: object) -> None:
    for compat in (True, False):
        assert plain(check_single_turn(row("simple", PARIS), result, compat=compat)) == VALID


@pytest.mark.parametrize(("names", "wrong"), [("dotted", UNDERSCORED), ("underscored", DOTTED)])
def test_a_name_spelt_otherwise_than_the_model_was_told_is_wrong_to_the_leaderboard(
    names: Names, wrong: Sequence[object]
) -> None:
    for result in wrong:
        found = check_single_turn(row("simple", PARIS), result, compat=True, names=names)
        assert plain(found) == (False, "simple_function_checker:wrong_func_name")
        assert plain(check_single_turn(row("simple", PARIS), result, compat=False, names=names)) == VALID


def test_all_calls_of_a_row_are_spelt_as_its_first_one_is() -> None:
    both = row("parallel", {"city": ["Paris"]}, {"city": ["Rome"]})
    mixed = [call("weather.get", city="Paris"), call("weather_get", city="Rome")]
    found = check_single_turn(both, mixed, compat=True)
    assert plain(found) == (False, "parallel_function_checker_no_order:cannot_find_match")


@both_modes
def test_parallel_calls_may_come_in_any_order(compat: bool) -> None:
    both = row("parallel", {"city": ["Paris"]}, {"city": ["Rome"]})
    assert plain(check_single_turn(both, [call(city="Rome"), call(city="Paris")], compat=compat)) == VALID
    lacking = check_single_turn(both, [call(city="Rome")], compat=compat)
    checker = "parallel_function_checker_no_order"
    assert plain(lacking) == (False, f"{checker}:wrong_count" if compat else "missing_call")
    wrong = check_single_turn(both, [call(city="Rome"), call(city="Bonn")], compat=compat)
    assert plain(wrong) == (False, f"{checker}:cannot_find_match" if compat else "wrong_argument.other")
    assert "Bonn" in str(wrong.message)


def test_the_leaderboard_takes_the_first_call_that_fits_and_strict_the_best_assignment() -> None:
    both = row("parallel", {"city": ["Paris", "Rome"]}, {"city": ["Paris"]})
    calls = [call(city="Paris"), call(city="Rome")]
    found = plain(check_single_turn(both, calls, compat=True))
    assert found == (False, "parallel_function_checker_no_order:cannot_find_match")
    assert plain(check_single_turn(both, calls, compat=False)) == VALID


@pytest.mark.parametrize("result", ["Sorry, I cannot.", [], "", "[]"])
@both_modes
def test_no_call_is_right_where_none_was_asked_for(result: object, compat: bool) -> None:
    assert plain(check_single_turn(row("irrelevance"), result, compat=compat)) == VALID
    wanted = plain(check_single_turn(row("relevance"), result, compat=compat))
    assert wanted == (False, "relevance_error:decoder_failed")


@both_modes
def test_a_call_is_wrong_where_none_was_asked_for(compat: bool) -> None:
    for result in ([call(city="Paris")], "[weather.get(city='Paris')]"):
        found = plain(check_single_turn(row("irrelevance"), result, compat=compat))
        assert found == (False, "irrelevance_error:decoder_success")
        assert plain(check_single_turn(row("relevance"), result, compat=compat)) == VALID


# -- gaps of the leaderboard that the strict mode closes ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "given", "strictly"),
    [
        ({"unit": ["", "imperial"]}, {"unit": ""}, False),
        ({"unit": ["", "imperial"]}, {"unit": " -_. "}, False),
        ({"tags": ["", ["a"]]}, {"tags": []}, False),
        ({"place": [{"floor": [1]}]}, {"place": {"floor": True}}, False),
        ({"place": [{"floor": [1]}]}, {"place": {"floor": 1.0}}, True),
    ],
    ids=["empty text", "only punctuation", "empty list", "true for 1", "1.0 for 1 is a number all the same"],
)
def test_what_slips_through_the_leaderboards_rules_is_compared_by_type(answer: Row, given: Row, strictly: bool) -> None:
    assert judged({**PARIS, **answer}, {"city": "Paris", **given}) == VALID
    assert judged({**PARIS, **answer}, {"city": "Paris", **given}, compat=False)[0] is strictly


def test_strict_takes_the_schemas_default_where_the_argument_may_be_left_out() -> None:
    assert judged({**PARIS, "unit": ["", "imperial"]}, {"city": "Paris", "unit": "metric"}) != VALID
    assert judged({**PARIS, "unit": ["", "imperial"]}, {"city": "Paris", "unit": "metric"}, compat=False) == VALID


def test_strict_takes_integers_for_floats_inside_lists_and_loose_text_inside_objects() -> None:
    answer = {**PARIS, "points": [[1.0, 2.5]], "place": [{"names": [["the Louvre"]]}]}
    given = {"city": "Paris", "points": [1, 2.5], "place": {"names": ["The louvre"]}}
    assert judged(answer, given) == (False, "type_error:nested")
    assert judged(answer, given, compat=False) == VALID


def test_a_call_with_two_names_is_two_calls_and_the_leaderboard_sees_the_first() -> None:
    double = [{"weather_get": {"city": "Paris"}, "weather_set": {"city": "Paris"}}]
    assert plain(check_single_turn(row("simple", PARIS), double, compat=True)) == VALID
    strictly = check_single_turn(row("simple", PARIS), double, compat=False)
    assert strictly.valid is False


def test_of_several_answers_the_leaderboard_compares_the_first_and_strict_all() -> None:
    several = row("multiple", PARIS, {"city": ["Rome"]})
    calls = [call(city="Paris"), call(city="Bonn")]
    assert plain(check_single_turn(several, calls[:1], compat=True)) == (False, "multiple_function_checker:wrong_count")
    assert not check_single_turn(several, calls, compat=False).valid
    assert check_single_turn(several, [calls[0], call(city="Rome")], compat=False).valid


def test_strict_compares_texts_in_lists_of_lists_as_loosely_as_others() -> None:
    grid = {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}
    document = {"name": "f", "parameters": {"type": "dict", "properties": {"grid": grid}, "required": ["grid"]}}
    truth = [{"f": {"grid": [[["New York", "Rome"]]]}}]
    entry = {"check": "simple", "language": "python", "functions": [document], "ground_truth": truth}
    result = [{"f": {"grid": [["new york", "rome"]]}}]
    assert plain(check_single_turn(entry, result, compat=True)) == (False, "value_error:list/tuple")
    assert plain(check_single_turn(entry, result, compat=False)) == VALID


def test_strict_takes_a_tuple_for_a_list() -> None:
    answer, text = row("simple", {**PARIS, "tags": [["a", "b"]]}), "[weather.get(city='Paris', tags=('a', 'b'))]"
    assert plain(check_single_turn(answer, text, compat=True)) == (False, "type_error:simple")
    assert plain(check_single_turn(answer, text, compat=False)) == VALID


def test_an_error_row_passes_as_abstention_on_the_leaderboard_and_not_strictly() -> None:
    failed = "Error during inference: Error code: 500"
    assert plain(check_single_turn(row("irrelevance"), failed, compat=True)) == VALID
    assert plain(check_single_turn(row("irrelevance"), failed, compat=False)) == (False, "inference_error")


def test_an_unreadable_call_passes_as_abstention_on_the_leaderboard_and_not_strictly() -> None:
    broken = [{"weather_get": '{"city": '}]
    assert plain(check_single_turn(row("irrelevance"), broken, compat=True)) == VALID
    assert not check_single_turn(row("irrelevance"), broken, compat=False).valid


def test_any_call_is_relevant_on_the_leaderboard_and_strictly_one_of_a_function_on_offer() -> None:
    invented = [call("make_coffee")]
    assert plain(check_single_turn(row("relevance"), invented, compat=True)) == VALID
    assert not check_single_turn(row("relevance"), invented, compat=False).valid


@pytest.mark.parametrize(
    ("answer", "functions", "why"),
    [
        ({"city": []}, None, "has no possible value"),
        ({**PARIS, "colour": ["red"]}, None, "has no parameter 'colour'"),
        ({"days": [3]}, None, "the required argument 'city'"),
        (PARIS, [{**WEATHER, "name": "other"}], "no definition"),
    ],
)
def test_a_row_that_nobody_can_pass_is_not_scored_strictly(answer: Row, functions: Any, why: str) -> None:
    entry = row("simple", answer, functions=functions)
    verdict = check_single_turn(entry, [call(city="Paris")], compat=False)
    assert plain(verdict) == (None, "invalid_entry")
    assert why in str(verdict.message)
    assert check_single_turn(entry, [call(city="Paris")], compat=True).valid is not None


@pytest.mark.parametrize("broken", [{"type": "number"}, {"type": "array"}, {}, {"type": "array", "items": {}}])
def test_a_definition_on_which_the_leaderboards_checker_crashes_is_a_verdict(broken: Row) -> None:
    document = {"name": "f", "parameters": {"type": "dict", "properties": {"x": broken}, "required": []}}
    entry = {"check": "simple", "language": "python", "functions": [document], "ground_truth": [{"f": {"x": [1]}}]}
    assert plain(check_single_turn(entry, [{"f": {"x": 1}}], compat=True)) == (False, "checker_crash")
    assert check_single_turn(entry, [{"f": {"x": 1}}], compat=False).valid


@pytest.mark.parametrize("required", [[[]], [{}], ["city", ["city"]]])
def test_a_definition_that_requires_what_is_no_name_is_a_verdict(required: list[object]) -> None:
    document = {"name": "weather.get", "parameters": {**WEATHER["parameters"], "required": required}}
    entry = row("simple", PARIS, functions=[document])
    assert plain(check_single_turn(entry, [call(city="Paris")], compat=True)) == (False, "checker_crash")
    assert plain(check_single_turn(entry, [call(city="Paris")], compat=False)) == (None, "invalid_entry")


@pytest.mark.parametrize("kind", [None, ["integer", "null"], {}, "int", 5])
def test_a_parameter_of_no_single_type_takes_what_its_answers_are(kind: object) -> None:
    document = {"name": "f", "parameters": {"properties": {"x": {"type": kind}}, "required": ["x"]}}
    entry = {"check": "simple", "language": "python", "functions": [document], "ground_truth": [{"f": {"x": [1, "a"]}}]}
    for value in (1, "a"):
        assert plain(check_single_turn(entry, [{"f": {"x": value}}], compat=True)) == (False, "checker_crash")
        assert plain(check_single_turn(entry, [{"f": {"x": value}}], compat=False)) == VALID
    assert not check_single_turn(entry, [{"f": {"x": 2}}], compat=False).valid


@pytest.mark.parametrize("parameters", [None, [], {}, {"properties": {}}])
def test_a_function_without_parameters_is_a_verdict(parameters: object) -> None:
    entry = row("simple", PARIS, functions=[{"name": "weather.get", "parameters": parameters}])
    assert plain(check_single_turn(entry, [call(city="Paris")], compat=True)) == (False, "checker_crash")
    assert plain(check_single_turn(entry, [call(city="Paris")], compat=False)) == (None, "invalid_entry")


# -- decoding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result", [[{"f": "{"}], [{"f": ""}], [{"f": None}], [{}], [None], ["x"], [["x"]], None, 5, {"f": "{}"}, "prose"]
)
def test_what_cannot_be_decoded_says_so(result: object) -> None:
    verdict = check_single_turn(row("simple", PARIS), result, compat=True, mode="tools")
    assert plain(verdict) == (False, "ast_decoder:decoder_failed")
    assert verdict.message


@pytest.mark.parametrize("arguments", ["null", "[1]", "5", '"x"'])
def test_arguments_that_are_no_object_are_another_format(arguments: str) -> None:
    verdict = check_single_turn(row("simple", PARIS), [{"weather_get": arguments}], compat=True)
    assert plain(verdict) == (False, "ast_decoder:decoder_wrong_output_format")


def test_text_beside_tools_holds_no_call_for_the_leaderboard() -> None:
    text = "[weather.get(city='Paris')]"
    verdict = check_single_turn(row("simple", PARIS), text, compat=True, mode="tools")
    assert plain(verdict) == (False, "ast_decoder:decoder_failed")


def test_strict_reads_a_call_in_any_models_own_format() -> None:
    text = '<tool_call>{"name": "weather.get", "arguments": {"city": "Paris"}}</tool_call>'
    for mode in ("tools", "text"):
        assert check_single_turn(row("simple", PARIS), text, compat=False, mode=mode).valid


def test_positional_arguments_count_strictly_and_are_dropped_by_the_leaderboard() -> None:
    verdicts = [
        check_single_turn(row("simple", PARIS), "[weather.get('Paris')]", compat=each) for each in (True, False)
    ]
    assert [plain(verdict) for verdict in verdicts] == [(False, "simple_function_checker:missing_required"), VALID]
