"""The simulated endpoint: ground truth plus seeded mistakes, and what each mistake changes."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases
from tests.text_fragments import JSON_VALUES

from tunecheck import ConfigurationError, ReplyError, Row, _yaml as yamltext
from tunecheck.calls import FORMATS, FunctionCall, write_calls
from tunecheck.calls.matching import match_calls
from tunecheck.endpoints import ChatRequest, Completion, default_definition, load_endpoint
from tunecheck.endpoints._simulated import (
    ANSWER_MISTAKES,
    CALL_MISTAKES,
    Mistake,
    SimulatedAnswer,
    SimulatedEndpoint,
    Situation,
    converted_number,
    other_date_or_time,
    paraphrase,
    shifted_date_or_time,
)
from tunecheck.formats import read_calls

ROOT = Path(__file__).resolve().parents[2]

ASKED = [{"role": "user", "content": "Transfer 2500 euros to Maria on 2026-03-05, please"}]
TOOLS = [
    {"type": "function", "function": {"name": "transfer", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "balance", "parameters": {"type": "object"}}},
]
TRANSFER = FunctionCall("transfer", {"amount": 2500, "to": "Maria", "on": "2026-03-05"})
TEXT = "I'm happy to help. The price is 12.50 euros."


def simulated(name: str | None = None, **keys: Any) -> SimulatedEndpoint:
    """The endpoint of a definition with these keys."""
    endpoint = load_endpoint({"kind": "simulated", **keys}, name=name)
    assert isinstance(endpoint, SimulatedEndpoint)
    return endpoint


def a_row(number: int, **values: Any) -> Row:
    return Row(number, f"row-{number}", values or {"answer": write_calls([TRANSFER], "tool_uses")}, "")


async def answered(endpoint: SimulatedEndpoint, row: Row | None, tools: Any = TOOLS) -> Completion:
    return await endpoint.complete(ChatRequest(messages=ASKED, tools=tools, row=row))


@pytest.mark.parametrize("wire_format", FORMATS)
async def test_without_mistakes_calls_come_back_as_openai_tool_calls(wire_format: str) -> None:
    row = a_row(0, answer=write_calls([TRANSFER, FunctionCall("balance")], wire_format))
    completion = await answered(simulated(rates={}), row)
    assert read_calls(completion.columns()["response"]).calls == (TRANSFER, FunctionCall("balance"))
    assert [set(call) for call in completion.tool_calls] == [{"id", "type", "function"}] * 2
    assert completion.finish_reason == "tool_calls"


ACCEPTED: Any = [{"transfer": {"amount": [2500, 2500.0], "to": ["Maria"], "on": ["2026-03-05", ""], "by": [""]}}]


async def test_the_first_accepted_values_of_a_question_of_bfcl_are_the_answer() -> None:
    row = a_row(0, ground_truth=ACCEPTED, check="simple")
    tools = [{"name": "transfer", "parameters": {"type": "object", "required": ["amount", "to", "on"]}}]
    completion = await answered(simulated(rates={}), row, tools)
    assert read_calls(completion.columns()["response"]).calls == (TRANSFER,)


@pytest.mark.parametrize("check", ["simple", "irrelevance", "relevance", "amount"])
async def test_a_column_check_of_other_data_changes_no_ground_truth(check: str) -> None:
    row = a_row(0, ground_truth=write_calls([TRANSFER], "openai"), check=check)
    completion = await answered(simulated(rates={}), row)
    assert read_calls(completion.columns()["response"]).calls == (TRANSFER,)


async def test_without_mistakes_a_text_comes_back_as_it_is() -> None:
    completion = await answered(simulated(rates={}), a_row(0, answer=TEXT))
    assert (completion.text, completion.tool_calls, completion.finish_reason) == (TEXT, (), "stop")


async def test_data_that_is_no_call_comes_back_as_its_json_text() -> None:
    assert (await answered(simulated(rates={}), a_row(0, answer={"a": [1]}))).text == '{"a":[1]}'


async def test_text_beside_a_call_stays() -> None:
    truth = {"role": "assistant", "content": "One moment.", "tool_calls": write_calls([TRANSFER], "openai")}
    completion = await answered(simulated(rates={}), a_row(0, answer=truth))
    assert (completion.text, len(completion.tool_calls)) == ("One moment.", 1)


async def test_an_additional_argument_may_have_a_default_without_letters() -> None:
    schema = {"type": "object", "properties": {"amount": {}, "separator": {"enum": ["-"], "default": "-"}}}
    tools: Any = [{"type": "function", "function": {"name": "transfer", "parameters": schema}}]
    row = a_row(0, answer=write_calls([FunctionCall("transfer", {"amount": 1})], "tool_uses"))
    endpoint = simulated(rates={"extra_argument": 1.0})
    completion = await endpoint.complete(ChatRequest(messages=[{"role": "user", "content": "1"}], tools=tools, row=row))
    (call,) = read_calls(completion.columns()["response"]).calls
    assert set(call.arguments) == {"amount", "separator"}


async def test_every_answer_says_that_it_is_simulated() -> None:
    endpoint = simulated()
    assert endpoint.simulated
    assert endpoint.settings()["simulated"] is True
    for number in range(50):
        completion = await answered(endpoint, a_row(number))
        assert completion.columns()["simulated"] is True
        assert (completion.request_id or "").startswith("simulated-")


async def test_an_answer_carries_plausible_usage_and_latency() -> None:
    completion = await answered(simulated(), a_row(0))
    assert 1 <= (completion.usage.output_tokens or 0) < (completion.usage.input_tokens or 0) < 500
    assert 50 < (completion.latency_ms or 0) < 5000


async def test_a_row_gets_the_same_answer_in_any_order_and_at_any_concurrency() -> None:
    rows = [a_row(number) for number in range(100)]
    forwards = [await answered(simulated(seed=3), row) for row in rows]
    one = simulated(seed=3)
    backwards = await asyncio.gather(*(answered(one, row) for row in reversed(rows)))
    assert forwards == backwards[::-1]


async def test_another_seed_gives_other_mistakes() -> None:
    rows = [a_row(number) for number in range(50)]
    first, second = [
        [(await answered(simulated(seed=seed), row)).columns()["response"] for row in rows] for seed in (1, 2)
    ]
    assert first != second


async def test_the_rates_are_kept() -> None:
    rates = {"number_as_string": 0.3, "missing_argument": 0.2, "answered_instead_of_called": 0.1}
    endpoint = simulated(seed=1, rates=rates)
    seen = Counter([sort_of(await answered(endpoint, a_row(number))) for number in range(2000)])
    # Binomial with n = 2000: four standard deviations are 82, 72 and 54 around 600, 400 and 200.
    assert abs(seen["text number"] - 600) < 82
    assert abs(seen["missing"] - 400) < 72
    assert abs(seen["no call"] - 200) < 54
    assert sum(seen.values()) == 2000
    assert seen["right"] == 2000 - seen["text number"] - seen["missing"] - seen["no call"]


def sort_of(completion: Completion) -> str:
    calls = read_calls(completion.columns()["response"]).calls
    if not calls:
        return "no call"
    if calls == (TRANSFER,):
        return "right"
    return "missing" if len(calls[0].arguments) < 3 else "text number"


async def test_call_rows_and_answer_rows_have_rates_of_their_own() -> None:
    endpoint = simulated(rates={"wrong_function": 1.0, "paraphrase": 1.0})
    assert (await answered(endpoint, a_row(0))).tool_calls[0]["function"] != "transfer"
    assert (await answered(endpoint, a_row(0, answer=TEXT))).text not in (None, TEXT)


async def test_a_mistake_without_occasion_is_not_made() -> None:
    endpoint = simulated(rates={"date_format": 1.0, "called_instead_of_answered": 1.0})
    without_date = write_calls([FunctionCall("transfer", {"amount": 1})], "openai")
    completion = await answered(endpoint, a_row(0, answer=without_date))
    assert read_calls(completion.columns()["response"]).calls == (FunctionCall("transfer", {"amount": 1}),)
    assert (await answered(endpoint, a_row(0, answer=TEXT), tools=None)).text == TEXT


async def test_the_ground_truth_is_the_column_answer_else_ground_truth_else_the_one_that_is_named() -> None:
    endpoint = simulated(rates={})
    assert (await answered(endpoint, a_row(0, answer="a", ground_truth="g"))).text == "a"
    assert (await answered(endpoint, a_row(0, ground_truth="g", other="o"))).text == "g"
    named = simulated(rates={}, ground_truth="other")
    assert (await answered(named, a_row(0, answer="a", other="o"))).text == "o"


async def test_a_row_without_ground_truth_is_an_error_that_says_how_to_name_it() -> None:
    with pytest.raises(
        ReplyError,
        match="row row-3: the simulated endpoint finds no ground truth in the column 'answer' or 'ground_truth'",
    ):
        await answered(simulated(), a_row(3, question="?", answer=None))


async def test_a_request_without_a_row_is_told_that_nobody_answered() -> None:
    completion = await answered(simulated(), None)
    assert (completion.text or "").startswith("This is a simulated model.")
    assert completion.simulated


async def test_the_latency_asked_for_is_the_average_of_what_is_reported() -> None:
    endpoint = simulated(latency_ms=2.0)
    reported = [c.latency_ms or 0 for c in await asyncio.gather(*(answered(endpoint, a_row(n)) for n in range(200)))]
    assert all(1.0 <= each <= 3.0 for each in reported)
    # Uniform from 1 to 3: the mean of 200 has a standard deviation of 0.04.
    assert abs(sum(reported) / len(reported) - 2.0) < 0.16


@pytest.mark.parametrize("row_id", ["\ud83d", "row\0", "", "x" * 10_000])
async def test_any_row_id_will_do(row_id: str) -> None:
    assert (await answered(simulated(), Row(0, row_id, {"answer": TEXT}, ""))).simulated


def test_the_workspace_s_definition_is_the_embedded_one() -> None:
    assert (ROOT / "endpoints" / "simulated.yaml").read_text("utf-8") == default_definition()


def test_the_embedded_definition_gives_a_rate_to_every_mistake_and_nothing_else() -> None:
    definition = yamltext.parse_yaml(default_definition(), "default")
    assert isinstance(definition, dict)
    rates = definition["rates"]
    assert isinstance(rates, dict)
    assert list(rates) == [*CALL_MISTAKES, *ANSWER_MISTAKES]


def test_the_embedded_definition_can_be_loaded_and_its_rates_are_the_default() -> None:
    loaded = load_endpoint(ROOT / "endpoints" / "simulated.yaml")
    assert loaded.settings()["rates"] == simulated().settings()["rates"]
    assert loaded.answer_settings()["seed"] == 7


@cases("simulators")
def test_a_wrong_definition_names_file_line_and_key(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "sim.yaml"
    path.write_text(f"kind: simulated\n{line}\n")
    with pytest.raises(ConfigurationError, match=rf"sim\.yaml, line 2: {complaint}"):
        load_endpoint(path)


def test_rates_that_are_given_stand_alone() -> None:
    endpoint = load_endpoint({"kind": "simulated", "rates": {"paraphrase": 1}})
    assert endpoint.settings()["rates"] == {"paraphrase": 1}


def test_answers_depend_on_seed_rates_and_column_not_on_name_or_latency() -> None:
    plain = simulated(seed=1)
    assert plain.answer_settings() == simulated(seed=1, name="other", latency_ms=5).answer_settings()
    assert plain.answer_settings() != simulated(seed=2).answer_settings()
    assert plain.answer_settings() != simulated(seed=1, ground_truth="x").answer_settings()
    assert plain.depends_on_row


BOOK = {
    "type": "object",
    "properties": {
        "place": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "people": {"type": "integer"},
        "area": {"type": "string", "enum": ["inside", "terrace", "bar"]},
        "smoking": {"type": "boolean", "default": False},
    },
    "required": ["place", "people"],
}
BOOKING_TOOLS: Any = [
    {"type": "function", "function": {"name": "book_table", "parameters": BOOK}},
    {"name": "cancel_table", "parameters": {"type": "object", "properties": {"id": {"type": "string"}}}},
]
MESSAGES: Any = [{"role": "user", "content": "A table for four at Casa Mia in Lisbon"}]
SITUATION = Situation.of_request(ChatRequest(MESSAGES, BOOKING_TOOLS))
CALL = FunctionCall("book_table", {"place": "Casa Mia", "day": "2026-03-05", "people": 4, "area": "inside"})
RIGHT = SimulatedAnswer(calls=(CALL,))


def outcomes(mistake: Mistake, draft: SimulatedAnswer = RIGHT, situation: Situation = SITUATION) -> list[Any]:
    return [mistake(draft, situation, Random(seed)) for seed in range(60)]


def changed_arguments(name: str, draft: SimulatedAnswer = RIGHT, situation: Situation = SITUATION) -> list[Any]:
    """All the argument sets that a mistake makes; each outcome differs from the right one in exactly one argument."""
    found = []
    for outcome in outcomes(CALL_MISTAKES[name], draft, situation):
        assert outcome is not None
        (call,) = outcome.calls
        (right,) = draft.calls
        assert call.name == right.name
        names = {*call.arguments, *right.arguments}
        different = [n for n in names if call.arguments.get(n, "gone") != right.arguments.get(n, "gone")]
        assert len(different) == 1
        found.append({different[0]: call.arguments.get(different[0], "gone")})
    return found


def test_number_as_string_turns_the_number_into_its_text() -> None:
    assert changed_arguments("number_as_string") == [{"people": "4"}] * 60


def test_number_conversion_gives_a_fraction_for_percent_and_thousands_for_units() -> None:
    loan = SimulatedAnswer(calls=(FunctionCall("loan", {"amount": 250000, "interest_rate": 5, "years": 3}),))
    changes = changed_arguments("number_conversion", loan)
    assert {tuple(change.items()) for change in changes} == {(("amount", 250),), (("interest_rate", 0.05),)}


def test_wrong_argument_stays_within_the_type_and_the_choices() -> None:
    changes = changed_arguments("wrong_argument")
    assert {change["area"] for change in changes if "area" in change} == {"terrace", "bar"}
    assert {change["people"] for change in changes if "people" in change} == {5, 6}
    assert {change["day"] for change in changes if "day" in change} == {"2026-03-04", "2026-03-06"}
    assert {change["place"] for change in changes if "place" in change} == {"Lisbon"}


def test_wrong_argument_reaches_into_lists_and_objects() -> None:
    nested = SimulatedAnswer(calls=(FunctionCall("f", {"a": {"b": [True, None]}}),))
    assert changed_arguments("wrong_argument", nested) == [{"a": {"b": [False, None]}}] * 60


def test_missing_argument_leaves_out_a_required_one() -> None:
    gone = {name for change in changed_arguments("missing_argument") for name in change}
    assert gone == {"place", "people"}


def test_missing_argument_takes_any_where_no_schema_says_which_are_required() -> None:
    gone = {name for change in changed_arguments("missing_argument", situation=Situation()) for name in change}
    assert gone == {"place", "day", "people", "area"}


def test_extra_argument_adds_an_optional_one_of_the_schema_but_not_at_its_default() -> None:
    assert changed_arguments("extra_argument") == [{"smoking": True}] * 60


def test_extra_argument_invents_one_where_the_schema_has_none_left() -> None:
    for change in changed_arguments("extra_argument", situation=Situation()):
        assert not {*change} & {"place", "day", "people", "area"}


def test_wrong_function_calls_another_one_on_offer_with_the_same_arguments() -> None:
    for outcome in outcomes(CALL_MISTAKES["wrong_function"]):
        assert outcome == SimulatedAnswer(calls=(FunctionCall("cancel_table", CALL.arguments),))


@pytest.mark.parametrize(("name", "miss"), [("get_weather", "fetch_weather"), ("weather", "get_weather")])
def test_wrong_function_misses_a_name_where_there_is_no_other_one(name: str, miss: str) -> None:
    for outcome in outcomes(CALL_MISTAKES["wrong_function"], SimulatedAnswer(calls=(FunctionCall(name),)), Situation()):
        assert outcome
        assert outcome.calls[0].name == miss


def test_one_of_several_calls_is_wrong_and_the_others_stay() -> None:
    draft = SimulatedAnswer(calls=(CALL, FunctionCall("cancel_table", {"id": "x1"}), CALL))
    for name, mistake in CALL_MISTAKES.items():
        for outcome in outcomes(mistake, draft):
            if outcome is None or name == "answered_instead_of_called":
                continue
            assert sum(a != b for a, b in zip(outcome.calls, draft.calls, strict=True)) <= 1


def test_answered_instead_of_called_is_text_and_no_call() -> None:
    texts = {outcome.text for outcome in outcomes(CALL_MISTAKES["answered_instead_of_called"]) if outcome}
    assert len(texts) > 1
    assert all(outcome and not outcome.calls for outcome in outcomes(CALL_MISTAKES["answered_instead_of_called"]))


def test_called_instead_of_answered_fills_in_what_is_required() -> None:
    for outcome in outcomes(ANSWER_MISTAKES["called_instead_of_answered"], SimulatedAnswer("It is sunny.")):
        assert outcome
        (call,) = outcome.calls
        assert outcome.text is None
        assert set(call.arguments) == ({"place", "people"} if call.name == "book_table" else set())
        assert isinstance(call.arguments.get("people", 1), int)


def test_called_instead_of_answered_needs_a_function_on_offer() -> None:
    assert set(outcomes(ANSWER_MISTAKES["called_instead_of_answered"], SimulatedAnswer("x"), Situation())) == {None}


@pytest.mark.parametrize("name", ["number_as_string", "number_conversion", "date_format", "wrong_argument"])
def test_what_has_no_occasion_is_not_made(name: str) -> None:
    draft = SimulatedAnswer(calls=(FunctionCall("f", {"a": None, "b": {}, "c": []}),))
    assert set(outcomes(CALL_MISTAKES[name], draft)) == {None}


@cases("simulators")
def test_the_matcher_names_the_mistake_that_was_made(name: str, kind: str) -> None:
    report = FunctionCall("report", {"share": 0.25, "total": 120000, "from": "2026-03-05", "at": "14:30"})
    for outcome in outcomes(CALL_MISTAKES[name], SimulatedAnswer(calls=(report,))):
        assert outcome
        (pair,) = match_calls(outcome.calls, (report,)).pairs
        assert [difference.kind for difference in pair.differences] == [kind]


@pytest.mark.parametrize(
    ("number", "other"),
    [(0.05, 5), (0.075, 7.5), (30, 0.3), (12.5, 0.125), (2.5, 0.025), (1500, 1.5), (-250000, -250), (0.1, 10)],
)
def test_numbers_are_converted_exactly(number: float, other: float) -> None:
    converted = converted_number(number)
    assert converted == other
    assert type(converted) is type(other)


@pytest.mark.parametrize("value", [0, 0.0, 4, True, "5", None, [5], 10**30, 1e300])
def test_counts_and_what_is_no_number_are_not_converted(value: Any) -> None:
    assert converted_number(value) is None


@cases("simulators")
def test_dates_and_times_have_these_other_formats(text: str, others: list[str]) -> None:
    assert {other_date_or_time(text, Random(seed)) for seed in range(80)} == {*others}


@pytest.mark.parametrize("text", ["", "soon", "2026-02-30", "25:00", "31/31/2020", "Foo 5, 2026", "1:2", "٢٠٢٦-٠٣-٠٥"])
def test_what_is_no_date_or_time_is_left_alone(text: str) -> None:
    assert other_date_or_time(text, Random(1)) is None
    assert shifted_date_or_time(text, Random(1)) is None


def test_a_shifted_date_or_time_keeps_its_format() -> None:
    def shifted(text: str) -> set[str | None]:
        return {shifted_date_or_time(text, Random(seed)) for seed in range(20)}

    assert shifted("March 1, 2026") == {"February 28, 2026", "March 2, 2026"}
    assert shifted("23:15") == {"22:15", "00:15"}
    assert shifted("2026-03-05T14:30") == {"2026-03-04T14:30", "2026-03-06T14:30"}


SENTENCE = "Sure! I'm happy to help you with that. The current price of the movie ticket is 12.50 euros."


def test_a_paraphrase_has_other_words_and_the_same_numbers() -> None:
    texts = [paraphrase(SENTENCE, Random(seed)) for seed in range(100)]
    assert len(set(texts)) > 20
    for text in texts:
        assert text
        assert text != SENTENCE
        assert "12.50 euros" in text


schemas = st.recursive(
    JSON_VALUES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "integer", "number", "string", "boolean", ["string", "null"]]),
            "properties": st.dictionaries(st.sampled_from(["a", "b", "c"]), inner),
            "required": st.lists(st.sampled_from(["a", "b", "c"])) | JSON_VALUES,
            "items": inner,
            "enum": st.lists(JSON_VALUES) | JSON_VALUES,
            "default": JSON_VALUES,
        },
    ),
    max_leaves=12,
)
tools = st.lists(
    st.fixed_dictionaries(
        {}, optional={"name": st.sampled_from(["f", "g", "h", 3]), "parameters": schemas, "function": JSON_VALUES}
    ),
    max_size=3,
)
drafts = st.lists(
    st.builds(
        FunctionCall,
        st.sampled_from(["f", "g", ""]),
        st.dictionaries(st.sampled_from(["a", "b", "c", ""]), JSON_VALUES),
    ),
    min_size=1,
    max_size=3,
)


@given(drafts, tools, st.lists(st.dictionaries(st.sampled_from(["role", "content"]), JSON_VALUES)), st.integers())
def test_every_mistake_changes_any_call_or_says_it_cannot(calls: Any, offered: Any, messages: Any, seed: int) -> None:
    draft = SimulatedAnswer(calls=tuple(calls))
    situation = Situation.of_request(ChatRequest(messages, offered))
    for mistake in CALL_MISTAKES.values():
        outcome = mistake(draft, situation, Random(seed))
        assert outcome is None or outcome.calls != draft.calls


@given(st.text(min_size=1), tools, st.integers())
def test_every_mistake_changes_any_text_or_says_it_cannot(text: str, offered: Any, seed: int) -> None:
    for mistake in ANSWER_MISTAKES.values():
        outcome = mistake(SimulatedAnswer(text), Situation.of_request(ChatRequest([], offered)), Random(seed))
        assert outcome is None or outcome != SimulatedAnswer(text)
