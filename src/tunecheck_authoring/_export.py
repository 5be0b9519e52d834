"""Write the failed rows of a run as training examples for OpenAI, Azure OpenAI or TRL.

An example has the question, the right answer and the model's wrong answer. A conversation's expected calls are executed
one after another on new simulators, so that each example contains the results on which the next call depends.

A preference has a preferred (chosen) and a rejected reply to the same messages. A trial is one of several answers to
the same question. A row is tested in this order. A row that is left out is counted with the reason:

1. It failed: the target had an error, or an evaluator's counted metric is a fail. With `--against`, exactly one of the
   two runs failed it
2. Its cause is one of `--cause`; without `--cause`, its cause is the model's or unknown
3. It has a question and a ground truth that can be read; a conversation expects a call from the failed turn on
4. In preferences, the model gave a reply to reject
5. No earlier example is equal; equal ones are counted, and also leave the test set

| form | without `--against` | with `--against` |
|---|---|---|
| `sft` | prompt and completion | the same |
| `dpo` | prompt, chosen and rejected reply | the same |
| `openai` | a chat that ends with the right answer | a preference: input, preferred and other output |

With `--against`, the right answer is the reply of the run that passed; in conversations, the expected call.

Formats: OpenAI's and Azure OpenAI's chat fine-tuning (https://platform.openai.com/docs/guides/supervised-fine-tuning)
and preferences (https://platform.openai.com/docs/guides/direct-preference-optimization); TRL's conversational
prompt-completion and preference types with tools (https://huggingface.co/docs/trl/dataset_formats).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Literal, TypeAlias, cast

import msgspec

import tunecheck_authoring as authoring
from tunecheck import ConfigurationError, Row, Run, plugins
from tunecheck.calls import TOOL_COLUMNS, FunctionCall, Reading, ToolDefinitions, write_calls
from tunecheck.comparison import pair
from tunecheck.datasets import SOURCE_ID, TRIAL, Dataset, UnusableRowError, open_dataset, sidecar_path, sidecar_text
from tunecheck.endpoints import first_accepted_answer, openai_tools, read_messages
from tunecheck.episodes import Player, Scenario, ToolsDialect, Wording, read_scenario, step_row
from tunecheck.formats import read_calls, read_python_calls
from tunecheck.pipeline import VerdictReader, counted_metrics
from tunecheck.plugins import JSON
from tunecheck.results import NONE, Clusters, clusters_of, may_cluster, read_runs
from tunecheck.runs import dumps_readably, value_reader
from tunecheck.simulators import Backend, Backends
from tunecheck_authoring._audit.checks import columns_of
from tunecheck_authoring._author.world import as_list

Message: TypeAlias = dict[str, JSON]
Calls: TypeAlias = Sequence[FunctionCall]
Values: TypeAlias = Mapping[str, JSON]

_QUESTIONS = ("messages", "query", "question", "prompt", "input")
"""Columns that may hold the question. The first one that a row has counts."""

_CONVERSATION = ("turns", "inference_log")
"""Columns that only conversations have, in the data or in the target's outputs."""

_DONE = "Done."
_UNABLE = "I cannot do that with what I have so far."
"""The last messages of turns with and without calls. They are context only: no example trains on them."""


class Example(msgspec.Struct, frozen=True):
    """A training example: the `messages`, the right reply, and the model's wrong reply (None if there was no reply).

    A reply is a text, calls, or both.

    `parallel` is the row's `parallel_tool_calls`. `row_id` is the failed row's id in the run, `source_id` its id in the
    data set, which all trials share. `cause` is the cause of the failure, if known.
    """

    messages: list[Message]
    tools: list[JSON]
    right_reply: Reading
    actual_reply: Reading | None = None
    parallel: bool | None = None
    row_id: str = ""
    source_id: str = ""
    cause: str = ""


def _message(reply: Reading) -> Message:
    """Return the reply as an assistant's message of OpenAI's API, with arguments as JSON text."""
    calls: Message = {"tool_calls": write_calls(reply.calls, "openai")} if reply.calls else {}
    return {"role": "assistant", **calls, **({"content": reply.text} if reply.text or not calls else {})}


def _for_trl(message: Message) -> Message:
    """Return a message with the arguments of calls as objects, as chat templates and TRL expect them.

    OpenAI's API has `"arguments": "{\\"city\\": \\"Rome\\"}"`, TRL `"arguments": {"city": "Rome"}`.
    """
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [*map(_call_for_trl, calls)]} if isinstance(calls, list) else message


