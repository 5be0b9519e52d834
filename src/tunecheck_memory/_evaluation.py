"""The long-term-memory benchmark as one run of the pipeline, which leaves its figures and files in the run's folder."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Unpack

from tunecheck import ConfigurationError, EvaluationResult, Run, evaluate, find_run
from tunecheck.datasets import DatasetDefaults, open_dataset
from tunecheck.endpoints import Endpoint
from tunecheck.evaluation import RESULTS_DIR, RunArguments, even_unanswered
from tunecheck.plugins import is_held
from tunecheck_memory._clock import ClockName
from tunecheck_memory._configuration import Configuration, read_configuration
from tunecheck_memory._definitions import definition_data
from tunecheck_memory._evaluator import MemoryEvaluator
from tunecheck_memory._event_log import refuse_damage
from tunecheck_memory._files import LeftOut, MemorySummary
from tunecheck_memory._filler import load_filler
from tunecheck_memory._kind import GenerationContext, Kind
from tunecheck_memory._making import DefinitionSet, Mode, make_definitions
from tunecheck_memory._run_files import ISOLATED, benchmark_folder, keep_definitions, write_run_files
from tunecheck_memory._scheduler import Settings
from tunecheck_memory._session import Judge
from tunecheck_memory._target import MemoryTarget
from tunecheck_memory._tasks import Test
from tunecheck_memory._tokens import Tokenizer, load_tokenizer
from tunecheck_memory._wording import load_wording

DEFINITIONS = Path("datasets") / "memory"
"""Where benchmarks' definitions are kept, each in a folder of its run name."""

EVALUATOR = "memory"

_JUDGED_BY_WORDS = "restaurant"
"""The kind of tests whose questions `WordJudge` answers."""


@dataclass(frozen=True)
class MemoryOutcome:
    """What came of a run: its result, its figures, the data sets that were left out of it, and its folders.

    `results` holds what the GoodAI benchmark would have written, one folder a repetition.
    """

    result: EvaluationResult
    figures: MemorySummary
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
    unjudged: bool = False,
    name: str | None = None,
    **arguments: Unpack[RunArguments],
) -> MemoryOutcome:
    """Have the conversations of a configuration with an agent, and score its tests.

    Args:
        configuration: a YAML file, as the GoodAI benchmark publishes them.
        endpoint: the agent: a model, or (kind `memory_agent`) one with a memory of its own.
        judge: scores what words alone cannot; without it that is judged by words, or not applicable.
        generator: the model that writes the content of kinds that need one.
        definitions: the folder of the tests' definitions; by default `datasets/memory/<run name>/definitions`.
        mode: `reuse` takes the definitions that are there, `regenerate` makes new ones; see `make_definitions`.
        texts: where kinds find the texts that they need (states for chapter break).
        filler: a file that takes the place of the one that ships; `wording`: likewise.
        tokenizer: what tokens are counted with, by name (`tunecheck_memory._tokens`), or something that counts them.
        isolated: each test in a conversation of its own, without filler.
        seed: of definitions and filler; by default the configuration's, and 0.
        repeat: so many conversations, side by side.
        max_prompt_size: tokens of the conversation that the agent is sent at most.
        clock: see MemoryTarget.
        unjudged: without a judge, have tests that only a judge can score all the same; they get no score.
        name: the run's.
        arguments: see `evaluate`.

    Raises:
        ConfigurationError: an argument is wrong, or a file that it names; the text says which.
        RunError: the run was stopped; what it finished is kept, and the text says how to go on.
    """
    counting = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    trust = arguments.get("trust")
    naming = None if trust is None else trust.of_options(Path(configuration))
    read = read_configuration(os.fspath(configuration), seed=seed, trust=naming)
    isolated = isolated or read.isolated
    if judge is None:
        _check_unjudged([each.kind for each in read.data_sets], unjudged)
    settings = Settings(
        memory_span=read.memory_span,
        wording=load_wording(wording),
        filler=load_filler(filler),
        tokenizer=counting,
        incompatibilities=read.incompatibilities,
        isolated=isolated,
        seed=read.seed,
    )
    context = GenerationContext(read.seed, read.memory_span, texts, generator)
    resumed = _resumed(arguments)
    kept = None if resumed is None else benchmark_folder(resumed.folder, read, isolated=isolated) / "definitions"
    if kept is not None and kept.is_dir():
        made = make_definitions(read, kept, context, mode="reuse")
    else:
        folder = definitions or DEFINITIONS / read.run_name / "definitions"
        made = make_definitions(read, folder, context, mode=mode, count=counting.count)
    benchmark = _Benchmark(read, made, settings, judge)
    target = benchmark.target(endpoint, max_prompt_size, clock)
    result = benchmark.run(target, name, repeat, arguments)
    return benchmark.outcome(result, target, repeat)


