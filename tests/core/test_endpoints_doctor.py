"""`tunecheck check`: a healthy server passes clean, and what real servers do wrong is found and named."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import yaml
from tests.cli_parts import here
from tests.doctor_parts import model, verdicts
from tests.serve_parts import Starter, servers, serving
from tests.tables import cases

from tunecheck.endpoints import CHECKS, Diagnosis, examine, load_endpoint
from tunecheck.plugins import JSON


@pytest.fixture
async def started() -> AsyncIterator[Starter]:
    async with servers() as start:
        yield start


async def test_a_healthy_server_passes_clean(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path)))
    assert len(found) >= 20
    assert {check: verdict.evidence for check, verdict in found.items() if verdict.status != "pass"} == {}


ASKED = "when: {user: weather, last: user, tools: true}"
ANOTHER_UNIT = f"- {{{ASKED}, calls: [{{name: get_weather, arguments: {{city: Lisbon, unit: C}}}}]}}"
NO_CALL = f"- {{{ASKED}, answer: It is sunny there.}}"
IN_REASONING = (
    "- {when: {tools: true}, answer: '', "
    """reasoning: '<tool_call>{"name": "get_weather", "arguments": {"city": "Lisbon"}}</tool_call>'}"""
)
HIDDEN = f"- {{answer: No., reasoning: {'let me see ' * 30}, when: {{tools: false}}}}"


@cases("endpoints")
async def test_what_is_served_wrong_is_found(
    tmp_path: Path, started: Starter, top: str, rules: str, check: str, status: str, evidence: str
) -> None:
    verdict = (await verdicts(await started(model(tmp_path, top, f"  {rules}\n" if rules else ""))))[check]
    assert (verdict.status, evidence in verdict.evidence) == (status, True), verdict


async def test_one_wrong_flag_is_one_failure(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path, "behaviour: {calls_in_text: hermes}")))
    wrong = [check for check, verdict in found.items() if verdict.status == "fail"]
    assert wrong == ["calls are parsed"], "calls in the text are read, so that the rest is still checked"
    assert "--tool-call-parser hermes" in found[wrong[0]].advice


@pytest.mark.parametrize(
    "top", ["behaviour: {calls_in_text: hermes}", "behaviour: {calls_in_text: hermes, reasoning: text}"]
)
async def test_what_it_says_to_change_puts_it_right(tmp_path: Path, started: Starter, top: str) -> None:
    url = await started(model(tmp_path, top))
    changes = (await verdicts(url))["calls are parsed"].change
    found = await verdicts(url, **changes)
    assert changes == {"format": "hermes"}
    assert {check: verdict.status for check, verdict in found.items() if verdict.status != "pass"} == {
        "arguments are JSON": "skip"  # they are written by ourselves
    }


async def test_limits_that_the_service_tells_are_compared_with_the_definition(tmp_path: Path, started: Starter) -> None:
    url = await started(model(tmp_path, "server: {headers: {x-ratelimit-limit-requests: '60'}}"))
    assert (await verdicts(url))["rate limits"].evidence == "60 requests a minute"
    found = (await verdicts(url, limits={"requests_per_minute": 600, "concurrency": 4}))["rate limits"]
    assert found.change == {"limits": {"requests_per_minute": 60, "concurrency": 4}}


async def test_parameters_that_are_renamed_are_written_so(tmp_path: Path, started: Starter) -> None:
    url = await started(model(tmp_path, "server: {parameters: o_series}"))
    found = (await verdicts(url, parameters={"max_tokens": 500}))["parameters are taken"]
    assert (found.status, found.change) == ("warn", {"parameters": {"max_completion_tokens": 500}})


def statuses(found: Mapping[str, Diagnosis], status: str) -> set[str]:
    return {check for check, verdict in found.items() if verdict.status == status}


OF_CALLS = {check.name for check in CHECKS if check.of == "calls"}


async def test_a_model_that_never_calls_passes_no_check_of_calls(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path, rules="  - {when: {tools: true}, answer: It is 17 there.}\n")))
    assert statuses(found, "fail") == {"calls are parsed"}
    assert statuses(found, "skip") == {*OF_CALLS, "streams are the same"}
    assert found["names are kept"].evidence == "no question was answered with a call"
    assert found["finish reasons are true"].evidence == "no whole call was made, stop after a text"


async def test_a_limit_that_is_too_low_is_one_failure(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path, "behaviour: {cut_at_tokens: 5}")))
    assert statuses(found, "fail") == {"nothing is cut off"}
    assert found["long lists of tools"].evidence == "the answer was cut off: archive_voucher {}"
    assert statuses(found, "warn") & {"finish reasons are true"} == set()


async def test_tools_that_are_not_shown_are_one_failure_and_told_in_the_prompt(
    tmp_path: Path, started: Starter
) -> None:
    told = "system: [You can call functions], user: weather, last: user"
    rules = f"""
  - {{when: {{{told}}}, calls: [{{name: get_weather, arguments: {{city: Lisbon, unit: celsius}}}}]}}
  - {{when: {{user: weather, last: user}}, answer: I cannot look that up.}}
  - {{when: {{user: {{any: [Review, thermostat, Eva, calendar, voucher]}}}}, answer: I cannot do that.}}