def _call_for_trl(call: JSON) -> JSON:
    """Return a call with its arguments as an object. Unreadable arguments stay text."""
    function = call.get("function") if isinstance(call, dict) else None
    text = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(call, dict) and isinstance(function, dict) and isinstance(text, str):
        with suppress(ValueError):
            return {**call, "function": {**function, "arguments": plugins.loads(text)}}
    return call


def is_conversation(row: Values) -> bool:
    """True if a run's row has a column that only conversations have, such as `turns`."""
    return any(row.get(f"{side}.{name}") for side in ("inputs", "outputs") for name in _CONVERSATION)


class FailedRows:
    """Reader of a run's failed rows as examples, by the run's column mapping; it counts skipped and unusable rows."""

    def __init__(self, run: Run, options: authoring.ExportOptions, report: ExportReport, *, single: bool) -> None:
        """Prepare to read a run's failed rows.

        If `single`, a conversation gives one example: the first expected call that was not made. Otherwise it gives an
        example for each expected call from the failed turn on. Skipped rows are counted in `report`.

        Raises:
            ConfigurationError: the run lacks the chosen evaluator.
        """
        manifest, name, question = run.manifest(), options.evaluator, options.question
        if name is not None and name not in manifest.evaluators:
            raise ConfigurationError(f"run {run.id} has no evaluator {name!r}; known: {', '.join(manifest.evaluators)}")

        primaries = {each: entry.primary for each, entry in manifest.evaluators.items() if name in (None, each)}
        metrics = counted_metrics(run.rows(), primaries)
        self._verdicts = [VerdictReader(each, metric) for each, metric in metrics.items()]

        self._truth = value_reader(manifest, "ground_truth", ("ground_truth", "answer"))
        self._response = value_reader(manifest, "response", ("response",))
        self._tools = value_reader(manifest, "tool_definitions", TOOL_COLUMNS)
        self._messages = value_reader(manifest, "messages", _QUESTIONS if question is None else (question,))
        self._message_columns = question or " or ".join(_QUESTIONS[:2])

        # Simulators load only if the data file is trusted; without a data file, only if the run's folder is.
        place = run.folder if manifest.dataset.path is None else Path(manifest.dataset.path)
        self._backends = Backends(trust=plugins.Trust.of_command(options.trust or ()).of(place))
        self._causes, self._report, self._single = options.cause, report, single

    def fails(self, row: Values) -> bool:
        """Return True if the target had an error on the row, or a counted evaluator failed it."""
        return "error.target" in row or any(reader.word(row) == "fail" for reader in self._verdicts)

    def is_selected(self, row: Values) -> bool:
        """Return True if a failed row's cause is selected; if not, count the row as left out.

        Without --cause, the causes of the model are selected, and failures without a known cause.
        """
        code = str(row.get("cause") or "")
        if self._causes:
            is_selected, reason = code in self._causes, "the cause of the failure is not selected by --cause"
        else:
            # Training cannot fix a fault of serving.
            is_selected = not code or plugins.cause_named(code).side == "model"
            reason = f"perhaps not the model's fault: {code} (export these rows with --cause {code})"

        if not is_selected:
            self._report.left_out[reason] += 1
        return is_selected

    def examples(self, row: Values) -> list[Example]:
        """Return the examples of a row; an unusable row is counted as left out and has none.

        A conversation gives one example if `single` was set, else one for each expected call from the failed turn on.
        """
        # A run's rows have the data's columns as `inputs.…` and the target's as `outputs.…`.
        data, target = (columns_of(row, prefix) for prefix in ("inputs.", "outputs."))
        row_id = str(row.get("row_id"))
        # All trials of a question have its id in the data set, and leave the test set with it.
        source_id = str(data.get(SOURCE_ID, row_id)) if TRIAL in data else row_id

        try:
            if not is_conversation(row):
                found = [self._question_example(data, target)]
            else:
                turn = self._failed_turn(row)
                conversation = ExpectedConversation(data, self._backends)
                found = [conversation.differing(target, turn)] if self._single else conversation.from_turn(turn)
            if not found:
                raise UnusableRowError("the failed turn and the turns after it have no expected call")
        except UnusableRowError as error:
            self._report.left_out[str(error)] += 1
            return []
        cause = str(row.get("cause") or "")
        return [msgspec.structs.replace(each, row_id=row_id, source_id=source_id, cause=cause) for each in found]

    def _failed_turn(self, row: Values) -> int:
        """Return the first failed turn of a conversation, counted from 0; 0 if no fault names a turn.

        If this turn comes after the last one that the model answered, the last answered turn counts.
        """
        verdicts = [reader.read(row) for reader in self._verdicts]
        faults = (fault for verdict in verdicts if verdict.word == "fail" for fault in verdict.faults)
        turn = min((fault.turn for fault in faults if fault.turn), default=1)  # faults count turns from 1

        # A fault may name a turn after the last one that the model answered.
        result = row.get("outputs.result")
        return min(turn, max(len(result), 1)) - 1 if isinstance(result, list) else turn - 1

    def _question_example(self, data: Values, target: Values) -> Example:
        """Return the example of a row with a single question.

        `data` are the row's columns of the data set, and `target` those of the target's outputs.

        Raises:
            UnusableRowError: the row has no messages or right answer, or its tools cannot be read.
        """
        try:
            tools = [dict(tool) for tool in openai_tools(self._tools(data, target)) or ()]
            messages = [dict(message) for message in read_messages(self._messages(data, {}), self._message_columns)]
            definitions = ToolDefinitions.read(tools)
        except ValueError as error:
            raise UnusableRowError(str(error)) from None

        right = self._right_reply(data, target, tools, definitions)
        actual = _actual_reply(self._response(data, target), target, definitions)

        parallel = data.get("parallel_tool_calls")
        return Example(messages, [*tools], right, actual, parallel if isinstance(parallel, bool) else None)

    def _right_reply(
        self, data: Values, target: Values, tools: list[dict[str, JSON]], definitions: ToolDefinitions
    ) -> Reading:
        """Return the right reply to a question: calls, or a text if the ground truth has no calls.

        `data` are the row's columns of the data set, `target` those of the target's outputs, and `definitions` the
        tools after reading.

        Raises:
            UnusableRowError: the ground truth is empty or cannot be read.
        """
        truth = self._truth(data, target)
        if isinstance(data.get("check"), str):  # a question of BFCL: its ground truth lists accepted values
            truth = first_accepted_answer({**data, "ground_truth": truth}, tools)

        reading = read_calls(truth, tools=definitions or None)
        if reading.problem is not None:
            raise UnusableRowError(f"the row's ground truth cannot be read: {reading.problem}")

        text = truth if isinstance(truth, str) and not reading.calls else reading.text
        if not text and not reading.calls:
            raise UnusableRowError("the row has no ground truth")
        return Reading(reading.calls, text)


