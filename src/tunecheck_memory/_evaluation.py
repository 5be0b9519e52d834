"""Run the long-term-memory benchmark as one run of the pipeline, in which one conversation answers many rows.

Each test is a row, each repetition a session: one conversation with all tests. `MemoryTarget` joins the two. The first
row of a repetition starts its session in the background, and each row waits there until its test has ended.
`run_memory` lets `evaluate()` run these rows, then writes the files of the GoodAI benchmark.

Only a judge can answer some questions. Without `judge`:

* Tests that ask a judge while they run are refused, or left out with `unjudged`.
* Tests that only a judge can score are refused, or run without a score with `unjudged`.
* Tests that the rules are unsure of keep the score of the rules.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import msgspec
from msgspec.structs import asdict

from tunecheck import CallContext, ConfigurationError, EvaluationResult, Row, Run, RunError, evaluate, find_run, plugins
from tunecheck.datasets import SOURCE_ID, TRIAL, DatasetDefaults, open_dataset
from tunecheck.endpoints import Endpoint, EndpointTargetBase
from tunecheck.evaluation import RESULTS_DIR, RunArguments, result_or_unanswered
from tunecheck.plugins import JSON, CallsMade, content_hash, whole_number
from tunecheck_memory import _benchmark, _events, _run_files
from tunecheck_memory._agents import Agent, agent_for
from tunecheck_memory._benchmark import Configuration, DefinitionSet, LeftOut, Mode, definition_data
from tunecheck_memory._evaluator import MemoryEvaluator
from tunecheck_memory._kind import FinishedTest, GenerationContext, Kind, Score
from tunecheck_memory._scheduler import Settings, Test, schedule
from tunecheck_memory._session import ClockName, Judge, Session, SessionClock, SessionState, TestState
from tunecheck_memory._tokens import Tokenizer, load_tokenizer
from tunecheck_memory._wording import SessionWording, load_filler, load_wording

DEFINITIONS = Path("datasets") / "memory"
"""The folder of benchmarks' definitions, with a subfolder for each run name."""


class MemoryOutcome(msgspec.Struct, frozen=True):
    """The outcome of a run: its result, its figures, the skipped data sets, and its folders.

    `results` are folders in the layout of the GoodAI benchmark, one for each repetition.
    """

    result: EvaluationResult
    figures: _run_files.MemorySummary
    left_out: Sequence[LeftOut]
    results: Sequence[Path]


FilePath: TypeAlias = str | Path


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
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
        unjudged: If there is no judge, run tests that only a judge can score without a score, and leave out tests that
            ask the judge while they run.
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
    trust_in_kinds = None if trust is None else trust.of_options(Path(plan.configuration))
    config = _benchmark.read_configuration(plan.configuration, seed=plan.seed, trust=trust_in_kinds)

    needing_judge = [each.title for each in config.data_sets if each.kind.consults or each.kind.judged]
    if needing_judge and plan.judge is None and not plan.unjudged:
        raise ConfigurationError(
            f"the tests {', '.join(needing_judge)} need a judge; name the judge's model with --judge, or run without "
            "the judge's scores with --unjudged"
        )

    settings = Settings(
        memory_span=config.memory_span,
        wording=load_wording(plan.wording),
        filler=load_filler(plan.filler),
        tokenizer=load_tokenizer(plan.tokenizer) if isinstance(plan.tokenizer, str) else plan.tokenizer,
        incompatibilities=config.incompatibilities,
        isolated=plan.isolated or config.isolated,
        seed=config.seed,
    )

    # A resumed run keeps its definitions. Its event logs are checked before any conversation continues.
    resume = arguments.get("resume")
    resumed = None if resume is None else find_run(resume, Path(arguments.get("results_dir", RESULTS_DIR)))
    suite = _definitions(plan, config, settings, resumed)
    accept = arguments.get("accept_damage", False)
    damage_notes = [] if resumed is None else _refuse_damaged_logs(resumed, accept=accept)

    target = _target(plan, config, settings, suite, damage_notes)
    rows = open_dataset([_row(test) for test in target.tests])
    mapping = {"ground_truth": "${data.expected}", "response": "${target.response}"}
    defaults = DatasetDefaults(column_mapping=mapping, primary=_run_files.EVALUATOR)

    result = result_or_unanswered(
        evaluate,
        data=rows.with_defaults(defaults, name=config.run_name),
        target=target,
        evaluators={_run_files.EVALUATOR: MemoryEvaluator(plan.judge)},
        evaluation_name=plan.name or config.run_name + (_run_files.ISOLATED if settings.isolated else ""),
        repeat=plan.repeat,
        group_by="dataset",
        **arguments,
    )

    run = Run(result.run_dir)
    folder = _run_files.benchmark_folder(run.folder, config, isolated=settings.isolated)
    figures, paths = _run_files.write_run_files(
        run, target, suite, folder, plan.repeat, result.usage, isolated=settings.isolated
    )
    return MemoryOutcome(result, figures, suite.left_out, paths)


