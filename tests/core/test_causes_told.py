"""Reasons of failures on the terminal, in files for a pipeline and in gates; changes of serving come first."""

from pathlib import Path

import pytest
from tests.cli_parts import Said, call, here, replay, rows, workspace

from tunecheck.pipeline import read_failures
from tunecheck.plugins import JSON

ANSWERS: dict[str, object] = {
    "r0": call(people=2),
    "r1": "the answer to question 1 is this one",
    "r2": call(name="cancel", people=4),
    "r3": "I'm sorry, but I can't help with that.",
    "r4": '<tool_call>{"name": "book", "arguments": {"day": "2026-0',
    "r5": "the answer to question 5 is this one",
}
SERVING, MODEL = "failed because of how the model is served", "failed because of the model"


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    monkeypatch.chdir(workspace(tmp_path, rows()))
    replay(tmp_path, ANSWERS)
    gates = ("--fail-under", "cause.cut_off<=10%", "--fail-under", "cause.refusal<=0.2")
    files = ("--markdown", "out.md", "--junit", "out.xml")
    return here(capsys, "evaluate", "--dataset", "small.jsonl", "--endpoint", "recorded", "--details", *gates, *files)


def test_a_run_tells_its_causes_with_a_row_and_what_to_try(said: Said, tmp_path: Path) -> None:
    assert said.code == 3, said
    details = said.out.partition(SERVING)[2]
    assert 0 < details.index("cut off at the token limit") < details.index(MODEL)
    assert "try: raise max_tokens" in said.out
    assert "e.g. r4" in said.out
    assert "called a function that is not among the tools" in said.out
    page = (tmp_path / "out.md").read_text("utf-8")
    assert page.index(f"**{SERVING}**") < page.index(f"**{MODEL}**")
    assert "| 1 | 16.7% | cut off at the token limit e.g. `r4` |" in page
    assert '<property name="cause.refusal" value="1"' in (tmp_path / "out.xml").read_text("utf-8")
    assert "gate NOT met  required cause.cut_off <= 0.1" in said.out
    assert "gate met      required cause.refusal <= 0.2" in said.out


def test_causes_are_counted_with_their_evidence_in_words() -> None:
    evidence: dict[str, JSON] = {"call": "f", "path": "a", "expected": 5, "actual": "5"}
    row: dict[str, JSON] = {"row_id": "x", "cause": "wrong_argument.number_as_text", "cause_evidence": evidence}
    found = read_failures([row], {})
    (group,) = found.causes.values()
    assert (group.title, group.rows, group.example) == ("a number written as text", 1, "x")
    assert group.words == 'f: argument "a" expected 5, got "5" (number_as_text)'
