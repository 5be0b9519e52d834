"""`tunecheck evaluate … --judge` against a real server of scripted answers: what each sort of reply becomes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli_parts import write_files
from tests.conftest import ROOT
from tests.judge_scripts import KEY, JudgedWorkspace, health, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tunecheck.plugins import JSON

LISTED = {"where": "day", "expected": "2026-03-05", "actual": "05/03/2026", "kind": "date format"}
WORDED = {**LISTED, "kind": "argument"}
USAGE = {"input_tokens": 1_000, "output_tokens": 100}


def judgement(score: float, reason: str, *differences: object) -> dict[str, Any]:
    return {"reason": reason, "differences": list(differences) or ([] if score >= 0.8 else [WORDED]), "score": score}


def row(row_id: str) -> dict[str, Any]:
    return {"id": row_id, "response": f"it is {row_id}", "ground_truth": "it is something else"}


def rule(row_id: str, **what: Any) -> dict[str, Any]:
    return {"name": row_id, "when": {"user": f"it is {row_id}"}, "usage": USAGE, **what}


def failing(row_id: str, **what: Any) -> dict[str, Any]:
    return {"name": row_id, "when": {"user": f"it is {row_id}"}, **what}


def repair(row_id: str, **what: Any) -> dict[str, Any]:
    """The reply to the second request for a verdict."""
    return {"when": {"request": f"it is {row_id}", "user": "could not be used"}, "usage": USAGE, **what}


GOOD = judgement(0.9, "they tell the same")
RULES = [
    rule("right", answer=judgement(1, "equivalent")),
    rule("wrong", answer=judgement(0.2, "another day", LISTED)),
    rule("fenced", answer=GOOD, fenced=True),
    rule("surrounded", answer=GOOD, around="Well {so to say}, here:\n{}\nIs there more?".replace("{so to say}", "now")),
    rule("mended", answer=judgement(0.4, "a long story"), truncate_at=30),
    rule("cut", answer=judgement(0.4, "a story that never ends"), truncate_at=40),
    repair("mended", name="mending", answer=judgement(0.5, "in short: partly")),
    repair("cut", name="cutting", answer=judgement(0.4, "again a story that never ends"), truncate_at=41),
    rule("refused", refusal="I'm sorry, but I cannot help with that."),
    failing("declined", content_filter="prompt"),
    rule("stopped", content_filter="answer"),
    failing("broken", status=400, message="the context is too long"),
]
ROWS = [row(each["name"]) for each in RULES if each["name"] not in ("mending", "cutting")]
ERRORS = {
    "cut": ("JudgementError", "cut_off"),
    "refused": ("JudgeRefusalError", "refusal"),
    "declined": ("ContentFilterError", "filtered"),
    "stopped": ("ContentFilterError", "filtered"),
    "broken": ("EndpointError", "overflow"),
}
REJECTIONS: dict[str, list[dict[str, Any]]] = {
    "takes a schema": [],
    "takes no schema": [{"name": "rejected", "reject": {"response_format": "json_schema"}}],
    "takes no format": [{"name": "rejected", "reject": "response_format"}],
}


class Judged:
    """A run over all sorts of replies."""

    def __init__(self, workspace: JudgedWorkspace, server: str) -> None:
        self.said = workspace.judged("--details")
        self.rows = workspace.rows()
        self.written = workspace.written()
        self.counts = health(server)["rules"]

    def of(self, row_id: str, key: str = "") -> JSON:
        found: JSON = self.rows[row_id].get(f"outputs.difference.difference{key}")
        return found

    def error(self, row_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.rows[row_id]["error.difference"]
        return found


@pytest.fixture(scope="module", params=REJECTIONS)
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """The same with judges that can and that cannot be held to a form."""
    folder = tmp_path_factory.mktemp("judged")
    with serving(folder, [*REJECTIONS[request.param], *RULES]) as url:
        made = Judged(JudgedWorkspace(folder, url, ROWS, limits={"concurrency": 2}), url)
        rejected = made.counts.pop("rejected", 0)
        assert bool(rejected) == (request.param != "takes a schema")
        # Two rows are in flight, two more lie ready, and three formats may be refused for each of them.
        assert rejected <= 4 * 3 < 3 * len(ROWS), "what was rejected once is not sent with every row"
        yield made


# -- rows


def test_a_right_verdict_passes_with_its_reason(judged: Judged) -> None:
    keys = ("", "_score", "_passed", "_result", "_reason", "_status", "_threshold", "_differences")
    assert [judged.of("right", key) for key in keys] == [1, 1, True, "pass", "equivalent", "completed", 0.8, []]
    properties = {"input_tokens": 1_000, "output_tokens": 100, "samples": 1, "model": "judge-model", "simulated": True}
    assert judged.of("right", "_properties") == properties


def test_a_wrong_verdict_fails_and_lists_what_differs(judged: Judged) -> None:
    keys = ("", "_passed", "_result", "_reason", "_differences")
    assert [judged.of("wrong", key) for key in keys] == [0.2, False, "fail", "another day", [LISTED]]


@pytest.mark.parametrize("row_id", ["fenced", "surrounded"])
def test_json_in_a_fence_or_among_words_is_read(judged: Judged, row_id: str) -> None:
    assert (judged.of(row_id), judged.of(row_id, "_reason")) == (0.9, "they tell the same")
    assert judged.counts[row_id] == 1, "it need not be asked for again"


def test_a_verdict_that_was_cut_off_is_asked_for_once_more_and_both_calls_count(judged: Judged) -> None:
    assert (judged.of("mended"), judged.of("mended", "_reason")) == (0.5, "in short: partly")
    properties: Any = judged.of("mended", "_properties")
    assert (properties["input_tokens"], properties["output_tokens"]) == (2_000, 200)
    assert (judged.counts["mended"], judged.counts["mending"]) == (1, 1)


def test_each_reply_without_a_verdict_is_an_error_with_its_type_and_no_score(judged: Judged) -> None:
    found = {row_id: found["error.difference"]["type"] for row_id, found in judged.rows.items() if has_error(found)}
    assert found == {row_id: kind for row_id, (kind, _) in ERRORS.items()}
    assert [judged.of(row_id) for row_id in ERRORS] == [None] * len(ERRORS)


def test_each_of_these_errors_has_its_cause_and_the_row_none_of_its_own(judged: Judged) -> None:
    assert {row_id: judged.error(row_id)["cause"] for row_id in ERRORS} == {each: ERRORS[each][1] for each in ERRORS}
    assert [judged.rows[row_id]["cause"] for row_id in ERRORS] == [None] * len(ERRORS)


def has_error(found: dict[str, Any]) -> bool:
    return "error.difference" in found


def test_the_errors_say_what_came(judged: Judged) -> None:
    cut = judged.error("cut")["message"]
    assert "the reply was cut off at the limit of tokens" in cut
    assert json.dumps(judgement(0.4, "a story that never ends"), separators=(",", ":"))[:40] in cut
    assert (judged.counts["cut"], judged.counts["cutting"]) == (1, 1), "once more, and not a third time"
    assert "I'm sorry, but I cannot help with that." in judged.error("refused")["message"]
    assert judged.counts["refused"] == 1, "who declines is not asked again"
    assert "violence" in judged.error("declined")["message"]
    assert "the context is too long" in judged.error("broken")["message"]
    assert judged.counts["broken"] == 1, "a 400 that is not about the format is no reason to give way"


def test_the_metrics_count_verdicts_and_errors_apart(judged: Judged) -> None:
    metrics = judged.written["metrics"]
    scores = (1, 0.2, 0.9, 0.9, 0.5)
    assert metrics["difference.difference"] == pytest.approx(sum(scores) / 5)
    assert metrics["difference.binary_aggregate"] == 3 / 5
    assert "difference.difference_differences" not in metrics
    assert (metrics["difference.scored_count"], metrics["difference.error_count"]) == (5, 5)
    assert (judged.written["rows"], judged.written["failed_rows"], judged.written["simulated"]) == (10, 5, True)


def test_the_usage_counts_every_answer_that_was_bought(judged: Judged) -> None:
    usage = judged.written["usage"]["difference"]
    # Six replies to be read and two repairs, and the refusal; the others gave no answer.
    assert (usage["calls"], usage["input_tokens"], usage["output_tokens"]) == (9, 9_000, 900)
    assert usage["cost"] is None, "nobody gave a price"


def test_the_report_says_all_that_and_the_run_is_done(judged: Judged) -> None:
    assert (judged.said.code, judged.said.err) == (0, "")
    text = " ".join(judged.said.out.split())
    assert "SIMULATED" in text
    assert "difference: 3 of 5 rows passed (60.0%), by an uncalibrated judge." in text
    assert "1 10.0% difference: date format e.g. wrong" in text
    _, _, errors = text.partition(" errors 1 10.0% ")
    assert [row for row in ("cut", "refused", "declined", "stopped", "broken") if f"e.g. {row}" not in errors] == []
    assert "JudgeRefusalError" in errors


# -- the run as a whole


def test_a_run_of_nothing_but_errors_has_failed(tmp_path: Path) -> None:
    with serving(tmp_path, RULES) as url:
        said = JudgedWorkspace(tmp_path, url, [row("refused"), row("declined")]).judged("--quiet")
    advice = f"see `tunecheck report {said.out.strip()}`"
    assert (said.code, said.err.splitlines()[-1]) == (1, f"error: every row ended in an error: {advice}")


def test_a_row_that_stays_throttled_is_an_error_and_judged_when_the_run_goes_on(tmp_path: Path) -> None:
    busy = {**failing("busy", status=429, retry_after=0.01), "times": 3}
    with serving(tmp_path, [busy, {**rule("busy", answer=GOOD), "name": "later"}, *RULES]) as url:
        workspace = JudgedWorkspace(tmp_path, url, [row("right"), row("busy"), row("wrong")])
        first = workspace.judged("--quiet")
        rows = workspace.rows()
        second = workspace.resumed("--quiet")
        counts = health(url)["rules"]
    assert (first.code, second.code) == (0, 0)
    assert rows["busy"]["error.difference"]["type"] == "ThrottledError"
    assert "after 3 attempts" in rows["busy"]["error.difference"]["message"]
    assert [rows[row_id]["outputs.difference.difference"] for row_id in ("right", "wrong")] == [1, 0.2]
    assert workspace.rows()["busy"]["outputs.difference.difference"] == 0.9
    assert (counts["right"], counts["wrong"], counts["later"]) == (1, 1, 1), "the others are not judged again"


def test_a_run_that_is_taken_up_with_nothing_left_to_buy_is_as_simulated_as_before(tmp_path: Path) -> None:
    with serving(tmp_path, RULES) as url:
        workspace = JudgedWorkspace(tmp_path, url, [row("right"), row("wrong")])
        workspace.judged("--quiet")
        before = workspace.written()
        again = workspace.resumed("--json")
        assert health(url)["requests"] == 2
    assert workspace.written() == before
    assert before["simulated"] is again.json()["simulated"] is True


def test_verdicts_taken_over_into_a_new_run_are_as_simulated_as_they_were(tmp_path: Path) -> None:
    with serving(tmp_path, RULES) as url:
        workspace = JudgedWorkspace(tmp_path, url, [row("right"), row("wrong")])
        workspace.judged("--quiet")
        said = workspace.run("evaluate", "--reuse", "last", "--json")
        assert health(url)["requests"] == 2
    assert said.json()["simulated"] is workspace.written()["simulated"] is True


@pytest.mark.parametrize(("options", "code"), [((), 2), (("--allow-simulated",), 0)])
def test_a_gate_refuses_simulated_verdicts(tmp_path: Path, options: tuple[str, ...], code: int) -> None:
    with serving(tmp_path, RULES) as url:
        said = JudgedWorkspace(tmp_path, url, [row("right")]).judged("--fail-under", "difference>=0.5", *options)
    assert said.code == code
    assert ("--allow-simulated" in said.err) == bool(code)


PRICES = "models: {judge-model: {input_per_million: 1, output_per_million: 10}}\n"
COST = 0.002
"""Of one call: 1,000 tokens in, 100 out."""


def test_max_cost_stops_the_run_in_order_and_resume_finishes_it(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(PRICES)
    with serving(tmp_path, RULES) as url:
        workspace = JudgedWorkspace(tmp_path, url, [row(f"right {number}") for number in range(30)])
        stopped = workspace.judged("--prices", "prices.yaml", "--max-cost", "0.04", "--quiet")
        bought = health(url)["rules"]["right"]
        again = workspace.resumed("--quiet")
        unchanged = health(url)["rules"]["right"]
        finished = workspace.resumed("--max-cost", "1", "--json")
        counts = health(url)["rules"]
    assert (stopped.code, again.code, finished.code) == (1, 1, 0)
    for said in (stopped, again):
        assert "--max-cost 0.04" in said.err
        assert f"--resume {workspace.last.name}" in said.err
        assert "Traceback" not in said.err
    assert 1 <= bought <= 0.04 / COST
    assert unchanged == bought, "the same budget has room for nothing more"
    assert counts["right"] == 30, "nothing was bought twice"
    usage = finished.json()["usage"]["difference"]
    assert (usage["calls"], usage["currency"]) == (30, "USD")
    assert usage["cost"] == pytest.approx(30 * COST)


def test_prices_come_from_the_file_and_show_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(f"currency: EUR\n{PRICES}")
    with serving(tmp_path, RULES) as url:
        said = JudgedWorkspace(tmp_path, url, [row("right"), row("wrong")]).judged(
            "--prices", "prices.yaml", "--details"
        )
    assert said.code == 0
    assert "difference 2 2,000 200 0.0040 EUR" in " ".join(said.out.split())


def test_a_budget_without_a_price_asks_nobody(tmp_path: Path) -> None:
    with serving(tmp_path, RULES) as url:
        said = JudgedWorkspace(tmp_path, url, [row("right")]).judged("--max-cost", "1")
        assert health(url)["requests"] == 0
    assert said.code == 2
    assert "the price of 'judge' (called by 'difference') is unknown" in said.err
    assert "--prices" in said.err


def test_a_wrong_key_stops_the_run_and_the_right_one_finishes_it(tmp_path: Path) -> None:
    with serving(tmp_path, RULES) as url:
        workspace = JudgedWorkspace(tmp_path, url, [row(f"right {number}") for number in range(40)])
        stopped = workspace.judged("--quiet", "--concurrency", "2", key="sk-another-9876543210")
        refusals = health(url)["refusals"]
        finished = workspace.resumed("--quiet")
        assert health(url)["rules"]["right"] == 40
    assert (stopped.code, finished.code) == (1, 0)
    assert "the service refused or did not get 10 calls in a row" in stopped.err
    assert f"--resume {workspace.last.name}" in stopped.err
    assert 10 <= refusals < 40


def test_a_key_that_the_judge_repeats_is_masked(tmp_path: Path) -> None:
    said_it = [
        rule("told", answer=judgement(0.5, f"the key is {KEY}")),
        rule("shouted", answer=f"No verdict, but the key: {KEY}"),
        {**failing("hinted", status=400, message=f"bad request with {KEY}")},
        {"name": "again", "answer": f"Still no verdict, but {KEY}"},
    ]
    with serving(tmp_path, said_it) as url:
        workspace = JudgedWorkspace(tmp_path, url, [row("told"), row("shouted"), row("hinted")])
        assert workspace.judged().code == 0  # the workspace looks for the key in all that was printed and written
    rows = workspace.rows()
    assert rows["told"]["outputs.difference.difference_reason"] == "the key is ***"
    assert "No verdict, but the key: ***" in rows["shouted"]["error.difference"]["message"]
    assert "***" in rows["hinted"]["error.difference"]["message"]


def test_a_judge_that_is_not_sure_shows_in_the_spread(tmp_path: Path) -> None:
    write_files(tmp_path, {"prompty/tone.prompty": (ROOT / "prompty" / "tone.prompty").read_text("utf-8")})
    said = [{"reason": "it depends", "score": score} for score in (5, 2)]
    rules = [{"name": "tone", "when": {"system": "tone"}, "answers": said, "usage": USAGE}, *RULES]
    with serving(tmp_path, rules) as url:
        workspace = JudgedWorkspace(tmp_path, url, [row("right"), row("wrong")])
        done = workspace.judged("--set", "tone.samples=2", "--json", evaluators="tone,difference")
    assert done.code == 0, done.err
    for found in workspace.rows().values():
        assert found["outputs.tone.tone"] == 3.5
        properties = found["outputs.tone.tone_properties"]
        assert (properties["samples"], properties["spread"]) == (2, 1.5)
    usage = done.json()["usage"]
    assert (usage["tone"]["calls"], usage["difference"]["calls"]) == (4, 2)