def _actual_reply(response: JSON, target: Values, tools: ToolDefinitions) -> Reading | None:
    """Return the model's reply to a question, or None if it has neither text nor calls.

    If the response is a list of calls, the text beside them is in the target's column `text`.
    """
    reading = read_calls(response, tools=tools or None)
    if reading.complete_calls:
        text = target.get("text") if isinstance(response, list) else None
        return Reading(reading.calls, text if isinstance(text, str) else reading.text)

    text = response if isinstance(response, str) else target.get("text")
    return Reading(text=text) if isinstance(text, str) and text else None


class ExpectedConversation:
    """A conversation's expected calls, each with the messages before it."""

    def __init__(self, data: Values, backends: Backends) -> None:
        """Read a conversation's expected calls and start its simulators.

        `data` are the row's columns of the data set.

        Raises:
            UnusableRowError: the row is no conversation, has long context, its simulators cannot start, or its calls
                cannot be read.
        """
        row = Row(0, "", data, "")
        try:
            self._scenario = read_scenario(row, backends)
            self._backend = backends.start(self._scenario.simulators, self._scenario.config)
        except ValueError as error:
            raise UnusableRowError(str(error)) from None

        if self._scenario.long_context:
            raise UnusableRowError("conversations with long context cannot be exported")

        tools, turns = self._scenario.all_tools(), range(len(self._scenario.turns))
        answers = (step_row(row, turn, 0, tools).values["ground_truth"] for turn in turns)
        self._truth: list[Calls] = [read_calls(answer).calls for answer in answers]
        # Each item of the ground truth must give one call, otherwise some of them were not read.
        expected_counts = [len(as_list(each)) for each in as_list(data.get("ground_truth"))]
        if expected_counts != [*map(len, self._truth)]:
            raise UnusableRowError("the calls of the row's ground truth cannot be read")

    def from_turn(self, first_turn: int) -> list[Example]:
        """Return an example for each expected call from this turn (counted from 0) on."""
        return [example for turn, example in self._examples() if turn >= first_turn]

    def differing(self, target: Values, failed_turn: int) -> Example:
        """Return the example for the first expected call of the failed turn that the model did not make.

        The rejected reply is the model's wrong call, or else the last text of the turn, or else None. `target` are
        the target's outputs, and `failed_turn` counts from 0.

        Raises:
            UnusableRowError: All expected calls were made.
        """
        texts = [text for step in _steps(target, "calls_made", failed_turn) for text in as_list(step)]
        actual = [call for text in texts for call in read_python_calls(str(text)).calls]

        for turn, example in self._examples():
            right = example.right_reply.calls[0]
            # Expected calls that the model made are among the example's messages.
            if turn == failed_turn and right not in actual:
                wrong = [call for call in actual if call not in self._truth[turn]]
                reply = _wrong_call(right, wrong, self._backend) or _text_reply(target, turn)
                return msgspec.structs.replace(example, actual_reply=reply)
        raise UnusableRowError("the model made every expected call of the turn, so there is no pair to learn from")

    def _examples(self) -> Iterator[tuple[int, Example]]:
        """Yield an example for each expected call, with its turn.

        Each call is executed only after its example was yielded, so that the backend has the state before it.
        """
        scenario: Scenario = self._scenario
        dialect = ToolsDialect(scenario.offer, Wording())
        messages: list[Message] = []

        for turn, turn_messages in enumerate(scenario.turns):
            added = scenario.held_out.get(turn)
            # A turn that adds functions and has no message gets one that announces them.
            new = turn_messages if added is None else dialect.add(added, turn_messages)
            messages += [dict(each) for each in new]

            for number, call in enumerate(self._truth[turn]):
                tools: list[JSON] = [dict(tool) for tool in dialect.tools or ()]
                yield turn, Example([*messages], tools, Reading((call,)))
                # OpenAI's format needs an id for each call and its result, and the ground truth has none.
                id_ = f"call_{turn}_{number}"
                messages.append({"role": "assistant", "tool_calls": write_calls([replace(call, id=id_)], "openai")})
                messages.append({"role": "tool", "tool_call_id": id_, "content": self._backend.call(call).text})

            messages.append({"role": "assistant", "content": _DONE if self._truth[turn] else _UNABLE})


