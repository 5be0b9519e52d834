"""`--better-than RUN` and `--until-decided`: what the command says of a run that stops early, and how it goes on."""

import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli_parts import Said, inside, replay, rows, workspace
from tests.tables import cases

from tunecheck import Run
from tunecheck_upload import Contents

COUNT = 120

Tunecheck = Callable[..., Said]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of 120 rows, with a run `good`, and an endpoint that gets half of the rows wrong."""
    folder = workspace(tmp_path_factory.mktemp("made"), rows(COUNT))
    right: dict[str, object] = {str(row["id"]): row["answer"] for row in rows(COUNT)}
    replay(folder, right, "good")
    replay(folder, {**right, **{f"r{at}": "something else" for at in range(0, COUNT, 2)}}, "bad")
    assert inside(folder, *evaluate("good")).code == 0
    return folder


@pytest.fixture
def tunecheck(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tunecheck:
    """The command in a copy of that workspace."""
    folder = shutil.copytree(made, tmp_path / "workspace")
    monkeypatch.chdir(folder)
    return lambda *arguments: inside(folder, *arguments)


def evaluate(endpoint: str, *more: str) -> tuple[str, ...]:
    endpoint = f"endpoints/{endpoint}.yaml" if "/" not in endpoint else endpoint
    of = ("--endpoint", endpoint, "--name", Path(endpoint).stem, "--evaluators", "function_call_match")
    return ("evaluate", "--dataset", "small.jsonl", *of, *more)


UNTIL_WORSE = ("--better-than", "good", "--until-decided")


def newest() -> Run:
    return Run(max(Path("eval_results").iterdir(), key=lambda each: each.stat().st_mtime_ns))


def test_a_worse_run_stops_early_and_the_gate_is_not_met(tunecheck: Tunecheck) -> None:
    said = tunecheck(*evaluate("bad", *UNTIL_WORSE, "--json"))
    assert said.code == 3
    found = said.json()
    assert found["decision"]["outcome"] == "worse"
    assert found["rows"] == found["decision"]["rows"] < COUNT
    gate = found["gates"][0]
    assert gate["outcome"] == "not_met"
    assert gate["gate"].startswith("function_call_match: shown to be better than good-")
    assert "valid for any early stop" in gate["remark"]


def test_every_output_says_that_the_run_stopped_early(tunecheck: Tunecheck) -> None:
    said = tunecheck(*evaluate("bad", *UNTIL_WORSE, "--junit", "gates.xml", "--markdown", "page.md"))
    text = " ".join(said.out.split())
    assert " points. STOPPED EARLY: worse than good-" in text
    assert "interval, valid for any early stop" in text
    failures = ElementTree.parse("gates.xml").getroot().iter("failure")
    assert any(str(each.text).startswith("STOPPED EARLY: worse than good-") for each in failures)
    assert "STOPPED EARLY" in Path("page.md").read_text("utf-8")
    assert "STOPPED EARLY" in tunecheck("runs").out
    assert "STOPPED EARLY" in tunecheck("compare", "good", "bad").out.split("function_call_match")[0]
    assert "STOPPED EARLY" in tunecheck("select", "good", "bad").out
    assert "STOPPED EARLY" in Contents(newest(), (), allow_simulated=False).tags["stopped_early"]
    tunecheck("report", "bad", "--out", "report.html")
    assert "STOPPED EARLY" in Path("report.html").read_text("utf-8")


def test_all_asks_the_rest_and_a_resumed_run_stays_whole(tunecheck: Tunecheck) -> None:
    said = " ".join(tunecheck(*evaluate("bad", *UNTIL_WORSE)).out.split())
    assert f"To run them: tunecheck evaluate --resume {newest().id} --all" in said
    whole = tunecheck("evaluate", "--resume", "bad", "--all", "--json")
    assert (whole.code, whole.json()["rows"], whole.json()["decision"]) == (3, COUNT, None)
    again = tunecheck("evaluate", "--resume", "bad", "--json")
    assert again.json()["rows"] == COUNT
    assert "STOPPED EARLY" not in tunecheck("runs").out


def test_a_stopped_run_that_is_resumed_without_more_decides_the_same(tunecheck: Tunecheck) -> None:
    first = tunecheck(*evaluate("bad", *UNTIL_WORSE, "--json")).json()
    again = tunecheck("evaluate", "--resume", "bad", "--json").json()
    assert again["decision"] == first["decision"]
    assert again["metrics"] == first["metrics"]


def test_no_worse_is_shown_before_all_rows_are_asked(tunecheck: Tunecheck) -> None:
    until = ("--no-worse-than", "good", "--margin", "0.2", "--until-decided", "--confidence", "0.9")
    said = tunecheck(*evaluate("good", *until, "--json"))
    assert said.code == 0, said
    decision = said.json()["decision"]
    assert (decision["outcome"], decision["margin"], decision["confidence"]) == ("not_worse", 0.2, 0.9)
    assert decision["rows"] < COUNT
    assert "a complete run would meet the gate" in said.json()["gates"][0]["remark"]


def test_better_than_holds_a_complete_run_too(tunecheck: Tunecheck) -> None:
    equal = tunecheck(*evaluate("good", "--better-than", "last", "--json"))
    assert (equal.code, equal.json()["gates"][0]["outcome"]) == (4, "undecided")
    assert "an improvement is neither shown nor ruled out" in equal.json()["gates"][0]["remark"]
    assert tunecheck(*evaluate("bad", "--better-than", "last")).code == 3


def test_a_configuration_file_decides_as_well(tunecheck: Tunecheck) -> None:
    Path("eval.yaml").write_text("better-than: good\nuntil-decided: true\nseed: 3\n")
    found = tunecheck(*evaluate("bad", "--config", "eval.yaml", "--json")).json()
    assert (found["decision"]["outcome"], found["decision"]["seed"]) == ("worse", 3)


@cases("cli")
def test_options_that_do_not_go_together_are_refused(tunecheck: Tunecheck, arguments: list[str], words: str) -> None:
    said = tunecheck(*evaluate("bad", *arguments))
    assert said.code == 2
    assert words in said.err