def _definitions(plan: MemoryPlan, config: Configuration, settings: Settings, resumed: Run | None) -> DefinitionSet:
    """Return the tests' definitions: those of the resumed run if it has any, else stored or new ones.

    Raises:
        ConfigurationError: Every data set lacks its texts or a judge.
    """
    texts = None if plan.texts is None else Path(plan.texts)
    context = GenerationContext(config.seed, config.memory_span, texts, plan.generator)

    if resumed is not None:
        folder_of_run = _run_files.benchmark_folder(resumed.folder, config, isolated=settings.isolated) / "definitions"
        if (folder_of_run / _benchmark.CONFIG).is_file():
            return _benchmark.make_definitions(config, folder_of_run, context, mode="reuse")

    folder = Path(plan.definitions or DEFINITIONS / config.run_name / "definitions")
    suite = _benchmark.make_definitions(config, folder, context, mode=plan.mode, count=settings.tokenizer.count)
    if plan.judge is None:
        asking = {each.title for each in config.data_sets if each.kind.consults}
        suite = _benchmark.definition_set(config, (each for each in suite.definitions if each.title not in asking))

    if not suite.definitions:
        reasons = "; ".join(f"{each.title}: {each.reason}" for each in suite.left_out)
        raise ConfigurationError(f"{config.path}: no data set can run ({reasons})")
    return suite


def _target(
    plan: MemoryPlan, config: Configuration, settings: Settings, suite: DefinitionSet, notes: Iterable[str]
) -> MemoryTarget:
    """Return the plan's agent as a target that holds the conversation; `notes` are further remarks for the run.

    Raises:
        ConfigurationError: The prompt size does not suit the agent, or the clock's name is unknown.
    """
    data_sets = {each.title: each for each in config.data_sets}
    tests = [Test(each, data_sets[each.title].kind, data_sets[each.title].memory_span) for each in suite.definitions]
    kinds = [data_sets[title].kind for title in sorted({each.title for each in suite.definitions})]

    return MemoryTarget(
        plan.endpoint,
        tests,
        settings,
        judge=plan.judge,
        max_prompt_size=plan.max_prompt_size,
        clock=plan.clock,
        prepare=lambda run: _run_files.keep_definitions(
            _run_files.benchmark_folder(run, config, isolated=settings.isolated), config, suite.definitions
        ),
        notes=[*_notes(suite, kinds, plan.judge), *notes],
    )


def _refuse_damaged_logs(run: Run, *, accept: bool) -> list[str]:
    """Raise RunError if an event log of the resumed run is damaged.

    With `accept`, cut the log before the damage instead; return a note for each log that was cut. Logs that another
    process holds are skipped.
    """
    run.manifest()  # raises an error if the folder contains links
    logs = [path for path in sorted(run.folder.glob("memory/session-*/events.jsonl")) if not plugins.is_held(path)]
    return [note for path in logs if (note := _events.refuse_damage(path, accept=accept)) is not None]


def _notes(suite: DefinitionSet, kinds: Iterable[Kind], judge: Endpoint | None) -> Iterator[str]:
    """Yield notes on data sets that were left out, and on tests that lack a judge."""
    for each in suite.left_out:
        yield f"{each.title} is left out: {each.reason}"

    judged = ", ".join(kind.title for kind in kinds if kind.judged)
    if judge is None and judged:
        yield f"{judged}: not scored, because only a judge can score these tests; name the judge's model with --judge"


def _row(test: Test) -> dict[str, object]:
    """Return a test as a row of the data set: its definition and the arguments of its kind."""
    data = definition_data(test.definition)
    columns: dict[str, object] = {"id": test.id, "dataset": test.definition.title, "example": test.definition.example}
    columns |= {name: data[name] for name in ("script", "is_question", "waits")}

    return {**columns, "expected": data["expected_responses"], "arguments": dict(test.kind.arguments)}