def _wrong_call(right: FunctionCall, wrong: Calls, backend: Backend) -> Reading | None:
    """Return the wrong call that the model made in place of the right one, as a reply; None if there is none.

    `wrong` are the model's calls that are not expected, and `backend` has the state before the right call. Prefer a
    call of the same function to one that changes the state or fails. Another call that only reads is no mistake.
    """
    same = next((call for call in wrong if call.name == right.name), None)

    player = Player(backend)
    steps = ((call, player.call(call)) for call in wrong)
    call = same or next((call for call, step in steps if step.changes or step.result.error), None)
    return None if call is None else Reading((call,))


def _text_reply(target: Values, turn: int) -> Reading | None:
    """Return the last text of a turn as the model's reply, or None if there is none."""
    last = next(reversed(_steps(target, "result", turn)), None)
    return Reading(text=last) if isinstance(last, str) and last else None


def _steps(target: Values, column: str, turn: int) -> list[JSON]:
    """Return the steps of a turn in a target's column, or an empty list if it has no such turn."""
    turns = as_list(target.get(column))
    return as_list(turns[turn]) if turn < len(turns) else []


def _canonical_key(example: Example, *, paired: bool) -> bytes:
    """Return a key that is equal for examples with the same content, apart from the ids of calls.

    The model's wrong reply counts only if `paired`.
    """
    messages = [*example.messages, _message(example.right_reply)]
    if paired and example.actual_reply is not None:
        messages.append(_message(example.actual_reply))
    return plugins.dumps([[*map(_without_ids, messages)], example.tools])


