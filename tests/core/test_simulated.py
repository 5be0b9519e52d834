"""The simulated endpoint: ground truth plus seeded mistakes; a row's answer does not depend on other rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from tunecheck import ConfigurationError, ReplyError, Row, _yaml as yamltext
from tunecheck.calls import FORMATS, FunctionCall, write_calls
from tunecheck.endpoints import ChatRequest, Completion, default_definition, load_endpoint
from tunecheck.endpoints._mistakes import ANSWER_MISTAKES, CALL_MISTAKES
from tunecheck.endpoints._simulated import SimulatedEndpoint
from tunecheck.formats import read_calls

ROOT = Path(__file__).resolve().parents[2]

ASKED = [{"role": "user", "content": "Transfer 2500 euros to Maria on 2026-03-05, please"}]
TOOLS = [
    {"type": "function", "function": {"name": "transfer", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "balance", "parameters": {"type": "object"}}},
]
TRANSFER = FunctionCall("transfer", {"amount": 2500, "to": "Maria", "on": "2026-03-05"})
TEXT = "I'm happy to help. The price is 12.50 euros."


def a_row(number: int, **values: Any) -> Row:
    return Row(number, f"row-{number}", values or {"answer": write_calls([TRANSFER], "tool_uses")}, "")


async def answered(endpoint: SimulatedEndpoint, row: Row | None, tools: Any = TOOLS) -> Completion:
    return await endpoint.complete(ChatRequest(messages=ASKED, tools=tools, row=row))


@pytest.mark.parametrize("wire_format", FORMATS)
async def test_without_mistakes_calls_come_back_as_openai_tool_calls(wire_format: str) -> None:
    row = a_row(0, answer=write_calls([TRANSFER, FunctionCall("balance")], wire_format))
    completion = await answered(SimulatedEndpoint(rates={}), row)
    assert read_calls(completion.columns()["response"]).calls == (TRANSFER, FunctionCall("balance"))
    assert [set(call) for call in completion.tool_calls] == [{"id", "type", "function"}] * 2
    assert completion.finish_reason == "tool_calls"


async def test_without_mistakes_a_text_comes_back_as_it_is() -> None:
    completion = await answered(SimulatedEndpoint(rates={}), a_row(0, answer=TEXT))
    assert (completion.text, completion.tool_calls, completion.finish_reason) == (TEXT, (), "stop")


async def test_data_that_is_no_call_comes_back_as_its_json_text() -> None:
    assert (await answered(SimulatedEndpoint(rates={}), a_row(0, answer={"a": [1]}))).text == '{"a":[1]}'


async def test_text_beside_a_call_stays() -> None:
    truth = {"role": "assistant", "content": "One moment.", "tool_calls": write_calls([TRANSFER], "openai")}
    completion = await answered(SimulatedEndpoint(rates={}), a_row(0, answer=truth))
    assert (completion.text, len(completion.tool_calls)) == ("One moment.", 1)


async def test_every_answer_says_that_it_is_simulated() -> None:
    endpoint = SimulatedEndpoint()
    assert endpoint.simulated
    assert endpoint.settings()["simulated"] is True
    for number in range(50):
        completion = await answered(endpoint, a_row(number))
        assert completion.columns()["simulated"] is True
        assert (completion.request_id or "").startswith("simulated-")


async def test_an_answer_carries_plausible_usage_and_latency() -> None:
    completion = await answered(SimulatedEndpoint(), a_row(0))
    assert 1 <= (completion.usage.output_tokens or 0) < (completion.usage.input_tokens or 0) < 500
    assert 50 < (completion.latency_ms or 0) < 5000


async def test_a_row_gets_the_same_answer_in_any_order_and_at_any_concurrency() -> None:
    rows = [a_row(number) for number in range(100)]
    forwards = [await answered(SimulatedEndpoint(seed=3), row) for row in rows]
    one = SimulatedEndpoint(seed=3)
    backwards = await asyncio.gather(*(answered(one, row) for row in reversed(rows)))
    assert forwards == backwards[::-1]


async def test_another_seed_gives_other_mistakes() -> None:
    rows = [a_row(number) for number in range(50)]
    first, second = [
        [(await answered(SimulatedEndpoint(seed=seed), row)).columns()["response"] for row in rows] for seed in (1, 2)
    ]
    assert first != second


async def test_the_rates_are_kept() -> None:
    rates = {"number_as_string": 0.3, "missing_argument": 0.2, "answered_instead_of_called": 0.1}
    endpoint = SimulatedEndpoint(seed=1, rates=rates)
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
    endpoint = SimulatedEndpoint(rates={"wrong_function": 1.0, "paraphrase": 1.0})
    assert (await answered(endpoint, a_row(0))).tool_calls[0]["function"] != "transfer"
    assert (await answered(endpoint, a_row(0, answer=TEXT))).text not in (None, TEXT)


async def test_a_mistake_without_occasion_is_not_made() -> None:
    endpoint = SimulatedEndpoint(rates={"date_format": 1.0, "called_instead_of_answered": 1.0})
    without_date = write_calls([FunctionCall("transfer", {"amount": 1})], "openai")
    completion = await answered(endpoint, a_row(0, answer=without_date))
    assert read_calls(completion.columns()["response"]).calls == (FunctionCall("transfer", {"amount": 1}),)
    assert (await answered(endpoint, a_row(0, answer=TEXT), tools=None)).text == TEXT


async def test_the_ground_truth_is_the_column_answer_else_ground_truth_else_the_one_that_is_named() -> None:
    endpoint = SimulatedEndpoint(rates={})
    assert (await answered(endpoint, a_row(0, answer="a", ground_truth="g"))).text == "a"
    assert (await answered(endpoint, a_row(0, ground_truth="g", other="o"))).text == "g"
    named = SimulatedEndpoint(rates={}, ground_truth="other")
    assert (await answered(named, a_row(0, answer="a", other="o"))).text == "o"


async def test_a_row_without_ground_truth_is_an_error_that_says_how_to_name_it() -> None:
    with pytest.raises(ReplyError, match="row row-3: no ground truth in the column 'answer' or 'ground_truth'"):
        await answered(SimulatedEndpoint(), a_row(3, question="?", answer=None))


async def test_a_request_without_a_row_is_told_that_nobody_answered() -> None:
    completion = await answered(SimulatedEndpoint(), None)
    assert (completion.text or "").startswith("This is a simulated model.")
    assert completion.simulated


async def test_the_latency_asked_for_is_the_average_of_what_is_reported() -> None:
    endpoint = SimulatedEndpoint(latency_ms=2.0)
    reported = [c.latency_ms or 0 for c in await asyncio.gather(*(answered(endpoint, a_row(n)) for n in range(200)))]
    assert all(1.0 <= each <= 3.0 for each in reported)
    # Uniform from 1 to 3: the mean of 200 has a standard deviation of 0.04.
    assert abs(sum(reported) / len(reported) - 2.0) < 0.16


@pytest.mark.parametrize("row_id", ["\ud83d", "row\0", "", "x" * 10_000])
async def test_any_row_id_will_do(row_id: str) -> None:
    assert (await answered(SimulatedEndpoint(), Row(0, row_id, {"answer": TEXT}, ""))).simulated


# -- definitions ------------------------------------------------------------------------------------------------------


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
    assert loaded.settings()["rates"] == SimulatedEndpoint().settings()["rates"]
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
    plain = SimulatedEndpoint(seed=1)
    assert plain.answer_settings() == SimulatedEndpoint(seed=1, name="other", latency_ms=5).answer_settings()
    assert plain.answer_settings() != SimulatedEndpoint(seed=2).answer_settings()
    assert plain.answer_settings() != SimulatedEndpoint(seed=1, ground_truth="x").answer_settings()
    assert plain.depends_on_row