# -- the agent as a target


@dataclass(eq=False, repr=False)
class MemoryTarget(EndpointTargetBase):
    """An agent as a target: a row names a test, and is answered when the test ends in the row's session.

    The rows of one repetition are one session; its first row starts it. Events are logged in the run's folder, and an
    interrupted session continues from there.

    Args:
        endpoint: The agent: a model, or an agent with its own memory.
        tests: All tests of a session.
        settings: The settings of the interleaving.
        judge: The model that running tests consult.
        max_prompt_size: The most tokens of the conversation in one prompt.
        clock: `virtual`, `mirrored` (the agent is informed when time passes) or `real` (the session waits).
        prepare: Called with the run's folder before the first session starts.
        notes: Remarks for the run.

    Raises:
        ConfigurationError: The clock is unknown, the prompt size is below 1, or it is given for an agent that keeps the
            conversation itself.
    """

    tracks_each_call = True
    evaluators_may_change = True

    endpoint: Endpoint
    tests: Sequence[Test]
    settings: Settings
    _: KW_ONLY
    judge: Endpoint | None = None
    max_prompt_size: int | None = None
    clock: ClockName = "virtual"
    prepare: Callable[[Path], None] = lambda folder: None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check that clock and prompt size suit the agent; no conversation starts yet."""
        super().__init__(self.endpoint)

        # A reply depends on the whole conversation before it.
        self.answers_can_be_reused = False

        self.columns = OUTPUT_COLUMNS

        self._tests = {test.id: test for test in self.tests}
        self._running: dict[int, _Running] = {}
        self._stopped = False

        self._made_of = self._describe_parts()
        self._unchangeable = {name: part for name, part in self._made_of.items() if name not in _events.CHANGEABLE}

        # Both raise for wrong settings, before any row runs.
        SessionClock(self.clock)
        self._agent("", self.max_prompt_size)

    def _agent(self, conversation: str, max_prompt_size: int | None) -> Agent:
        """Return the agent of the conversation with this id.

        Raises:
            ConfigurationError: the prompt size is below 1, or is given for an endpoint that keeps the conversation.
        """
        tokenizer = self.settings.tokenizer
        return agent_for(self.endpoint, tokenizer, conversation=conversation, max_prompt_size=max_prompt_size)

    async def answer(self, row: Row, context: CallContext) -> plugins.TargetOutput:
        """Wait until the row's test ends in its session, and return the test's columns.

        The first row starts the session.

        Raises:
            RunError: The conversation cannot continue.
        """
        trial = row.values.get(TRIAL, 1)
        assert isinstance(trial, int)
        test = self._tests[str(row.values.get(SOURCE_ID, row.id))]

        try:
            if trial not in self._running:
                self._running[trial] = self._start(trial, context)
            state = await self._running[trial].ended(test.id)
        except ConfigurationError as error:  # RunError stops the run; this one would fail only the row
            raise RunError(str(error)) from error
        return output_columns(state, test, _events.session_name(trial))

    def _start(self, trial: int, context: CallContext) -> _Running:
        """Start the session of the repetition with the number `trial`, or continue it from its event log.

        Raises:
            RunError: There is no run folder, or the log is damaged.
            ConfigurationError: The log was begun with other settings.
        """
        if context.folder is None or context.costs is None:
            raise RunError("a memory session needs the folder of a run; start the session with evaluate()")
        if not self._running:
            self.prepare(context.folder)

        # The agent begins with the first prompt size; later events of the log may change it.
        clock = SessionClock(self.clock)
        log = _events.EventLog(_events.event_log_path(context.folder, trial), clock.now(), self._made_of)
        settings = replace(self.settings, start_us=log.start_us)

        session = Session(
            schedule=lambda: schedule(self._tests.values(), settings),
            agent=self._agent(f"{context.run_id}/{trial}", whole_number(log.begun_with.get(_events.PROMPT_SIZE))),
            make_judge=self._make_judge,
            clock=clock,
            log=log,
            key=partial(_event_key, context.run_id, trial),
            state=SessionState(self.settings.tokenizer.count),
            costs=partial(context.costs.one_call, "target", self.endpoint),
            judge_costs=partial(context.costs.one_call, "judge", self.judge),
        )

        if self._stopped:
            session.stop()
        return _Running(session, log, self._tests)

    def _make_judge(self) -> Judge:
        """Return the judge of running tests; raise ConfigurationError if there is none."""
        if self.judge is None:
            raise ConfigurationError(
                "a test asks a judge while it runs; name the judge's model with --judge, and set consults = True in the"
                " test's kind"
            )
        from tunecheck_memory._judging import EndpointJudge

        return EndpointJudge(self.judge)

    def final_state(self, events: Iterable[_events.Event]) -> SessionState:
        """Return the state of a session after these events."""
        state = SessionState(self.settings.tokenizer.count)
        for event in events:
            if event.outcome is not None:
                state.note(event.effect, event.outcome)
        return state

    def group_key(self, row: Row) -> str:
        """Return the name of the row's session, because rows of one session must run in the same process."""
        return _events.session_name(row.values.get(TRIAL, 1))

    def usage(self, output: Mapping[str, JSON]) -> tuple[int | None, int | None]:
        """Return the input and output tokens of the test's share of the conversation; an unknown count is None.

        `output` has the test's columns.
        """
        column = output.get("share")
        share = column if isinstance(column, dict) else {}
        return whole_number(share.get("input_tokens")), whole_number(share.get("output_tokens"))

    def inputs(self, row: Row) -> JSON:
        """Return the inputs of a row's answer: its columns, and the settings that must not change."""
        return [dict(row.values), self._unchangeable]

    def _describe_parts(self) -> dict[str, JSON]:
        """Return all that determines the conversation, except the agent, as values or hashes by name."""
        settings, judge = self.settings, self.judge
        tests: list[JSON] = [
            [test.id, definition_data(test.definition), test.kind.name, dict(test.kind.arguments), test.memory_span]
            for test in self._tests.values()
        ]

        return {
            "tests": content_hash(tests),
            "settings": content_hash(_interleaving(settings)),
            "wording": _wording_hash(settings.wording),
            "filler": settings.filler.sha256,
            "tokenizer": settings.tokenizer.name,
            "clock": self.clock,
            _events.PROMPT_SIZE: self.max_prompt_size,
            _events.JUDGE: None if judge is None else {"judge": judge.name, **judge.answer_settings()},
        }

    def fingerprint(self) -> str:
        """Return a hash of the agent and of the settings that must not change."""
        return content_hash([super().fingerprint(), self._unchangeable])

    def describe(self) -> dict[str, JSON]:
        """Return the target's entry in the manifest, with the memory settings."""
        return {**super().describe(), "memory": {**_interleaving(self.settings), **self._made_of}}

    def stop(self) -> None:
        """Start no further calls in any session; rows that wait for a test then get a RunError."""
        self._stopped = True
        for running in self._running.values():
            running.session.stop()

    async def close(self) -> None:
        """Cancel the sessions, and close the connections of the agent."""
        for running in self._running.values():
            await running.close()
        await super().close()


