"""Run the long-term-memory benchmark as one run of the pipeline, and write its figures and files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, Unpack

from tunecheck import ConfigurationError, EvaluationResult, Run, evaluate, find_run
from tunecheck.datasets import DatasetDefaults, open_dataset
from tunecheck.endpoints import Endpoint
from tunecheck.evaluation import RESULTS_DIR, RunArguments, result_or_unanswered
from tunecheck.plugins import is_held
from tunecheck_memory._clock import ClockName
from tunecheck_memory._configuration import Configuration, read_configuration
from tunecheck_memory._evaluator import MemoryEvaluator
from tunecheck_memory._event_log import refuse_damage
from tunecheck_memory._kind import GenerationContext, Kind
from tunecheck_memory._making import DefinitionSet, LeftOut, Mode, definition_data, make_definitions
from tunecheck_memory._run_files import (
    EVALUATOR,
    ISOLATED,
    MemorySummary,
    benchmark_folder,
    keep_definitions,
    write_run_files,
)
from tunecheck_memory._scheduler import Settings, Test
from tunecheck_memory._target import MemoryTarget
from tunecheck_memory._tokens import Tokenizer, load_tokenizer
from tunecheck_memory._wording import load_filler, load_wording

DEFINITIONS = Path("datasets") / "memory"
"""The folder of benchmarks' definitions, with a subfolder for each run name."""

_JUDGED_BY_WORDS = "restaurant"
"""The kind of tests that can be judged by words instead of a model."""


@dataclass(frozen=True)
class MemoryOutcome:
    """The outcome of a run: its result, its figures, the skipped data sets, and its folders.

    `results` are folders in the layout of the GoodAI benchmark, one for each repetition.
    """

    result: EvaluationResult
    figures: MemorySummary
    left_out: Sequence[LeftOut]
    results: Sequence[Path]


FilePath: TypeAlias = str | Path


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """A memory run: its configuration, its agent, and its settings.

    Args:
        configuration: A YAML file, as the GoodAI benchmark publishes them.
        endpoint: The agent: a model, or an endpoint of kind `memory_agent`, which has its own memory.
        judge: The judge's model, for tests that rules cannot score with certainty. Without it, only rules score tests.
        generator: The model that writes the content of kinds that need one.
        definitions: The folder of the tests' definitions; by default `datasets/memory/<run name>/definitions`.
        mode: `reuse` uses the existing definitions, `regenerate` makes new ones; see `make_definitions`.
        texts: The texts that kinds need (books for chapter break).
        filler, wording: Files that replace the shipped filler and texts.
        tokenizer: A tokenizer, or the name of one (`tunecheck_memory._tokens`).
        isolated: Run each test in a conversation of its own, without waits for tokens.
        seed: The seed of definitions and filler; by default the configuration's, else 0.
        repeat: The number of conversations, which run concurrently.
        max_prompt_size: The most tokens of the conversation in one prompt.
        clock: See MemoryTarget.
        unjudged: If there is no judge, also run tests that only a judge can score; they get no score.
        name: The run's name.
    """

    configuration: FilePath
    endpoint: Endpoint
    judge: Endpoint | None = None
    generator: Endpoint | None = None
    definitions: FilePath | None = None
    mode: Mode | None = None
    texts: FilePath | None = None
    filler: FilePath | None = None
    wording: FilePath | None = None
    tokenizer: str | Tokenizer = "cl100k_base"
    isolated: bool = False
    seed: int | None = None
    repeat: int = 1
    max_prompt_size: int | None = None
    clock: ClockName = "virtual"
    unjudged: bool = False
    name: str | None = None


def run_memory(plan: MemoryPlan, **arguments: Unpack[RunArguments]) -> MemoryOutcome:
    """Run a memory benchmark: hold its conversations with an agent, score the tests, and write the run's files.

    Raises:
        ConfigurationError: An argument is wrong, or a file that it names; the text says which.
        RunError: The run was stopped. Its finished tests are kept; the message says how to resume it.
    """
    trust = arguments.get("trust")
    naming = None if trust is None else trust.of_options(Path(plan.configuration))
    read = read_configuration(plan.configuration, seed=plan.seed, trust=naming)
    if plan.judge is None:
        _check_unjudged([each.kind for each in read.data_sets], plan.unjudged)
    settings = Settings(
        memory_span=read.memory_span,
        wording=load_wording(plan.wording),
        filler=load_filler(plan.filler),
        tokenizer=load_tokenizer(plan.tokenizer) if isinstance(plan.tokenizer, str) else plan.tokenizer,
        incompatibilities=read.incompatibilities,
        isolated=plan.isolated or read.isolated,
        seed=read.seed,
    )
    resume = arguments.get("resume")
    resumed = None if resume is None else find_run(resume, Path(arguments.get("results_dir", RESULTS_DIR)))
    suite = _definitions(plan, read, settings, resumed)
    damaged = _refuse_damaged_logs(resumed, accept=arguments.get("accept_damage", False))
    target = _target(plan, read, settings, suite)
    target.notes = [*target.notes, *damaged]
    rows = open_dataset([_row(test) for test in target.tests])
    mapping = {"ground_truth": "${data.expected}", "response": "${target.response}"}
    declared = DatasetDefaults(column_mapping=mapping, primary=EVALUATOR)
    result = result_or_unanswered(
        evaluate,
        data=rows.with_defaults(declared, name=read.run_name),
        target=target,
        evaluators={EVALUATOR: MemoryEvaluator(plan.judge)},
        evaluation_name=plan.name or read.run_name + (ISOLATED if settings.isolated else ""),
        repeat=plan.repeat,
        group_by="dataset",
        **arguments,
    )
    run = Run(result.run_dir)
    folder = benchmark_folder(run.folder, read, isolated=settings.isolated)
    figures, paths = write_run_files(run, target, suite, folder, plan.repeat, result.usage, isolated=settings.isolated)
    return MemoryOutcome(result, figures, suite.left_out, paths)