"""
    url = await started(model(tmp_path, "server: {tools: ignored}\nbehaviour: {calls_in_text: hermes}", rules))
    found = await verdicts(url)
    assert statuses(found, "fail") == {"tools are shown to the model"}
    changes = found["tools are shown to the model"].change
    found = await verdicts(url, **changes)
    assert changes == {"tools": "text", "format": "hermes"}
    assert found["enums are obeyed"].status == "pass"


async def test_a_limit_that_is_not_kept_is_told(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path)), parameters={"max_tokens": 100})
    assert found["parameters are taken"].evidence == "the limit of 100 tokens is not kept: an answer has 173"


async def test_what_changes_is_laid_over_the_parameters_that_are_taken(tmp_path: Path, started: Starter) -> None:
    url = await started(
        model(tmp_path, "server: {parameters: o_series}\nbehaviour: {cut_at_tokens: 50, stop_token: </s>}")
    )
    parameters: JSON = {"max_tokens": 50, "temperature": 0}
    written: dict[str, JSON] = {"kind": "openai", "url": f"{url}/v1", "model": "m", "parameters": parameters}
    found = await examine(load_endpoint(written), written)
    assert found.changes == {"parameters": {"max_completion_tokens": 4096, "stop": ["</s>"]}}


async def test_what_a_template_has_no_place_for_is_not_looked_at(tmp_path: Path, started: Starter) -> None:
    url = f"{await started(model(tmp_path))}/score"
    definition: dict[str, JSON] = {"kind": "azure_ml", "url": url, "response": "result"}
    found = {each.check: each.verdict for each in (await examine(load_endpoint(definition), definition)).findings}
    assert len(found) == len(CHECKS)
    assert statuses(found, "skip") == {check.name for check in CHECKS if check.of != "answers"}
    assert found["calls are parsed"].evidence == "requests hold no tools"
    assert found["tools are shown to the model"].status == "warn"
    assert found["system prompt is obeyed"].status == "pass"


async def test_an_endpoint_that_answers_rows_is_asked_one_question_only() -> None:
    found = await examine(load_endpoint({"kind": "simulated"}), {"kind": "simulated"})
    assert (found.ok, found.findings, found.simulated) == (True, (), True)


def test_each_check_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text("utf-8")
    told = {name.strip() for cell in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE) for name in cell.split(",")}
    assert {check.name for check in CHECKS} - told == set()


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_the_lines_to_put_into_the_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "a-key-of-mine-1234")
    with serving(model(tmp_path, "behaviour: {cut_at_tokens: 50}")) as url:
        definition = f'kind: openai\nurl: {url}/v1\nmodel: m\nauth: {{type: key, value: "${{env:MY_KEY}}"}}  # mine\n'
        Path("mine.yaml").write_text(definition)
        said = here(capsys, "check", "mine.yaml")
        as_json = here(capsys, "check", "mine.yaml", "--json")
    assert (said.code, as_json.code) == (3, 3)
    assert "fail  nothing is cut off: cut off after" in said.out
    assert "SIMULATED answers" in said.out
    line = next(line for line in said.out.splitlines() if line.startswith("  parameters: "))
    assert yaml.safe_load(line) == {"parameters": {"max_tokens": 4096}}
    assert "a-key-of-mine" not in said.out
    found = json.loads(as_json.out)
    assert (found["changes"], found["fail"] > 0) == ({"parameters": {"max_tokens": 4096}}, True)
    assert {check["status"] for check in found["checks"]} <= {"pass", "warn", "fail", "skip"}
