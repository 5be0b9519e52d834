"""The long-term-memory benchmark as one run of the pipeline, which leaves its figures and files in the run's folder."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from tunecheck._json import JSON
from tunecheck.datasets._defaults import DatasetDefaults
from tunecheck.datasets._reading import open_dataset
from tunecheck.endpoints._base import Endpoint
from tunecheck.evaluation._evaluate import EvaluationResult, RunArguments, evaluate
from tunecheck.memory._clock import ClockName
from tunecheck.memory._configuration import Configuration, read_configuration
from tunecheck.memory._definitions import definition_data
from tunecheck.memory._evaluator import MemoryEvaluator
from tunecheck.memory._filler import load_filler
from tunecheck.memory._judging import EndpointJudge
from tunecheck.memory._kind import Making
from tunecheck.memory._making import LeftOut, Made, Mode, make_definitions
from tunecheck.memory._restaurant.word_judge import WordJudge
from tunecheck.memory._run_files import RunFigures, benchmark_folder, keep_definitions, write_run_files
from tunecheck.memory._scheduler import Settings
from tunecheck.memory._scoring.by_words import needs_judge
from tunecheck.memory._target import MemoryTarget
from tunecheck.memory._tasks import Test
from tunecheck.memory._tokens import Tokenizer, load_tokenizer
from tunecheck.memory._wording import load_wording
from tunecheck.runs._store import Run, find_run

DEFINITIONS = Path("datasets") / "memory"
"""Where benchmarks' definitions are kept, each in a folder of its run name."""

EVALUATOR = "memory"


@dataclass(frozen=True)
class MemoryOutcome:
    """What came of a run: its result, its figures, the data sets that were left out of it, and its folders.

    `results` holds what the GoodAI benchmark would have written, one folder a repetition.
    """

    result: EvaluationResult
    figures: RunFigures
    left_out: Sequence[LeftOut]
    results: Sequence[Path]