def _without_ids(message: Message) -> JSON:
    """Return a message with only the functions of its calls, because equal calls may have different ids."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [call.get("function") if isinstance(call, dict) else call for call in calls]}


# -- writing

Form: TypeAlias = Literal["sft", "dpo", "openai"]
FORMS: tuple[Form, ...] = ("sft", "dpo", "openai")


class ExportedRow(msgspec.Struct, frozen=True):
    """The source of a line: the row's id and the cause of its failure (null if unknown)."""

    id: str
    cause: str | None


class ExportFile(msgspec.Struct, frozen=True, kw_only=True):
    """`<file>.source.json`: the source of each line of examples.

    `left` is the data set without the exported rows; null if the rows belong to no test set.
    """

    format_version: int = plugins.FORMAT_VERSION
    run: str
    against: str | None = None
    form: Form
    dataset: str | None = None
    sha256: str | None = None
    left: str | None = None
    rows: list[ExportedRow]


class ExportReport(msgspec.Struct):
    """The result of an export: examples by cause ("" if unknown), equal examples, and skipped rows by reason.

    `failed` counts the failed rows of `rows`; `leaving` holds the ids of exported rows. `rest` counts the rows that
    stay in the test set, `left_along` those that leave it because they share the value of column `by` with an
    exported row.
    """

    out: Path
    source: Path
    rows: int = 0
    failed: int = 0
    written: Counter[str] = msgspec.field(default_factory=Counter)
    equal: int = 0
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    leaving: set[str] = msgspec.field(default_factory=set)
    rest: int | None = None
    left_along: int = 0
    by: str | None = None