class _Running:
    """A session that runs in the background."""

    def __init__(self, session: Session, log: _events.EventLog, tests: Iterable[str]) -> None:
        """Start the session in the running event loop; its log is closed when it ends."""
        loop = asyncio.get_running_loop()
        self.session = session
        self._ended: dict[str, asyncio.Future[TestState]] = {test: loop.create_future() for test in tests}
        session.ended = lambda state: self._ended[state.id].set_result(state)
        self._task = loop.create_task(session.run())
        self._task.add_done_callback(lambda _: log.close())

    async def ended(self, test: str) -> TestState:
        """Wait until a test has ended, and return its state; raise the session's error if the session fails first."""
        # The session may fail before the test ends: wait for either, so that no row waits for ever.
        future = self._ended[test]
        await asyncio.wait((future, self._task), return_when=asyncio.FIRST_COMPLETED)

        if not future.done():
            self._task.result()  # raises the session's error
        return future.result()

    async def close(self) -> None:
        """Cancel the session and wait for it; calls in flight are repeated when it is resumed."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.exception()  # read, or asyncio would log the error


def _event_key(run_id: str, trial: int, number: int) -> str:
    """Return the idempotency key of the event with this number, which is the same when the run is resumed."""
    text = "\0".join((run_id, "memory", str(trial), str(number)))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _interleaving(settings: Settings) -> dict[str, JSON]:
    """Return the settings that decide how tests are interleaved, for hashes and the manifest."""
    names = ("memory_span", "by_topics", "isolated", "introduce", "seed", "max_message_tokens")
    title_sets: list[JSON] = [[*sorted(titles)] for titles in settings.incompatibilities]
    return {**{name: getattr(settings, name) for name in names}, "incompatibilities": title_sets}


def _wording_hash(wording: SessionWording) -> str:
    """Return a hash of all texts and the menu, independent of the paths of their files."""
    texts: dict[str, Any] = msgspec.to_builtins(wording)
    # The path of the menu differs between machines; its content decides the conversation.
    texts["restaurant"]["menu_file"] = wording.restaurant.menu.text
    return content_hash(texts)


OUTPUT_COLUMNS = frozenset(
    "response responses questions since_question points reasons own_score own_sure log session began ended tokens "
    "characters needles usage share judged latency_ms simulated".split()
)


def output_columns(state: TestState, test: Test, session: str) -> dict[str, JSON]:
    """Return the columns of a finished test, for its row.

    response: the last reply to a question.
    responses, questions: all replies and questions, in order.
    since_question: all replies in the conversation from the question on, for tests with a callback.
    points, reasons: `{"points", "most"}` and the reasons, if the test counts its points itself.
    own_score, own_sure: the score by a user's own kind and whether its rules are sure, with `reasons`; else None.
    log: the test's own events: `{"what", "message", "tokens", "at", …}`. `message` and `tokens` count those of the
        whole conversation before the event; statements and questions have their `size` in tokens with the reply, and
        the model's `reasoning` if there was any.
    session: the conversation's name.
    began, ended: `{"message", "tokens", "at"}`.
    tokens, characters: counts of the whole conversation from the test's start to its end, the memory distance.
    needles: the number of statements.
    usage: the calls of its own messages.
    share: the calls of the conversation since the previous test ended; the shares of all tests add up to the total.
        Simulated replies are excluded.
    judged: its calls to the judge; None without a judge model.
    latency_ms: the sum over its own messages.
    """
    assert state.ended is not None
    definition, points, own = test.definition, state.points, _own_score(state, test)
    explained = points if own is None else own  # the reasons are those of the kind's own score, if it gives one
    counted: dict[str, JSON] | None = None if points is None else {"points": points.points, "most": points.most}

    return {
        "response": state.responses[-1] if state.responses else None,
        **{name: [*getattr(state, name)] for name in ("responses", "questions", "since_question", "log")},
        "points": counted,
        "reasons": [] if explained is None else [*explained.reasons],
        "own_score": None if own is None else own.score,
        "own_sure": None if own is None else own.sure,
        "session": session,
        "began": state.begun.data(),
        "ended": state.ended.data(),
        "tokens": state.ended.tokens - state.begun.tokens,
        "characters": state.characters,
        "needles": definition.statements,
        "usage": _usage_column(state.spent),
        "share": _usage_column(state.share),
        "judged": _usage_column(state.judged) if state.judged.calls else None,
        "latency_ms": state.latency_ms,
        "simulated": state.simulated,
    }


def _usage_column(made: CallsMade) -> dict[str, JSON]:
    """Return the number of calls and their tokens as a column; other counts only if they are not 0."""
    counts = asdict(made)
    always: dict[str, JSON] = {name: counts.pop(name) for name in ("input_tokens", "output_tokens", "calls")}
    return always | {name: count for name, count in counts.items() if count}


def _own_score(state: TestState, test: Test) -> Score | None:
    """Return the score that a user's own kind gives; None for shipped kinds, which the evaluator scores.

    Raises:
        TypeError: The kind returned anything but a score or None. Other errors of its code are raised, too.
    """
    if type(test.kind).score.__module__.startswith(f"{__package__}."):  # the evaluator applies shipped rules
        return None

    given = FinishedTest(
        title=test.definition.title,
        expected=test.definition.expected,
        responses=state.responses,
        questions=state.questions,
        since_question=state.since_question,
        points=state.points,
        script=test.definition.script,
    )
    score: object = test.kind.score(given)
    if score is not None and not isinstance(score, Score):
        raise TypeError(f"score() of the test {state.id} must return a Score or None, not {type(score).__name__}")
    return score
