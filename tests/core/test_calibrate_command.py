"""`tunecheck judge calibrate`: what it prints and writes, its exit codes, and a killed run that goes on."""

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import FIRST_TIME, Said, command, environment, here, process, write_lines
from tests.core.test_schemas import check
from tests.scripted_server import scripted
from tests.tables import cases

JUDGE = '''
"""A judge of this workspace: asks a model whether the response is right."""

import json

from tunecheck import Metric, verdict


class Strict:
    judged = True
    primary = "strict"
    metrics = (Metric("strict"),)

    def __init__(self, model_config, threshold: float = 0.5) -> None:
        self.endpoint = model_config
        self.arguments = {"threshold": threshold}
        self.threshold = threshold

    def __call__(self, *, response: str) -> dict:
        raise NotImplementedError

    async def call_with(self, calls, *, response: str) -> dict:
        from tunecheck.endpoints import ChatRequest

        answer = await calls.complete(self.endpoint, ChatRequest([{"role": "user", "content": response}]))
        found = json.loads(answer.text)
        score, why = found["score"], found["why"]
        return verdict("strict", score=score, passed=score >= self.threshold, threshold=self.threshold, reason=why)

    async def close(self) -> None:
        await self.endpoint.close()
'''

SCRIPT = """
rules:
  - {when: {user: busy}, status: 400, message: not this one}
  - {when: {user: right}, answer: {score: 1, why: it is right}}
  - {answer: {score: 0, why: "it is \\e[31mwrong"}}
"""