def _definitions(plan: MemoryPlan, read: Configuration, settings: Settings, resumed: Run | None) -> DefinitionSet:
    """Return the tests' definitions: those of the resumed run, if any, else those of the plan's folder or new ones."""
    texts = None if plan.texts is None else Path(plan.texts)
    context = GenerationContext(read.seed, read.memory_span, texts, plan.generator)
    if resumed is not None:
        folder_of_run = benchmark_folder(resumed.folder, read, isolated=settings.isolated) / "definitions"
        if folder_of_run.is_dir():
            return make_definitions(read, folder_of_run, context, mode="reuse")
    folder = Path(plan.definitions or DEFINITIONS / read.run_name / "definitions")
    return make_definitions(read, folder, context, mode=plan.mode, count=settings.tokenizer.count)


def _target(plan: MemoryPlan, read: Configuration, settings: Settings, suite: DefinitionSet) -> MemoryTarget:
    """Return the plan's agent as a target that holds the conversation.

    Raises:
        ConfigurationError: The prompt size does not suit the agent, or there is no such clock.
    """
    data_sets = {each.title: each for each in read.data_sets}
    tests = [Test(each, data_sets[each.title].kind, data_sets[each.title].memory_span) for each in suite.definitions]
    kinds = [data_sets[title].kind for title in sorted({each.title for each in suite.definitions})]
    return MemoryTarget(
        plan.endpoint,
        tests,
        settings,
        judge=plan.judge,
        max_prompt_size=plan.max_prompt_size,
        clock=plan.clock,
        prepare=lambda run: keep_definitions(
            benchmark_folder(run, read, isolated=settings.isolated), read, suite.definitions
        ),
        notes=[*_notes(suite, kinds, plan.judge)],
    )


def _refuse_damaged_logs(run: Run | None, *, accept: bool) -> list[str]:
    """Raise RunError if an event log of the resumed run is damaged.

    With `accept`, cut the log before the damage instead; return a note for each log that was cut. Logs that another
    process holds are skipped.
    """
    if run is None:
        return []
    run.manifest()  # refuses a folder that leads elsewhere
    logs = [path for path in sorted(run.folder.glob("memory/session-*/events.jsonl")) if not is_held(path)]
    return [note for path in logs if (note := refuse_damage(path, accept=accept)) is not None]


def _check_unjudged(kinds: Sequence[Kind], unjudged: bool) -> None:
    """Raise ConfigurationError for tests that need a judge; `unjudged` allows those that only cannot be scored."""
    asking = ", ".join(kind.title for kind in kinds if kind.consults and kind.name != _JUDGED_BY_WORDS)
    if asking:
        raise ConfigurationError(f"{asking}: these tests ask a judge; name its model with --judge")
    scored = ", ".join(kind.title for kind in kinds if kind.judged)
    if scored and not unjudged:
        raise ConfigurationError(
            f"{scored}: only a judge can score these tests; name its model with --judge, or leave them unscored with "
            "--unjudged"
        )


def _notes(suite: DefinitionSet, kinds: Iterable[Kind], judge: Endpoint | None) -> Iterator[str]:
    """Yield notes on data sets that were left out, and on tests that lack a judge."""
    for each in suite.left_out:
        yield f"{each.title} is left out: {each.reason}"
    consulting = ", ".join(kind.title for kind in kinds if kind.consults)
    judged = ", ".join(kind.title for kind in kinds if kind.judged)
    if judge is None and consulting:
        yield f"{consulting}: word rules judged the replies during the tests; to judge with a model, give --judge"
    if judge is None and judged:
        yield f"{judged}: not scored, because only a judge can score these tests; name its model with --judge"


def _row(test: Test) -> dict[str, object]:
    """Return a test as a row of the data set: its definition and the arguments of its kind."""
    data = definition_data(test.definition)
    columns: dict[str, object] = {"id": test.id, "dataset": test.definition.title, "example": test.definition.example}
    columns |= {name: data[name] for name in ("script", "is_question", "waits")}
    return {**columns, "expected": data["expected_responses"], "arguments": dict(test.kind.arguments)}
