"""The main job on the converted Glaive sample with a judge: its table, its rows, and the judge compared with labels."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import Said, write_lines
from tests.judge_scripts import JudgedWorkspace, health, serving

FOUND = "=== strict comparison"
"""Stands in what the judge is asked where calls were compared."""


def rule(kind: str, name: str, score: float, *said: str, of_calls: bool = True) -> dict[str, Any]:
    """A judge that takes the kind from what the strict comparison says."""
    listed = [{"where": "see the comparison", "expected": "this", "actual": "that", "kind": kind}]
    when = {"user": {"all": [FOUND, *said]} if of_calls else {"none": [FOUND]}}
    return {"name": name, "when": when, "answer": {"reason": f"by rule {name}", "differences": listed, "score": score}}


RULES = [
    rule("function", "misnamed", 0, "wrong function"),
    rule("function", "not called", 0, "answered instead of calling"),
    rule("function", "called", 0, "when it should have answered"),
    rule("date format", "date", 0.7, "(date_or_time_format)"),
    rule("number conversion", "converted", 0.5, "(number_conversion)"),
    rule("number conversion", "as text", 0.75, "(number_as_text)"),
    rule("missing", "missing", 0.4, "missing argument"),
    rule("extra", "extra", 0.6, "unexpected argument"),
    rule("wording", "nearly", 0.85, "(close_wording)"),
    rule("argument", "another", 0.3, "(other)"),
    rule("wording", "told otherwise", 0.95, of_calls=False),
]
PASSES = 0.8


@dataclass
class Glaive:
    workspace: JudgedWorkspace
    said: Said
    rows: dict[str, dict[str, Any]]
    written: Any
    counts: dict[str, int]
    unmatched: int

    def failed(self, evaluator: str) -> set[str]:
        column = f"outputs.{evaluator}.{evaluator}_result"
        return {row_id for row_id, row in self.rows.items() if row[column] == "fail"}

    def kinds(self, row_id: str) -> list[str]:
        return [each["kind"] for each in self.rows[row_id]["outputs.difference.difference_differences"]]


@pytest.fixture(scope="module")
def glaive(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Glaive]:
    folder = tmp_path_factory.mktemp("glaive")
    with serving(folder, RULES) as url:
        workspace = JudgedWorkspace(folder, url, [])
        raw = shared_data / "glaive" / "glaive_v2_sample.json"
        converted = workspace.run("datasets", "convert", str(raw), "--from", "glaive", "--out", "datasets/glaive.jsonl")
        assert converted.code == 0, converted.err
        said = workspace.run(
            "evaluate", "--dataset", "glaive.jsonl", "--evaluators", "function_call_match,difference",
            "--judge", "judge", "--details",
        )  # fmt: skip
        assert said.code == 0, said.err
        counts = health(url)
        yield Glaive(workspace, said, workspace.rows(), workspace.written(), counts["rules"], counts["unmatched"])


def test_every_row_has_a_verdict_and_only_rows_that_differ_cost_one(glaive: Glaive) -> None:
    assert len(glaive.rows) == glaive.written["rows"] == 662
    assert (glaive.written["failed_rows"], glaive.unmatched) == (0, 0)
    skipped = [row_id for row_id in glaive.rows if glaive.rows[row_id]["outputs.difference.difference"] == 1]
    assert all("no model was asked" in glaive.rows[each]["outputs.difference.difference_reason"] for each in skipped)
    assert len(skipped) > 100, "the simulated endpoint answers most calls rightly"
    bought = glaive.written["usage"]["difference"]["calls"]
    assert bought == sum(glaive.counts.values())
    assert bought <= len(glaive.rows) - len(skipped), "rows that ask the same share a call"


def test_each_row_has_the_kind_and_the_pass_mark_of_its_rule(glaive: Glaive) -> None:
    rules = {each["answer"]["reason"]: each["answer"] for each in RULES}
    for row_id, row in glaive.rows.items():
        given = rules.get(row["outputs.difference.difference_reason"])
        if given is None:
            continue
        assert row["outputs.difference.difference"] == given["score"]
        assert row["outputs.difference.difference_passed"] is (given["score"] >= PASSES)
        assert row["outputs.difference.difference_differences"] == given["differences"], row_id
    assert all(glaive.counts[name] for name in ("misnamed", "not called", "called", "date", "missing", "extra"))


def test_both_evaluators_see_the_same_rows_call_another_function(glaive: Glaive) -> None:
    """One compares without a model; the other's judge was told what the comparison found."""
    other_function = {row_id for row_id in glaive.rows if "function" in glaive.kinds(row_id)}
    assert other_function == glaive.failed("function_call_match")
    assert len(other_function) > 10


def test_each_failed_row_is_listed_once_under_its_cause_or_the_kind_that_the_judge_gives(glaive: Glaive) -> None:
    failed = glaive.failed("difference") | glaive.failed("function_call_match")
    caused = {row_id for row_id in failed if glaive.rows[row_id]["cause"]}
    _, _, below = glaive.said.out.partition("failed for a reason that an evaluator gives")
    pattern = r"^ *(\d+) +[\d.]+% +difference: (\D.*?) +e\.g\. (\S+)"
    lines = re.findall(pattern, below.partition("\n\n")[0], re.MULTILINE)
    expected = Counter(glaive.kinds(row_id)[0] for row_id in failed - caused)
    assert {kind: int(count) for count, kind, _ in lines} == expected
    assert [int(count) for count, *_ in lines] == sorted(expected.values(), reverse=True)
    assert all(kind in glaive.kinds(row_id) for _, kind, row_id in lines), "the example is one of them"
    assert caused
    assert set(expected) == {"date format", "number conversion", "missing", "extra", "argument"}


def test_the_table_says_what_was_spent_and_that_it_is_simulated(glaive: Glaive) -> None:
    spent = glaive.written["usage"]["difference"]
    line = f"difference {spent['calls']} {spent['input_tokens']:,} {spent['output_tokens']:,} no price"
    assert line in " ".join(glaive.said.out.split())
    assert "SIMULATED" in glaive.said.out
    rate = 1 - len(glaive.failed("difference")) / 662
    assert f"{rate:.1%}" in glaive.said.out


def test_the_judge_is_calibrated_on_rows_that_carry_labels(glaive: Glaive) -> None:
    """The labels: which function was called is all that this person looks at."""
    called = [row for row in glaive.rows.values() if row["row_kind"] == "call"]
    labels = [
        {
            "id": row["row_id"],
            "response": row["outputs.response"],
            "ground_truth": row["inputs.answer"],
            "tool_definitions": row["inputs.tools"],
            "label": row["outputs.function_call_match.function_call_match_result"],
        }
        for row in called
    ]
    write_lines(glaive.workspace.folder / "labels.jsonl", labels)
    said = glaive.workspace.run(
        "judge", "calibrate", "--labels", "labels.jsonl", "--evaluator", "difference", "--judge", "judge", "--json"
    )
    assert said.code == 0, said.err
    found = said.json()
    assert found["compared"] == len(called) == 137
    agreed = [
        row for row in called if row["row_id"] not in glaive.failed("difference") ^ glaive.failed("function_call_match")
    ]
    assert found["accuracy"]["hits"] == len(agreed)
    differ = {row["row_id"] for row in called} - {row["row_id"] for row in agreed}
    assert {each["row_id"] for each in found["differences"]} == differ
    assert 0 < len(differ) < 40
    assert found["kappa"]["low"] < found["kappa"]["value"] < found["kappa"]["high"] < 1
    assert found["simulated"] is True