@pytest.fixture
def folder(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a judge, and labels: 6 right ones, 4 wrong ones, on one of each the judge errs."""
    monkeypatch.setenv("COLUMNS", "120")
    (cwd / "evaluators").mkdir()
    (cwd / "evaluators" / "strict.py").write_text(JUDGE)
    (cwd / "script.yaml").write_text(SCRIPT)
    said = ["right"] * 5 + ["wrong"] * 3 + ["wrong", "right"]
    labels = ["pass"] * 5 + ["fail"] * 3 + ["pass", "fail"]
    rows = [{"id": f"r{n}", "response": f"{said[n]} {n}", "label": labels[n]} for n in range(10)]
    write_lines(cwd / "labels.jsonl", rows)
    return cwd


@contextmanager
def serving(folder: Path, script: str = "script.yaml", *options: str) -> Iterator[str]:
    """A scripted server, and `endpoints/judge.yaml` that names it."""
    with scripted(folder / script, *options) as url:
        (folder / "endpoints").mkdir(exist_ok=True)
        (folder / "endpoints" / "judge.yaml").write_text(f"kind: openai\nurl: {url}/v1\nmodel: judge\nretries: 0\n")
        yield url


STRICT = ("judge", "calibrate", "--labels", "labels.jsonl", "--evaluator", "strict", "--judge", "judge")


def calibrated(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Said:
    with serving(folder):
        return here(capsys, *STRICT, *options)


def test_the_report_has_the_figures_the_table_and_the_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = calibrated(folder, capsys)
    assert (said.code, said.err) == (0, FIRST_TIME.format("evaluators/strict.py"))
    text = " ".join(said.out.split())
    assert "SIMULATED verdicts: no model judged" in text
    assert "strict agrees with people on 8 of 10 rows (80.0%, Cohen's kappa 0.58)." in text
    assert "Main disagreement: label pass but verdict fail, 1 of 2 disagreements, e.g. r8." in text
    assert len(said.out.splitlines()) <= 25
    assert "compared 10 of 10 rows" in text
    # Wilson's interval of 8 of 10, and kappa (0.8 - 0.52) / 0.48.
    assert "accuracy 80.0% 49.0% to 94.3%; 8 of 10" in text
    assert "Cohen's kappa 0.58 " in text
    assert "precision of fail 75.0%" in text
    assert "verdict pass verdict fail label pass 5 1 label fail 1 3" in text
    assert re.search(r"r8 +pass +fail \(0\) +it is \[31mwrong", said.out), "escape sequences do not reach a terminal"
    assert re.search(r"r9 +fail +pass \(1\) +it is right", said.out)


def test_json_and_a_file_hold_all_of_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = calibrated(folder, capsys, "--json", "--out", "report.json")
    found = said.json()
    assert found == json.loads((folder / "report.json").read_text())
    assert (found["compared"], found["accuracy"]["hits"], found["simulated"]) == (10, 8, True)
    assert [each["row_id"] for each in found["differences"]] == ["r8", "r9"]
    assert found["kappa"]["low"] < found["kappa"]["value"] < found["kappa"]["high"]
    assert Path(found["run_dir"]).parent.name == "eval_results"


def test_a_saved_calibration_lies_beside_the_runs_by_its_judge(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = calibrated(folder, capsys, "--save", "--json").json()
    run = json.loads((Path(found["run_dir"]) / "run.json").read_text())
    (kept,) = (folder / "eval_results" / "judges").iterdir()
    assert (kept.stem, Path(found["saved"]).name) == (run["evaluators"]["strict"]["judge"], kept.name)
    content = json.loads(kept.read_text())
    check("judge-calibration.json", content)
    assert (content["run"], content["simulated"], len(content["labels"])) == (Path(found["run_dir"]).name, True, 10)
    last = content["labels"][-1]
    assert (last["row_id"], last["label"], last["verdict"]) == ("r9", "fail", "pass")
    assert len({each["inputs"] for each in content["labels"]}) == 10


def test_only_what_a_judge_says_of_pass_and_fail_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(folder / "labels.jsonl", [{"response": "a", "ground_truth": "a", "label": "pass"}])
    said = here(capsys, "judge", "calibrate", "--labels", "labels.jsonl", "--evaluator", "f1_score", "--save")
    assert (said.code, said.err.splitlines()[-1]) == (
        2, "error: --save is only for LLM judges, not for 'f1_score': leave --save out",
    )  # fmt: skip


def test_errors_and_missing_labels_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"response": text, "label": label} for text, label in (("right", "yes"), ("busy", "no"), ("right", None))]
    write_lines(folder / "labels.jsonl", rows)
    said = calibrated(folder, capsys)
    assert said.code == 0
    assert "of 3 rows; left out: 1 without a label, 1 with an error" in " ".join(said.out.split())
    assert "1 row ended in an error: " in said.out
    assert re.search(r"Next, retry the rows with an error: +tunecheck judge calibrate --resume", said.out)
    assert "not this one" in said.out
    again = here(capsys, "judge", "calibrate", "--resume", "last")
    assert "look at the errors that came again (the agreement leaves these rows out):" in " ".join(again.out.split())


def test_where_nothing_can_be_compared_the_exit_code_is_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(folder / "labels.jsonl", [{"response": "busy", "label": "pass"}])
    said = calibrated(folder, capsys, "--quiet")
    advice = f"see why with `tunecheck report {said.out.strip()}`"
    assert (said.code, said.err.splitlines()[-1]) == (1, f"error: no row with a label got a verdict: {advice}")


def test_a_deterministic_evaluator_is_calibrated_as_it_is_set(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"said": "a b c d", "truth": "a b c d", "good": 1}, {"said": "x", "truth": "a b c d", "good": 0}]
    write_lines(folder / "labels.jsonl", rows)
    said = here(
        capsys, "judge", "calibrate", "--labels", "labels.jsonl", "--evaluator", "f1_score", "--label-column", "good",
        "--mapping", "response=${data.said}", "--mapping", "f1_score.ground_truth=${data.truth}",
        "--set", "f1_score.threshold=0.9", "--json",
    )  # fmt: skip
    assert (said.code, said.json()["accuracy"]["hits"], said.json()["simulated"]) == (0, 2, False)


@cases("comparison")
def test_a_mistake_is_one_line_and_exit_code_2(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    said = here(capsys, "judge", "calibrate", *arguments)
    complaints = said.err.removeprefix(FIRST_TIME.format("evaluators/strict.py"))
    assert (said.code, complaints.count("\n")) == (2, 1)
    assert complaint in said.err
    assert not (folder / "eval_results").exists()


def health(url: str) -> Any:
    with urllib.request.urlopen(f"{url}/health", timeout=10) as reply:
        return json.load(reply)


def test_a_killed_run_goes_on_and_no_verdict_is_bought_twice(folder: Path) -> None:
    rows = [{"id": f"r{n}", "response": f"right {n}", "label": "pass"} for n in range(30)]
    write_lines(folder / "labels.jsonl", rows)
    with serving(folder, "script.yaml", "--latency-ms", "50") as url:
        first = subprocess.Popen(command(*STRICT, "--concurrency", "2"), cwd=folder, env=environment())
        until = time.monotonic() + 60
        while health(url)["answers"] < 5 and time.monotonic() < until:
            time.sleep(0.02)
        first.kill()
        first.wait()
        (run,) = (folder / "eval_results").iterdir()
        bought = (run / "journal.jsonl").read_text().count('"k":"call"')
        assert 0 < bought < 30
        refused = process(folder, "evaluate", "--resume", run.name)
        assert refused.code == 2
        assert f"tunecheck judge calibrate --resume {run.name}" in refused.err
        again = process(folder, "judge", "calibrate", "--resume", run.name, "--json")
        assert again.code == 0, again.err
        assert (again.json()["compared"], again.json()["run"]) == (30, run.name)
        # A call that was in flight when the process died is sent again under its key: the server knows it.
        counted = health(url)
        assert counted["rules"]["rule 2"] == 30
        assert counted["answers"] - counted["repeats"] <= 30


def test_a_run_of_another_kind_is_not_taken_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(folder):
        other = here(
            capsys, "evaluate", "--dataset", "labels.jsonl", "--response-column", "response", "--evaluators", "strict",
            "--judge", "judge", "--quiet",
        )  # fmt: skip
    said = here(capsys, "judge", "calibrate", "--resume", Path(other.out.strip()).name)
    assert said.code == 2
    assert "was not started by `tunecheck judge calibrate`" in said.err
