"""A memory run's figures, and the files that the GoodAI benchmark would have left of it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from checks.goodai_run import read_log
from msgspec import to_builtins
from tests.memory_session_parts import Had, have, joined_tests, some_settings, some_tests
from tests.pipeline_parts import strict_json, strict_lines
from tests.tables import cases

from tunecheck_memory import Outcome, Send, write_definitions
from tunecheck_memory._benchmark import safe_name
from tunecheck_memory._events import read_events
from tunecheck_memory._run_files import Scored, agent_folder, run_figures, write_results
from tunecheck_memory._session import START_US, SessionState


def state_of(*exchanges: tuple[str, str, float | None, bool]) -> SessionState:
    """Books of filler: message, reply, milliseconds, adopted."""
    state = SessionState(lambda text: len(text.split()))
    for message, reply, latency_ms, adopted in exchanges:
        state.note(Send("", message), Outcome(START_US, reply, latency_ms, adopted=adopted))
    return state


def scored(title: str, *scores: float) -> list[Scored]:
    return [Scored(title, 1, score, 100) for score in scores]


# -- figures, by hand


def test_deviations_are_those_of_a_population() -> None:
    figures = run_figures([*scored("Colours", 1.0, 0.0), *scored("Shopping", 0.2, 0.4, 0.6)], [])
    assert next(iter(figures.datasets.values())).std == pytest.approx(0.5)
    assert [*figures.datasets.values()][1].std == pytest.approx(math.sqrt(0.08 / 3))
    assert figures.std == pytest.approx(0.5 + math.sqrt(0.08 / 3))


@cases("memory")
def test_the_figures_of_a_run_are_those_of_its_tests_and_conversations(
    tests: list[Any], sessions: list[Any], figures: dict[str, float | None], datasets: list[Any] | None
) -> None:
    found = run_figures([Scored(title, 1, *test) for title, *test in tests], [state_of(*each) for each in sessions])
    assert {name: getattr(found, name) for name in figures} == figures
    if datasets is not None:
        assert [[each.tests, each.scored, each.mean] for each in found.datasets.values()] == datasets
    json.dumps(to_builtins(found), allow_nan=False)


def test_the_figures_of_recorded_runs_are_those_that_the_benchmark_reports(shared_data: Path) -> None:
    """Its definition of a score: the mean of each data set's tests, summed."""
    for file in sorted((shared_data / "ltm" / "tests").glob("*/results/*/scores.jsonl")):
        rows = strict_lines(file)
        by_title: dict[str, list[float]] = {}
        for row in rows:
            by_title.setdefault(row["dataset"], []).append(row["score"] / row["max_score"])
        expected = sum(sum(scores) / len(scores) for scores in by_title.values())
        tests = [Scored(row["dataset"], 1, row["score"] / row["max_score"], row["tokens"]) for row in rows]
        figures = run_figures(tests, [])
        assert figures.score == pytest.approx(expected)
        perfect = [row["tokens"] for row in rows if row["score"] == row["max_score"]]
        assert figures.memory_span == (pytest.approx(sum(perfect) / len(perfect)) if perfect else None)


# -- the benchmark's own files


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Had:
    return have(tmp_path_factory.mktemp("session"), settings=some_settings(start_us=START_US))


@pytest.fixture(scope="module")
def results(session: Had, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = agent_folder(tmp_path_factory.mktemp("legacy") / "Bench", "the/agent", 1)
    definitions = {test.id: test.definition for test in some_tests()}
    scores = {"Colours - 0": Scored("Colours", 1, 0.5, 0, "Colours - 0", "half of it")}
    write_results(folder, read_events(session.path), session.state, definitions, scores, {"agent_costs_usd": 1.25})
    write_definitions(definitions.values(), folder.parent.parent / "definitions")
    return folder


@pytest.mark.parametrize(("name", "file"), [("a/b", "a_b"), ("..", "run"), ("x\n:y", "x__y"), (" .é. ", "é")])
def test_names_of_files_are_safe(name: str, file: str) -> None:
    assert safe_name(name) == file


def test_a_result_file_says_what_the_benchmark_s_does(session: Had, results: Path) -> None:
    result = strict_json((results / "Colours" / "0_0.json").read_bytes())
    keys = "task_log actual_responses score max_score reasoning tokens characters full_log expected_responses needles"
    assert list(result) == keys.split()
    state = session.state.tests["Colours - 0"]
    assert (result["score"], result["max_score"], result["reasoning"]) == (0.5, 1, ["half of it"])
    assert result["actual_responses"] == state.responses
    assert result["needles"] == 3
    assert len(result["task_log"]) == 2 * 4, "three statements and a question, each with its reply"
    assert result["task_log"][0].startswith("Test (2025-01-06 09:00:0")
    assert result["full_log"][0].endswith("Test 'Colours - 0' BEGINS")
    assert any("WAITING for" in line and "TOKENS, 0:00:00 TIME." in line for line in result["full_log"])
    assert result["full_log"][-1].endswith("Test 'Colours - 0' ENDS")


def test_a_test_without_a_score_has_none(results: Path) -> None:
    assert strict_json((results / "Colours" / "1_0.json").read_bytes())["score"] is None


def test_the_statistics_are_those_of_the_conversation(session: Had, results: Path) -> None:
    stats = strict_json((results / "runstats.json").read_bytes())
    assert (stats["total_tokens"], stats["agent_tokens"]) == (session.state.tokens, session.state.agent_tokens)
    assert stats["agent_costs_usd"] == 1.25
    assert stats["duration"] == pytest.approx(session.state.generated_ms / 1000)


def test_a_test_that_waits_for_days_says_so_in_the_log(tmp_path: Path) -> None:
    had = have(tmp_path, joined_tests(waits_s=200_000))
    definitions = {test.id: test.definition for test in joined_tests(waits_s=200_000)}
    write_results(tmp_path / "r", read_events(had.path), had.state, definitions, {}, {})
    log = read_log(tmp_path / "r" / "master_log.jsonl")
    assert 200_000 in [event.seconds for event in log.events]
    result = strict_json((tmp_path / "r" / "Colours" / "0_0.json").read_bytes())
    assert any("2 days, 7:33:20 TIME." in line for line in result["full_log"])