def run_memory(
    configuration: str | os.PathLike[str],
    endpoint: Endpoint,
    *,
    judge: Endpoint | None = None,
    generator: Endpoint | None = None,
    definitions: Path | None = None,
    mode: Mode | None = None,
    texts: Path | None = None,
    filler: Path | None = None,
    wording: Path | None = None,
    tokenizer: str | Tokenizer = "cl100k_base",
    isolated: bool = False,
    seed: int | None = None,
    repeat: int = 1,
    max_prompt_size: int | None = None,
    clock: ClockName = "virtual",
    name: str | None = None,
    **arguments: Unpack[RunArguments],
) -> MemoryOutcome:
    """Have the conversations of a configuration with an agent, and score its tests.

    Args:
        configuration: a YAML file, as the GoodAI benchmark publishes them.
        endpoint: the agent: a model, or (kind `memory_agent`) one with a memory of its own.
        judge: the model that scores what words alone cannot, and that dynamic tests consult; without it these are
            judged by words, and those that are scored by a model only are not applicable.
        generator: the model that writes the content of kinds that need one.
        definitions: the folder of the tests' definitions; by default `datasets/memory/<run name>/definitions`.
        mode: `reuse` takes the definitions that are there as they are, `regenerate` makes them anew; by default those
            that are there are taken if they were made of this configuration.
        texts: where kinds find the texts that they need (states for chapter break).
        filler, wording: files that take the place of those that ship.
        tokenizer: what tokens are counted with, by name (`tunecheck.memory._tokens`), or something that counts them.
        isolated: each test in a conversation of its own, without filler.
        seed: of definitions and filler; by default the configuration's, and 0.
        repeat: so many conversations, side by side.
        max_prompt_size: tokens of the conversation that the agent is sent at most.
        clock: see MemoryTarget.
        name: the run's.
        arguments: see `evaluate`.

    Raises:
        ConfigurationError: an argument is wrong, or a file that it names; the text says which.
        RunError: the run was stopped; what it finished is kept, and the text says how to go on.
    """
    counting = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    read = read_configuration(os.fspath(configuration), seed=seed)
    isolated = isolated or read.isolated
    making = Making(read.seed, read.memory_span, texts, generator)
    kept = _kept(read, arguments, isolated)
    if kept is None:
        folder = definitions or DEFINITIONS / read.run_name / "definitions"
        made = make_definitions(read, folder, making, mode=mode, count=counting.count)
    else:
        made = make_definitions(read, kept, making, mode="reuse")
    settings = Settings(
        memory_span=read.memory_span,
        wording=load_wording(wording),
        filler=load_filler(filler),
        tokenizer=counting,
        incompatibilities=read.incompatibilities,
        isolated=isolated,
        seed=read.seed,
    )
    tests = _tests(read, made)
    for kind in {test.kind.title: test.kind for test in tests}.values():
        kind.check(settings.wording)
    target = MemoryTarget(
        endpoint,
        tests,
        settings,
        judge=lambda: WordJudge() if judge is None else EndpointJudge(judge),
        judged_by={"judge": "words"} if judge is None else {"judge": judge.name, **judge.answer_settings()},
        judge_endpoint=judge,
        max_prompt_size=max_prompt_size,
        clock=clock,
        prepare=lambda run: keep_definitions(benchmark_folder(run, read, isolated=isolated), read, made.definitions),
        notes=[*_notes(made, tests, judge)],
    )
    rows = open_dataset([_row(test) for test in tests])
    mapping = {"ground_truth": "${data.expected}", "response": "${target.response}"}
    result = evaluate(
        data=rows.with_defaults(DatasetDefaults(column_mapping=mapping), name=read.run_name),
        target=target,
        evaluators={EVALUATOR: MemoryEvaluator(judge)},
        evaluation_name=name or read.run_name + (" (isolated)" if isolated else ""),
        repeat=repeat,
        group_by="dataset",
        **arguments,
    )
    run = Run(result.run_dir)
    benchmark = benchmark_folder(run.folder, read, isolated=isolated)
    left_out: list[JSON] = [{"title": each.title, "reason": each.reason} for each in made.left_out]
    more: dict[str, JSON] = {"left_out": left_out, "isolated": isolated}
    figures, results = write_run_files(run, target, made.definitions, benchmark, repeat, result.usage, more)
    return MemoryOutcome(result, figures, made.left_out, results)


def _kept(read: Configuration, arguments: RunArguments, isolated: bool) -> Path | None:
    """The definitions that a run was begun with, where it goes on and had come so far as to keep them."""
    resume = arguments.get("resume")
    if resume is None:
        return None
    results = Path(arguments.get("results_dir", "eval_results"))
    folder = benchmark_folder(find_run(resume, results).folder, read, isolated=isolated) / "definitions"
    return folder if folder.is_dir() else None


def _tests(read: Configuration, made: Made) -> list[Test]:
    """The tests of the definitions; a data set's own memory span goes with them."""
    tests = []
    for definition in made.definitions:
        data_set = read.data_set(definition.title)
        assert data_set is not None
        own = data_set.memory_span
        tests.append(Test(definition, data_set.kind, None if own == read.memory_span else own))
    return tests


def _notes(made: Made, tests: Sequence[Test], judge: Endpoint | None) -> list[str]:
    notes = [f"{each.title} is left out: {each.reason}" for each in made.left_out]
    consulting = sorted({test.definition.title for test in tests if test.kind.consults})
    if judge is None and consulting:
        notes.append(
            f"{', '.join(consulting)}: judged by words, not by a model, while the tests ran; --judge names one"
        )
    judged = sorted({test.definition.title for test in tests if needs_judge(test.definition.title)})
    if judge is None and judged:
        notes.append(f"{', '.join(judged)}: not scored, as only a judge can; --judge names one")
    return notes


def _row(test: Test) -> dict[str, object]:
    definition = test.definition
    data = definition_data(definition)
    return {
        "id": definition.id,
        "dataset": definition.title,
        "example": definition.example,
        "script": data["script"],
        "is_question": data["is_question"],
        "waits": data["waits"],
        "expected": data["expected_responses"],
        "arguments": dict(test.kind.arguments),
    }
