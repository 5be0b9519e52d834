"""A run of the memory benchmark from a configuration to its files, which replay identically."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from checks.goodai_replay import main as replay_main
from tests.memory_run_parts import run_benchmark
from tests.pipeline_parts import strict_json

from tunecheck import ConfigurationError, EndpointError, Run, RunError, score
from tunecheck.cli import main
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, Price, Usage
from tunecheck.plugins import JSON
from tunecheck.runs import list_runs
from tunecheck_memory import MemoryOutcome

CONFIG = """\
config:
  run_name: Small benchmark
  incompatibilities: [[names, name_list]]
datasets:
  args: {memory_span: 900, dataset_examples: 2}
  datasets:
    - {name: colours, args: {colour_changes: 2}}
    - name: name_list
    - name: names
    - name: jokes
    - name: prospective_memory
    - name: restaurant
    - {name: shopping, args: {memory_span: 1500}}
    - name: spy_meeting
"""


class Recalling(Endpoint):
    """A model that has the conversation by heart, and quotes the latest line that shares a word with the question."""

    kind: ClassVar[str] = "recalling"

    def __init__(self, *, fails_at: int | None = None, price: Price | None = None) -> None:
        self.name = "recalling"
        self.price = price
        self.calls = 0
        self._fails_at = fails_at

    async def complete(self, request: ChatRequest) -> Completion:
        if self.calls == self._fails_at:
            raise EndpointError("out of order")
        self.calls += 1
        said = [str(message["content"]) for message in request.messages if message["role"] == "user"]
        words = {word for word in said[-1].lower().split() if len(word) > 5}
        found = next((line for line in reversed(said[:-1]) if words & set(line.lower().split())), "I do not know.")
        return Completion(text=found[:300], usage=Usage(len(said) * 10, 20), latency_ms=5.0)

    def settings(self) -> dict[str, JSON]:
        return {"kind": self.kind}


class Uncounted(Recalling):
    """The same, without a count of tokens."""

    async def complete(self, request: ChatRequest) -> Completion:
        return replace(await super().complete(request), usage=Usage())


class Counting(Uncounted):
    """The same, and how many characters it was sent."""

    characters = 0

    async def complete(self, request: ChatRequest) -> Completion:
        self.characters += sum(len(str(message["content"])) for message in request.messages)
        return await super().complete(request)


@pytest.fixture(autouse=True)
def workspace(cwd: Path) -> Path:
    (cwd / "small.yml").write_text(CONFIG, "utf-8")
    return cwd


def had(endpoint: Endpoint | None = None, **more: Any) -> MemoryOutcome:
    return run_benchmark("small.yml", endpoint or Recalling(), **more)


def replays(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    code = replay_main([str(folder), *options])
    said = capsys.readouterr().out
    assert code == 0, said
    return said


def rows_of(outcome: MemoryOutcome) -> list[dict[str, Any]]:
    return [*Run(outcome.result.run_dir).rows()]


def test_there_is_a_row_for_each_test_and_each_is_scored_from_0_to_1() -> None:
    outcome = had()
    rows = rows_of(outcome)
    assert len(rows) == 14
    assert [row["row_id"] for row in rows][:3] == ["Colours - 0", "Colours - 1", "NameList - 0"]
    scores = [row["outputs.memory.memory"] for row in rows]
    assert all(value is None or 0 <= value <= 1 for value in scores)
    assert any(value for value in scores), "quoting what was said is worth something"
    assert rows[0]["inputs.arguments"] == {"colour_changes": 2}
    assert set(outcome.result.by_group["dataset"]) == {row["inputs.dataset"] for row in rows}


def test_the_figures_stand_in_the_run_s_folder() -> None:
    outcome = had(Recalling(price=Price(1.0, 1.0)))
    summary = strict_json((outcome.result.run_dir / "memory" / "summary.json").read_bytes())
    assert summary["score"] == outcome.figures.score
    assert summary["max_score"] == 7
    assert summary["accuracy"] == pytest.approx(outcome.figures.score / 7)
    spent: Any = outcome.result.usage["target"]
    assert summary["usage"]["target"]["cost"] == spent["cost"] > 0
    means = {title: each["mean"] for title, each in summary["datasets"].items()}
    by_group = outcome.result.by_group["dataset"]
    assert means == {title: by_group[title]["memory.memory"] for title in means}


@pytest.mark.parametrize("isolated", [False, True], ids=["interleaved", "isolated"])
def test_a_run_s_own_files_replay_identically(isolated: bool, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = had(isolated=isolated)
    (folder,) = outcome.results
    name = "Small benchmark (isolated)" if isolated else "Small benchmark"
    assert folder == outcome.result.run_dir / "memory" / name / "results" / "recalling"
    assert replays(folder, capsys).startswith("identical")


def test_own_wording_filler_and_seed_are_replayed(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "wording.yml").write_text("introduction: Listen, and answer in a word.\n", "utf-8")
    pairs = [{"question": f"{number} squared?", "answer": str(number**2)} for number in range(30)]
    (workspace / "filler.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs), "utf-8")
    options: dict[str, Any] = {"wording": workspace / "wording.yml", "filler": workspace / "filler.jsonl"}
    outcome = had(seed=11, **options)
    assert "squared?" in (outcome.results[0] / "master_log.jsonl").read_text()
    given = [part for name, path in options.items() for part in (f"--{name}", str(path))]
    assert replays(outcome.results[0], capsys, "--seed", "11", *given).startswith("identical")


# -- definitions


def test_a_run_goes_on_with_the_definitions_that_it_was_begun_with(workspace: Path) -> None:
    with pytest.raises(RunError):
        had(Recalling(fails_at=30))
    whole = had(results_dir="elsewhere")
    for file in (workspace / "datasets").rglob("*.def.json"):
        file.write_text(file.read_text().replace("colour", "flavour"), "utf-8")
    resumed = had(resume="last")
    assert [row["outputs.responses"] for row in rows_of(resumed)] == [
        row["outputs.responses"] for row in rows_of(whole)
    ]


# -- going on


@pytest.mark.parametrize("fails_at", [0, 17, 60])
def test_a_run_that_was_cut_off_ends_as_one_that_was_not(fails_at: int) -> None:
    price = Price(1.0, 1.0)
    with pytest.raises(
        RunError,
        match=r"stopped: .* failed: out of order \(at a message of .*\); go on with the same Python call and resume=",
    ):
        had(Recalling(fails_at=fails_at, price=price))
    agent = Recalling(price=price)
    resumed, whole = had(agent, resume="last"), had(Recalling(price=price), results_dir="elsewhere")
    assert rows_of(resumed) == rows_of(whole)
    assert resumed.figures == whole.figures
    assert resumed.result.usage == whole.result.usage
    logs = [(outcome.results[0] / "master_log.jsonl").read_bytes() for outcome in (resumed, whole)]
    assert logs[0] == logs[1]
    assert agent.calls == whole.result.usage["target"]["calls"] - fails_at  # type: ignore[index,call-overload,operator]


def kept(outcome: MemoryOutcome) -> dict[str, bytes]:
    """A run's files below `memory/`, and its figures."""
    folder = outcome.result.run_dir
    files = [*(each for each in sorted((folder / "memory").rglob("*")) if each.is_file()), folder / "metrics.json"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_a_finished_run_that_is_taken_up_again_keeps_what_agent_and_judge_took() -> None:
    price = Price(1.0, 1.0)
    whole = had(Recalling(price=price), judge=Judge(price=price), repeat=2)
    before = kept(whole)
    judge = Judge(price=price)
    agent = Recalling(price=price)
    again = had(agent, judge=judge, repeat=2, resume="last")
    assert (agent.calls, judge.calls, again.result.usage) == (0, 0, whole.result.usage)
    assert again.result.run_dir == whole.result.run_dir
    assert kept(again) == before


def test_a_memory_run_s_cached_input_has_its_own_price_also_when_it_is_taken_up_again() -> None:
    class Caching(Recalling):
        async def complete(self, request: ChatRequest) -> Completion:
            return replace(await super().complete(request), usage=Usage(100, 20, 90))

    price = Price(10.0, 1.0, cached_input_per_million=1.0)
    whole = had(Caching(price=price))
    spent: Any = whole.result.usage["target"]
    assert spent["cost"] == pytest.approx(spent["calls"] * (10 * 10 + 90 * 1 + 20 * 1) / 1_000_000)
    assert had(Caching(price=price), resume="last").result.usage == whole.result.usage


def test_an_agent_that_counts_no_tokens_is_charged_by_its_characters() -> None:
    agent = Counting(price=Price(1.0, 0.0))
    most = 0.005
    with pytest.raises(RunError, match="max-cost"):
        had(agent, max_cost=most)
    assert 0.7 * most <= agent.characters / 4 / 1_000_000 <= 1.5 * most
    again = Counting(price=Price(1.0, 0.0))
    with pytest.raises(RunError, match="max-cost"):  # what was spent before the run stopped is still spent
        had(again, max_cost=most, resume="last")
    assert again.calls <= 1


def test_replies_of_the_agent_that_are_masked_are_counted_in_the_runs_notes() -> None:
    class Repeating(Recalling):
        async def complete(self, request: ChatRequest) -> Completion:
            return replace(await super().complete(request), masked=self.calls % 10 == 0)

    for resume in (None, "last"):
        agent = Repeating()
        whole = had(agent, resume=resume)
        calls: Any = whole.result.usage["target"]
        note = f"{calls['calls'] // 10} answers contained an environment variable's value, masked as ***"
        assert any(note in each for each in whole.result.notes)


@pytest.mark.parametrize("fails_at", [40, 105])
def test_repetitions_that_were_cut_off_cost_what_they_would_have(fails_at: int) -> None:
    price = Price(1.0, 1.0)
    with pytest.raises(RunError, match="out of order"):
        had(Recalling(fails_at=fails_at, price=price), judge=Judge(price=price), repeat=2)
    resumed = had(Recalling(price=price), judge=Judge(price=price), repeat=2, resume="last")
    whole = had(Recalling(price=price), judge=Judge(price=price), repeat=2, results_dir="elsewhere")
    for name in ("target", "judge"):
        spent, expected = resumed.result.usage[name], whole.result.usage[name]
        assert spent == expected | {"cost": pytest.approx(expected["cost"])}  # type: ignore[call-overload,index,operator]


def test_a_damaged_log_is_said_before_anybody_is_asked_and_cut_where_that_is_accepted(workspace: Path) -> None:
    with pytest.raises(RunError):
        had(Recalling(fails_at=30))
    (log,) = workspace.glob("eval_results/*/memory/session-1/events.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    lines[12] = lines[12].replace(b'"', b"'", 1)
    log.write_bytes(b"".join(lines))
    asked = Recalling()
    with pytest.raises(RunError, match=r"1 record is damaged or missing \(line 13\).* repeats up to \d+ calls"):
        had(asked, resume="last")
    assert asked.calls == 0
    resumed = had(asked, resume="last", accept_damage=True)
    assert any("where its log was damaged" in note for note in resumed.result.notes)
    assert (log.parent / "events.damaged").read_bytes() == b"".join(lines)
    assert len(rows_of(resumed)) == 14
    had(nobody := Recalling(), resume="last")
    assert nobody.calls == 0


def test_another_configuration_is_refused_when_a_run_goes_on(workspace: Path) -> None:
    with pytest.raises(RunError):
        had(Recalling(fails_at=9))
    (workspace / "small.yml").write_text(CONFIG.replace("memory_span: 900", "memory_span: 800"), "utf-8")
    with pytest.raises(ConfigurationError, match="cannot be resumed"):
        had(resume="last")


def test_what_has_changed_since_is_said_by_its_name_alone(workspace: Path) -> None:
    filler = workspace / "filler.jsonl"
    filler.write_text('{"question": "Which way is up?", "answer": "That one"}\n')
    with pytest.raises(RunError):
        had(Recalling(fails_at=9), filler=filler)
    filler.write_text('{"question": "Which way is down?", "answer": "This one"}\n')
    with pytest.raises(ConfigurationError) as refused:
        had(resume="last", filler=filler)
    said = str(refused.value)
    assert "the target's memory.filler changed from " in said
    assert "wording" not in said
    assert said.endswith("undo the change, or start a new run"), "another conversation's answers cannot be reused"


# -- judges, texts, and what can be done with a run afterwards


class Judge(Recalling):
    """A judge that always gives the same answer."""

    kind: ClassVar[str] = "judge"

    async def complete(self, request: ChatRequest) -> Completion:
        self.calls += 1
        answer = {"score": 4, "explanation": "so so", "follows_role": True, "reason": "it does", "right": True}
        return Completion(text=json.dumps(answer), usage=Usage(50, 5), latency_ms=1.0)


def test_without_a_judge_tests_that_ask_one_are_left_out_visibly() -> None:
    outcome = had()
    assert [each.title for each in outcome.left_out] == ["Restaurant"]
    assert any(note.startswith("Restaurant is left out") and "--judge" in note for note in outcome.result.notes)
    assert not any(row["inputs.dataset"] == "Restaurant" for row in rows_of(outcome))


def test_nothing_left_to_run_is_an_error(workspace: Path) -> None:
    (workspace / "small.yml").write_text("datasets: {datasets: [{name: chapterbreak}, {name: restaurant}]}")
    with pytest.raises(ConfigurationError, match=r"no data set can run .*--texts.*--judge"):
        had()


def test_without_a_judge_the_run_says_what_is_not_scored(workspace: Path) -> None:
    (workspace / "small.yml").write_text(CONFIG + "    - name: delayed_recall\n")
    assert any("Delayed Recall: not scored" in note for note in had(unjudged=True).result.notes)


@pytest.mark.parametrize("kind", ["delayed_recall", "instruction_recall", "how_to_think"])
def test_tests_that_only_a_judge_can_score_are_refused_before_anything_is_said(workspace: Path, kind: str) -> None:
    (workspace / "small.yml").write_text(CONFIG + f"    - name: {kind}\n")
    agent = Recalling()
    with pytest.raises(
        ConfigurationError, match=r"the tests .* need a judge; name the judge's model with --judge.*--unjudged"
    ):
        had(agent, unjudged=False)
    assert agent.calls == 0 and not (workspace / "eval_results").exists()


def test_a_kind_of_one_s_own_that_asks_a_judge_as_it_goes_is_refused_without_one(workspace: Path) -> None:
    (workspace / "quiz.py").write_text(ASKING, "utf-8")
    (workspace / "small.yml").write_text(CONFIG + "    - name: quiz.py\n")
    agent = Recalling()
    with pytest.raises(ConfigurationError, match="the tests Restaurant, Quiz need a judge; name the judge's"):
        had(agent, unjudged=False)
    assert agent.calls == 0


ASKING = """\
from tunecheck_memory import AskJudge, MemoryTest, Kind, Points, Say


class Quiz(Kind):
    name = "quiz"
    title = "Quiz"
    consults = True

    def definition(self, example, making):
        return MemoryTest(self.title, example)

    def steps(self, definition, scene):
        yield Say("Hello")
        yield AskJudge("mood", {})
        return Points(1, 1, ())
"""


class Narrow(Recalling):
    """A model that takes prompts of so many words, and keeps the size of each that it was sent."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.sizes: list[int] = []

    async def complete(self, request: ChatRequest) -> Completion:
        size = sum(len(str(message["content"]).split()) for message in request.messages)
        if size > self._most:
            raise EndpointError("answered 400: maximum context length is 900 tokens", status=400)
        self.sizes.append(size)
        return await super().complete(request)


def events_of(run: Path) -> list[Any]:
    lines = (run / "memory" / "session-1" / "events.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines]


def stopped_at_its_window() -> Run:
    with pytest.raises(RunError, match=r"no longer fits the model; .*--max-prompt-size N"):
        had(Narrow(500))
    (run,) = list_runs(Path("eval_results"))
    return run


def test_a_conversation_that_no_longer_fits_goes_on_with_a_smaller_window() -> None:
    run = stopped_at_its_window()
    before = [line for line in events_of(run.folder) if line["k"] in ("did", "done")]
    agent = Narrow(500)
    outcome = had(agent, resume=run.id, max_prompt_size=400)
    assert outcome.result.failed_row_count == 0
    events = events_of(run.folder)
    assert [line for line in events if line["k"] in ("did", "done")][: len(before)] == before
    changed = [line for line in events if line.get("changed")]
    assert [line["changed"] for line in changed] == [{"prompt size": 400}]
    assert changed[0]["n"] == len(before), "from the message on that did not fit"
    sent = [line for line in events if line["k"] == "do" and line["effect"]["do"] == "send"]
    asked = {line["n"] for line in sent if line["effect"]["suggested"] is None}
    assert agent.calls == len(asked - {line["n"] for line in before}), "nobody was asked twice"


def test_a_judge_may_be_named_when_a_run_goes_on_and_judges_all_of_it(workspace: Path) -> None:
    (workspace / "small.yml").write_text(CONFIG + "    - name: delayed_recall\n")
    with pytest.raises(RunError, match="out of order"):
        had(Recalling(fails_at=60), unjudged=True)
    (run,) = list_runs(workspace / "eval_results")
    judge = Judge(price=Price(3.0, 3.0))
    outcome = had(resume=run.id, judge=judge)
    changed = [line["changed"] for line in events_of(run.folder) if line.get("changed")]
    assert len(changed) == 1 and set(changed[0]) == {"judge"}
    assert {row["outputs.memory.memory"] for row in rows_of(outcome)} != {None}
    assert judge.calls > 0


def test_scoring_a_run_again_needs_the_evaluators_names(capsys: pytest.CaptureFixture[str]) -> None:
    config = "small.yml"
    run = had(command={"memory_run": {"config": config}}).result.run_dir
    capsys.readouterr()
    assert main(["score", str(run)]) == 2
    assert (
        "was not started by `tunecheck evaluate`: name its evaluators, or others, such as --evaluators memory"
        in capsys.readouterr().err
    )


def test_a_judge_is_consulted_while_tests_run_and_its_calls_are_counted() -> None:
    judge = Judge(price=Price(3.0, 3.0))
    outcome = had(judge=judge)
    assert outcome.left_out == ()
    spent: Any = outcome.result.usage["judge"]
    assert spent["calls"] > 0
    scoring: Any = outcome.result.usage["memory"]
    tokens = [each[name] for each in (spent, scoring) for name in ("input_tokens", "output_tokens")]
    assert sum(tokens) == 55 * judge.calls
    assert spent["cost"] + scoring["cost"] == pytest.approx(55 * judge.calls * 3 / 1_000_000)


def test_a_run_says_so_when_only_the_judge_was_simulated() -> None:
    class Pretending(Judge):
        async def complete(self, request: ChatRequest) -> Completion:
            return replace(await super().complete(request), simulated=True)

    outcome = had(judge=Pretending())
    assert outcome.result.simulated
    assert Run(outcome.result.run_dir).manifest().simulated
    assert {row["row_id"] for row in rows_of(outcome) if row["outputs.simulated"]} == {
        "Restaurant - 0",
        "Restaurant - 1",
    }
    spent = outcome.result.usage
    assert had(judge=Pretending(), resume="last").result.usage == spent, "the agent's replies were real"


def test_a_data_set_without_its_texts_is_left_out_visibly(workspace: Path) -> None:
    (workspace / "small.yml").write_text(CONFIG + "    - name: chapterbreak\n", "utf-8")
    outcome = had()
    assert [each.title for each in outcome.left_out] == ["Restaurant", "ChapterBreak"]
    assert any(note.startswith("ChapterBreak is left out") and "--texts" in note for note in outcome.result.notes)
    assert strict_json((outcome.result.run_dir / "metrics.json").read_bytes())["notes"] == outcome.result.notes


def test_the_recorded_replies_can_be_judged_again_without_asking_the_agent() -> None:
    from tunecheck_memory import MemoryEvaluator

    outcome = had()
    again = score(outcome.result.run_dir, evaluators={"strict": MemoryEvaluator(threshold=1.0)})
    rows: Any = again["rows"]
    assert [row["outputs.strict.memory"] for row in rows] == [row["outputs.memory.memory"] for row in rows_of(outcome)]


def test_a_run_that_was_refused_leaves_nothing_behind() -> None:
    with pytest.raises(ConfigurationError, match="clock: 'virtuel' is unknown; did you mean 'virtual'"):
        had(clock="virtuel")
    with pytest.raises(ConfigurationError, match="tokenizer: 'words' is unknown; known: cl100k_base, o200k_base"):
        had(tokenizer="words")
    assert not [*list_runs(Path("eval_results"))]