@dataclass(frozen=True)
class _Benchmark:
    """A configuration with its definitions, ready to be had with an agent."""

    read: Configuration
    made: DefinitionSet
    settings: Settings
    judge: Endpoint | None

    @cached_property
    def tests(self) -> list[Test]:
        """The tests of the definitions; a data set's own memory span goes with them."""
        tests = []
        for definition in self.made.definitions:
            data_set = self.read.data_set(definition.title)
            assert data_set is not None
            own = data_set.memory_span
            tests.append(Test(definition, data_set.kind, None if own == self.read.memory_span else own))
        return tests

    def target(self, endpoint: Endpoint, max_prompt_size: int | None, clock: ClockName) -> MemoryTarget:
        """The agent as a target.

        Raises:
            ConfigurationError: the wording lacks what a kind needs.
        """
        judge = self.judge
        for kind in {test.kind.title: test.kind for test in self.tests}.values():
            kind.check(self.settings.wording)
        return MemoryTarget(
            endpoint,
            self.tests,
            self.settings,
            judge=lambda: _consulted(judge),
            judged_by={"judge": "words"} if judge is None else {"judge": judge.name, **judge.answer_settings()},
            judge_endpoint=judge,
            max_prompt_size=max_prompt_size,
            clock=clock,
            prepare=lambda run: keep_definitions(self._folder(run), self.read, self.made.definitions),
            notes=[*_notes(self.made, self.tests, judge)],
        )

    def run(self, target: MemoryTarget, name: str | None, repeat: int, arguments: RunArguments) -> EvaluationResult:
        target.notes = [*target.notes, *_refuse_damaged_logs(arguments)]
        rows = open_dataset([_row(test) for test in self.tests])
        mapping = {"ground_truth": "${data.expected}", "response": "${target.response}"}
        declared = DatasetDefaults(column_mapping=mapping, primary=EVALUATOR)
        return even_unanswered(
            evaluate,
            data=rows.with_defaults(declared, name=self.read.run_name),
            target=target,
            evaluators={EVALUATOR: MemoryEvaluator(self.judge)},
            evaluation_name=name or self.read.run_name + (ISOLATED if self.settings.isolated else ""),
            repeat=repeat,
            group_by="dataset",
            **arguments,
        )

    def outcome(self, result: EvaluationResult, target: MemoryTarget, repeat: int) -> MemoryOutcome:
        """Write the figures of a finished run and the files of the GoodAI benchmark."""
        run, left_out = Run(result.run_dir), self.made.left_out
        folder, definitions = self._folder(run.folder), self.made.definitions
        figures, results = write_run_files(
            run, target, definitions, folder, repeat, result.usage, left_out, isolated=self.settings.isolated
        )
        return MemoryOutcome(result, figures, left_out, results)

    def _folder(self, run: Path) -> Path:
        return benchmark_folder(run, self.read, isolated=self.settings.isolated)


def _resumed(arguments: RunArguments) -> Run | None:
    resume = arguments.get("resume")
    return None if resume is None else find_run(resume, Path(arguments.get("results_dir", RESULTS_DIR)))


def _refuse_damaged_logs(arguments: RunArguments) -> list[str]:
    """Before anything is asked; notes on what was cut off where damage is accepted."""
    run = _resumed(arguments)
    if run is None:
        return []
    run.manifest()  # refuses a folder that leads elsewhere
    accept = arguments.get("accept_damage", False)
    logs = [path for path in sorted(run.folder.glob("memory/session-*/events.jsonl")) if not is_held(path)]
    return [note for path in logs if (note := refuse_damage(path, accept=accept)) is not None]


def _check_unjudged(kinds: Sequence[Kind], unjudged: bool) -> None:
    """Refuse, before anything is made or said, tests that only a judge can go on with or score."""
    asking = [kind.title for kind in kinds if kind.consults and kind.name != _JUDGED_BY_WORDS]
    if asking:
        raise ConfigurationError(f"{', '.join(asking)}: a judge is asked while it runs; name a model with --judge")
    scored = [] if unjudged else [kind.title for kind in kinds if kind.judged]
    if scored:
        raise ConfigurationError(
            f"{', '.join(scored)}: only a judge can score it; name a model with --judge, or have it without a score "
            "with --unjudged"
        )


def _consulted(judge: Endpoint | None) -> Judge:
    """Whom tests ask while they run; loaded when one asks."""
    if judge is None:
        from tunecheck_memory._kinds.restaurant_words import WordJudge

        return WordJudge()
    from tunecheck_memory._judging import EndpointJudge

    return EndpointJudge(judge)


def _notes(made: DefinitionSet, tests: Sequence[Test], judge: Endpoint | None) -> list[str]:
    notes = [f"{each.title} is left out: {each.reason}" for each in made.left_out]
    consulting = sorted({test.definition.title for test in tests if test.kind.consults})
    if judge is None and consulting:
        notes.append(
            f"{', '.join(consulting)}: judged by words, not by a model, while the tests ran; --judge names one"
        )
    judged = sorted({test.kind.title for test in tests if test.kind.judged})
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