def export(run: Run, options: authoring.ExportOptions, against: Run | None = None) -> ExportReport:
    """Write the failed rows of `run` as examples with their right answers, grouped by cause.

    With `against`, write the rows that exactly one of the two runs got right, with that run's answer as the preferred
    answer. Without `--cause`, serving faults are left out: training cannot fix them. An interrupted export leaves no
    partial files.

    Raises:
        ConfigurationError: A run is unfinished, a file exists or cannot be written, or no row can be exported.
    """
    out = options.out or Path("datasets") / f"{run.id}-{options.to}.jsonl"
    _check_simulated(run, against, options)
    _check_files(run, out, options)

    report = ExportReport(out, out.with_suffix(".source.json"))
    # TRL's form dpo always has pairs. OpenAI's form has them if a second run gives the preferred replies.
    paired = options.to == "dpo" or (options.to == "openai" and against is not None)
    reader = FailedRows(run, options, report, single=paired)

    found = _failed_examples(run, reader, report)
    if against is not None:
        found = _pairs((run, against), (reader, FailedRows(against, options, report, single=paired)), report)

    examples = [*_distinct(found, report, paired=paired)]
    if not examples:
        what = "failed" if against is None else "got a right answer from just one run"
        raise ConfigurationError(f"run {run.id} has no rows to export: {_why_nothing(report, what)}")

    rank = {code: number for number, code in enumerate(plugins.order_causes({example.cause for example in examples}))}
    # Sorting is stable, so rows of one cause stay in the order of the run.
    examples.sort(key=lambda example: rank[example.cause])
    report.written.update(example.cause for example in examples)
    # The test set comes first: if it cannot be written, no training file is made.
    if options.leave_test_set is not None:
        with plugins.raise_as(ConfigurationError, options.leave_test_set, "cannot be written"):
            _write_rest(run, options.leave_test_set, report)

    with plugins.raise_as(ConfigurationError, out, "cannot be written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with plugins.replacing(out) as temporary, temporary.open("wb") as file:
            file.writelines(plugins.dumps_line(_as_record(each, options.to, paired=paired)) for each in examples)
        plugins.write_file(report.source, dumps_readably(_sources(run, against, options, examples)))
    return report


def _check_simulated(run: Run, against: Run | None, options: authoring.ExportOptions) -> None:
    """Refuse runs with simulated answers, unless the options allow them."""
    if options.allow_simulated:
        return
    for each in (run, against) if against is not None else (run,):
        if each.manifest().simulated or any(row.get("outputs.simulated") is True for row in each.rows()):
            raise ConfigurationError(
                f"run {each.id} has simulated answers; to export them, give {plugins.ALLOW_SIMULATED}"
            )


def _check_files(run: Run, out: Path, options: authoring.ExportOptions) -> None:
    """Refuse output files without the ending .jsonl, the run's own data, and existing files without --overwrite."""
    rest = () if options.leave_test_set is None else (options.leave_test_set, sidecar_path(options.leave_test_set))
    source = run.manifest().dataset.path

    for path in (out, *rest):
        # The sidecar of the test set is a .yaml file.
        if path.suffix.lower() not in (".jsonl", ".yaml"):
            raise ConfigurationError(f"{path}: the name must end in .jsonl, such as {path.with_suffix('.jsonl').name}")
        if path.exists() and source is not None and Path(source).exists() and path.samefile(source):
            raise ConfigurationError(f"{path} is the data of run {run.id}; choose another output file")
        if path.exists() and not options.overwrite:
            raise ConfigurationError(f"{path} exists; choose another name, or replace the file with --overwrite")


def _why_nothing(report: ExportReport, what: str) -> str:
    """Return the reason why no row was exported: there is none, or the most frequent reasons for leaving rows out.

    `what` says which rows are exported, as a part of the sentence: "failed".
    """
    if not report.failed:
        return f"none of the {plugins.plural(report.rows, 'row')} {what}"
    reasons = "; ".join(f"{reason} ({count:,})" for reason, count in report.left_out.most_common(3))
    return f"none of the {plugins.plural(report.failed, 'row')} that {what} is usable: {reasons}"


def _failed_examples(run: Run, reader: FailedRows, report: ExportReport) -> Iterator[Example]:
    """Yield the examples of a run's failed and selected rows, and count rows and failures in the report."""
    for row in run.rows():
        failed = reader.fails(row)
        report.rows, report.failed = report.rows + 1, report.failed + (1 if failed else 0)

        if failed and reader.is_selected(row):
            yield from reader.examples(row)


def _pairs(runs: tuple[Run, Run], readers: tuple[FailedRows, FailedRows], report: ExportReport) -> Iterator[Example]:
    """Yield examples for rows that exactly one run got right: its reply is preferred, the other run's rejected.

    In conversations, the expected call is preferred, because the passing run may have made needless calls. `readers`
    read the failed rows of the two runs.
    """
    base_table, new_table = read_runs([run.folder for run in runs], runs[0].folder.parent)
    pairing = pair(base_table, new_table)

    rows = [run.rows() for run in runs]
    # The positions of two paired rows, one in each run
    for base, new in zip(pairing.base, pairing.new, strict=True):
        pair_rows = rows[0][base], rows[1][new]
        fails = [reader.fails(row) for reader, row in zip(readers, pair_rows, strict=True)]
        report.rows, report.failed = report.rows + 1, report.failed + (1 if fails[0] != fails[1] else 0)

        failing, passing = (0, 1) if fails[0] else (1, 0)  # positions in `runs`
        row, reader = pair_rows[failing], readers[failing]
        if fails[0] == fails[1] or not reader.is_selected(row):
            continue

        failed = reader.examples(row)
        if is_conversation(row):
            yield from failed
            continue

        # One of the runs may have an unusable row: then there is no pair.
        for example, other in zip(failed, readers[passing].examples(pair_rows[passing]), strict=False):
            if other.actual_reply is not None:
                yield msgspec.structs.replace(example, right_reply=other.actual_reply)
            else:
                report.left_out["the run with the right answer gave no reply to prefer"] += 1


def _distinct(examples: Iterable[Example], report: ExportReport, *, paired: bool) -> Iterator[Example]:
    """Yield each distinct example once, and count equal examples. The rows of both are noted as leaving the test set.

    If `paired`, examples without a rejected reply are skipped and counted; their rows stay.
    """
    known: set[bytes] = set()
    for example in examples:
        if paired and example.actual_reply is None:
            report.left_out["the model gave no reply to reject"] += 1
            continue

        report.leaving.add(example.source_id)
        key = _canonical_key(example, paired=paired)
        if key in known:
            report.equal += 1
        else:
            known.add(key)
            yield example


def _as_record(example: Example, form: str, *, paired: bool) -> dict[str, JSON]:
    """Return an example as a record of the file's form: a preference if `paired`, otherwise a chat.

    For OpenAI `{"messages": [{"role": "user", …}, {"role": "assistant", …}], "tools": […]}`, or
    `{"input": {"messages": […], "tools": […]}, "preferred_output": [{…}], "non_preferred_output": [{…}]}`. For TRL
    `prompt` with `completion`, or with `chosen` and `rejected`.
    """
    right = _message(example.right_reply)
    wrong = _message(example.actual_reply) if paired and example.actual_reply is not None else None
    tools: dict[str, JSON] = {"tools": example.tools} if example.tools else {}

    if form != "openai":
        prompt: dict[str, JSON] = {"prompt": [*map(_for_trl, example.messages)], **tools}
        if wrong is None:
            return {**prompt, "completion": [_for_trl(right)]}  # TRL trains only on the completion
        return {**prompt, "chosen": [_for_trl(right)], "rejected": [_for_trl(wrong)]}

    # OpenAI refuses this setting in a request without tools.
    if tools and example.parallel is not None:
        tools["parallel_tool_calls"] = example.parallel
    if wrong is not None:
        asked: JSON = {"messages": [*example.messages], **tools}
        return {"input": asked, "preferred_output": [right], "non_preferred_output": [wrong]}

    # Earlier assistant messages have weight 0, because they did not fail.
    history = [{**each, "weight": 0} if each.get("role") == "assistant" else each for each in example.messages]
    return {"messages": [*history, right], **tools}


def _sources(run: Run, against: Run | None, options: authoring.ExportOptions, examples: list[Example]) -> ExportFile:
    """Return the content of the file that names the source of each exported line."""
    dataset = run.manifest().dataset
    return ExportFile(
        run=run.id,
        against=None if against is None else against.id,
        form=cast("Form", options.to),
        dataset=dataset.path or dataset.name,
        sha256=dataset.sha256,
        left=None if options.leave_test_set is None else str(options.leave_test_set),
        rows=[ExportedRow(example.row_id, example.cause or None) for example in examples],
    )


def _write_rest(run: Run, rest: Path, report: ExportReport) -> None:
    """Write the data set without the exported rows and the rows of their clusters to the file `rest`, with a sidecar.

    Note in the report how many rows stay, and how many leave because of an exported row of their cluster. The
    clusters of all exported rows are found first, because a row may come before the exported row of its cluster.

    Raises:
        ConfigurationError: the run's data is unknown or has changed, or no row would stay.
    """
    known = run.manifest().dataset
    if not known.path:
        advice = "remove the exported rows from your test set yourself, and give --no-test-set"
        raise ConfigurationError(f"--leave-test-set: run {run.id} has no data file; {advice}")

    dataset = open_dataset(known.path, number_ids=True)
    if known.sha256 is not None and dataset.scan().sha256 != known.sha256:
        raise ConfigurationError(f"{known.path} has changed since run {run.id}; make a new run with this data first")

    clusters = _find_clusters(dataset, known.cluster or dataset.defaults.cluster or dataset.defaults.group_key)
    report.by = None if clusters is None else clusters.by
    labels = repeat(None) if clusters is None else clusters.labels
    # Rows without a label belong to no cluster.
    removed = {label for row, label in zip(dataset.rows(), labels, strict=False) if row.id in report.leaving} - {None}

    kept = 0
    rest.parent.mkdir(parents=True, exist_ok=True)
    with plugins.replacing(rest) as temporary:
        with temporary.open("wb") as file:
            for row, label in zip(dataset.rows(), labels, strict=False):
                if row.id in report.leaving:
                    continue
                if label in removed:
                    report.left_along += 1
                    continue
                file.write(plugins.dumps_line(dict(row.values)))
                kept += 1

        if not kept:
            raise ConfigurationError(f"the export would remove all test rows of {known.path}; export less with --cause")

    report.rest = kept
    left = len(report.leaving) + report.left_along
    words = f"{dataset.name} without {left:,} rows: the rows of {report.out.name} (run {run.id}) and of their clusters."
    plugins.write_file(sidecar_path(rest), sidecar_text(dataset.defaults, description=words).encode())


def _find_clusters(dataset: Dataset, declared: str | None) -> Clusters | None:
    """Return the clusters of rows by the declared column, or else by a detected one, as comparisons do.

    Returns None if clusters are turned off or no column can cluster the rows.
    """
    if declared == NONE:
        return None

    columns = {name: None for row in dataset.rows() for name in row.values if name == declared or may_cluster(name)}
    values: dict[str, list[str | None]] = {name: [] for name in columns}
    for row in dataset.rows():
        for name, labels in values.items():
            value = row.values.get(name)
            # The labels are JSON texts, so 1 and "1" differ.
            labels.append(None if value is None else plugins.dumps(value).decode())
    return clusters_of(named=None, declared=declared, labels=values)
