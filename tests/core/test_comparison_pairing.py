"""Which row is which: by id and content, by content, never by id alone unless asked; nothing is dropped unsaid."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.comparison_parts import declares, passes, row, verdict, write_run
from tests.tables import cases

from tunecheck import ConfigurationError, NothingPairsError, compare, evaluate, select

Rows = Sequence[Sequence[Any]]


def run(folder: Path, name: str, rows: Rows, **manifest: object) -> Path:
    """Rows as (id, content, passed)."""
    written = [
        {"row_id": each, "row_fingerprint": content, "inputs.text": content, **verdict("match", passed)}
        for each, content, passed in rows
    ]
    return write_run(folder, name, written, declares("match"), **manifest)


@cases("comparison")
def test_rows_of_the_same_id_and_content_are_pairs(
    tmp_path: Path,
    base: Rows,
    new: Rows,
    paired: int,
    alone: list[list[str]],
    other_content: list[str],
    rates: list[float],
) -> None:
    """`alone` has the ids in the base only and in the new run only."""
    found = compare(run(tmp_path, "a", base), run(tmp_path, "b", new))
    assert (found.pairs.paired, list(found.pairs.other_content)) == (paired, other_content)
    assert [list(found.pairs.only_in_base), list(found.pairs.only_in_new)] == alone
    assert [found.metrics["match"].base.value, found.metrics["match"].new.value] == rates


def test_rows_of_equal_content_pair_whatever_they_are_called(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [("row-1", "x", True), ("row-2", "y", False), ("row-3", "z", True)])
    new = run(tmp_path, "b", [("row-1", "z", True), ("row-2", "x", False), ("row-3", "y", False)])
    found = compare(base, new)
    assert found.pairs.paired == found.pairs.by_content == 3
    (change,) = found.metrics["match"].regressed
    assert (change.row_id, change.new_id) == ("row-1", "row-2")


def test_ids_pair_edited_rows_only_where_that_is_asked_for(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [("1", "x", True), ("2", "y", True)])
    new = run(tmp_path, "b", [("1", "new x", True), ("2", "new y", False)])
    example = r"\(in row '1', 'text' differs\): compare runs of the same data"
    with pytest.raises(ConfigurationError, match=f"share 2 ids, but no row of the same content {example}; to compare"):
        compare(base, new)
    assert compare(base, new, pair_by="id").pairs.paired == 2


def test_a_run_without_rows_says_so(tmp_path: Path) -> None:
    base, new = run(tmp_path, "a", [("1", "x", True)]), run(tmp_path, "b", [])
    with pytest.raises(ConfigurationError, match=rf"{new.name} has no rows to compare"):
        compare(base, new)


def test_an_answer_that_stands_in_the_data_is_no_content(tmp_path: Path) -> None:
    """Two runs with `--response-column`: their fingerprints cover the answers, too."""
    sides = []
    for name, answers in (("a", "one two"), ("b", "ONE TWO")):
        columns = {
            "inputs.answer_of_model": [f"{answers} {number}" for number in range(3)],
            "row_fingerprint": [f"{name}{number}" for number in range(3)],
        }
        mapping = {"match": {"response": "${data['answer_of_model']}"}}
        sides.append(passes(tmp_path, name, [True] * 3, columns, target=None, mapping=mapping))
    assert compare(*sides).pairs.paired == 3


def test_rows_pair_by_content_however_their_json_is_written(tmp_path: Path) -> None:
    asked: list[Any] = [f"é {number}" if number % 3 else {"b": number, "a": [1.0, None]} for number in range(600)]
    more: dict[str, Any] = {"inputs.first seen in row 400": [1]}
    written = [
        {"row_id": f"r{at}", "inputs.question": each, "inputs.response": "hi"} | (more if at == 400 else {})
        for at, each in enumerate(asked)
    ]
    rows = [each | verdict("match", True) for each in written]
    runs = [write_run(tmp_path, name, rows, declares("match"), target=None, mapping={"match": {}}) for name in "ab"]
    lines = (runs[1] / "eval_results.jsonl").read_text().splitlines()
    rewritten = (dict(sorted(json.loads(line).items(), reverse=True)) for line in lines)
    texts = [json.dumps(each, ensure_ascii=False, separators=(" ,", " : ")) for each in rewritten]
    texts[500] = texts[500].replace("é 500", "é five hundred")
    (runs[1] / "eval_results.jsonl").write_text("\n".join(texts), encoding="utf-8")
    found = compare(*runs)
    assert found.pairs.paired == 599
    assert found.pairs.other_content == ("r500",)


def test_another_evaluator_is_named_and_what_its_arguments_were(tmp_path: Path) -> None:
    strict = {"match": {**declares("match")["match"], "arguments": {"threshold": 0.9}, "fingerprint": "g"}}  # type: ignore[dict-item]
    base = passes(tmp_path, "a", [True, False])
    outcomes = {"match": [True, True], "extra": [True, True]}
    new = passes(tmp_path, "b", outcomes, evaluators={**strict, **declares("extra")})
    found = compare(base, new)
    assert "evaluator 'extra' is only in b-" in " ".join(found.notes)
    assert "match differs between the runs (threshold not set → 0.9)" in found.decision.objections[0].text
    runs = [f"`tunecheck score {run.name} --evaluators match --results-dir {tmp_path}`" for run in (base, new)]
    assert found.decision.next == f"score both runs alike with {' and '.join(runs)}, then compare the new runs"


def test_runs_of_an_evaluator_that_only_a_script_has_are_scored_again_in_python(tmp_path: Path) -> None:
    def exact(response: str, ground_truth: str) -> dict[str, bool]:
        return {"passed": response == ground_truth}

    def close(response: str, ground_truth: str) -> dict[str, bool]:
        return {"passed": response.lower() == ground_truth}

    rows = [{"id": f"r{number}", "response": "yes", "ground_truth": "yes"} for number in range(30)]
    runs = [
        evaluate(data=rows, evaluators={"exact": evaluator}, evaluation_name=name, results_dir=tmp_path).run_dir
        for name, evaluator in (("old", exact), ("new", close))
    ]
    found = compare(*runs)
    assert found.decision.next == (
        "score both runs with the same 'exact' in Python (tunecheck.score), then compare the new runs"
    )


def test_long_settings_are_cut_so_that_what_differs_is_seen(tmp_path: Path) -> None:
    def run(name: str, deployment: str) -> Path:
        url = f"https://a-long-name-of-a-resource.openai.azure.com/openai/deployments/{deployment}"
        entry: Any = declares("match")["match"]
        settings = {"endpoint": {"url": url, "kind": "openai"}, "prompt": "p"}
        rows = [row(0, verdict("match", True))]
        return write_run(tmp_path, name, rows, {"match": {**entry, "arguments": settings, "fingerprint": name}})

    decision = compare(run("a", "judge-large"), run("b", "judge-small")).decision
    assert "(endpoint.url …nts/judge-large → …nts/judge-small)" in decision.objections[0].text


def test_runs_without_a_common_evaluator_do_not_compare(tmp_path: Path) -> None:
    base, new = passes(tmp_path, "a", [True]), passes(tmp_path, "b", {f"other {n}": [True] for n in range(50)})
    problem = (
        r" \(evaluators: match\) and .* \(evaluators: other 0, other 1, .*…\) have no scores of a common evaluator: "
        r"score one run with an evaluator of the other: "
    )
    with pytest.raises(ConfigurationError, match=problem):
        compare(base, new)


def test_a_key_of_two_evaluators_is_not_one_metric(tmp_path: Path) -> None:
    """Evaluator `a` with the key `b.c` in one run, evaluator `a.b` with the key `c` in the other."""
    runs = []
    for evaluator, key in (("a", "b.c"), ("a.b", "c")):
        rows = [row(at, verdict("match", True), {f"outputs.{evaluator}.{key}": 0.5}) for at in range(12)]
        entry: Any = declares(key, "score")[key]
        runs.append(write_run(tmp_path, evaluator, rows, declares("match") | {evaluator: entry}))
    with pytest.raises(ConfigurationError, match=r"evaluators a and a\.b both have a metric a\.b\.c: name another"):
        compare(*runs, metrics=["a.b.c"])
    assert compare(*runs).metric("match").difference.value == 0


def test_a_metric_of_one_run_only_cannot_be_asked_for(tmp_path: Path) -> None:
    base, new = passes(tmp_path, "a", [True]), passes(tmp_path, "b", {"match": [True], "other": [True]})
    with pytest.raises(ConfigurationError, match=r"'other' is not a metric of both runs; known: match"):
        compare(base, new, metrics=["other"])


def test_errors_and_rows_to_which_an_evaluator_does_not_apply_are_counted_by_run(tmp_path: Path) -> None:
    base = passes(tmp_path, "a", [True, True, True, None, False])
    rows = [
        row(0, verdict("match", False)),
        row(1, {"error.match": {"type": "E", "message": "m"}}),
        row(2, {"error.target": {"type": "E", "message": "m"}}),
        row(3, verdict("match", None)),
        row(4, verdict("match", True)),
    ]
    found = compare(base, write_run(tmp_path, "b", rows, declares("match")))
    metric = found.metrics["match"]
    assert (metric.base_rows.scored, metric.base_rows.not_applicable, metric.base_rows.errors) == (4, 1, 0)
    assert (metric.new_rows.scored, metric.new_rows.not_applicable, metric.new_rows.errors) == (2, 1, 2)
    assert (metric.one_sided.base, metric.one_sided.new) == (2, 0)
    assert metric.difference.n == 2
    assert found.new.errors == 2


def test_a_run_in_which_every_row_failed_leaves_nothing_to_test(tmp_path: Path) -> None:
    base = passes(tmp_path, "a", [True] * 12)
    rows = [row(n, {"error.match": {"type": "E", "message": "m"}}) for n in range(12)]
    found = compare(base, write_run(tmp_path, "b", rows, declares("match"))).metrics["match"]
    assert found.verdict == "too little data"
    assert found.new_rows.errors == 12
    assert (found.one_sided.base, found.one_sided.new) == (12, 0)


def test_a_results_line_may_hold_anything_that_is_json(tmp_path: Path) -> None:
    """Lone surrogates, whole numbers beyond any float, and unknown columns."""
    base, new = passes(tmp_path, "a", [True, False]), passes(tmp_path, "b", [True, True])
    odd = {
        "inputs.text": "\ud83d",
        "outputs.match.tokens": 10**400,
        "outputs.match.match_reason": "\ud83d;\x1b[31m",
        "x": [1],
    }
    lines = [{**json.loads(line), **odd} for line in (new / "eval_results.jsonl").read_text().splitlines()]
    (new / "eval_results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = compare(base, new)
    assert found.metrics["match"].c == 1


def test_why_nothing_pairs_and_what_helps_are_told_apart(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [("1", "x", True)])
    with pytest.raises(NothingPairsError) as edited:
        compare(base, run(tmp_path, "b", [("1", "new x", True)]))
    assert edited.value.remedy == "to compare them anyway, add --pair-by id (pair_by='id')"
    assert str(edited.value) == f"{edited.value.why}; {edited.value.remedy}"
    with pytest.raises(NothingPairsError) as other:
        compare(base, run(tmp_path, "c", [("2", "y", True)]))
    assert other.value.remedy == ""
    assert "the ids differ, such as '1' and '2'" in other.value.why


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [("1", "x", True)])
    for decide in (compare, select):
        with pytest.raises(ConfigurationError, match=r"the run .* is given twice: give each run once"):
            decide(base, base)


def test_a_run_that_was_taken_up_again_and_not_finished_is_noted(tmp_path: Path) -> None:
    base = run(tmp_path, "a", [("1", "x", True)])
    new = run(tmp_path, "b", [("1", "x", True)], status="interrupted")
    assert f"{new.name} was resumed but not finished (interrupted): using older rows" in compare(base, new).notes
